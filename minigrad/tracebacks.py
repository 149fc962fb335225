"""What a cell shows where minigrad refuses something: the cell's own lines, and the sentence.

The frames within minigrad say nothing to a reader; `%tb` shows them. Nothing here imports IPython: its shell is handed
in.
"""

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

_HOME = f"{Path(__file__).parent}{os.sep}"


def shorten(shell: Any) -> None:
    """Let IPython's shell leave minigrad's own frames out, unless somebody else has set how it shows exceptions."""

    def shown(shell: Any, kind: type, error: BaseException, trace: TracebackType, tb_offset: int | None = None) -> None:
        shell.showtraceback((kind, error, readers(trace)), tb_offset=tb_offset)
        sys.last_traceback = trace  # for %tb and %debug

    if not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), shown)


def readers(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames at its end that are minigrad's; whole where another package raised."""
    frames = []
    while trace:
        frames.append(trace)
        trace = trace.tb_next
    while frames and frames[-1].tb_frame.f_code.co_filename.startswith(_HOME):
        frames.pop()
    kept = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept
