"""The notebook extension: the cell magics %%kernel and %%exercise, and tracebacks without minigrad's own frames.

An error shows the lines of the cell and the message; `%tb` shows all frames. IPython's shell is an argument, so that
nothing here imports IPython.
"""

import os
import sys
from dataclasses import replace
from keyword import iskeyword
from types import TracebackType
from typing import Any

from minigrad.lab import check, progress
from minigrad.lab.check.answer import Answer
from minigrad.lab.exercises.course import all_exercises, exercise
from minigrad.op import OPS, Op
from minigrad.source import PACKAGE

_HOME = f"{PACKAGE}{os.sep}"


def shorten(shell: Any) -> None:
    """Hide minigrad's frames in tracebacks, unless another handler of exceptions is installed."""

    def shown(shell: Any, kind: type, error: BaseException, trace: TracebackType, tb_offset: int | None = None) -> None:
        shell.showtraceback((kind, error, _shortened(trace)), tb_offset=tb_offset)
        sys.last_traceback = trace  # for %tb and %debug

    if not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), shown)


def _shortened(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without minigrad's frames at its end; whole if another package raised."""
    frames = []
    while trace:
        frames.append(trace)
        trace = trace.tb_next
    rest = None
    for frame in reversed(frames):
        if rest or not frame.tb_frame.f_code.co_filename.startswith(_HOME):
            rest = TracebackType(rest, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return rest


def register(shell: Any) -> None:
    def kernel(line: str, cell: str) -> Answer:
        """%%kernel OP KERNEL [NAME], or %%kernel OP_KERNEL [NAME]: try the cell in place of that kernel.

        After a pass NAME is the op with your kernel.
        """
        words = line.split()
        found = kernel_answer(words, cell, shell.user_ns)
        return _kept(found, "kernel", " ".join(_named(words)[:2]), progress.notebook_number(), cell)

    def exercise_(line: str, cell: str) -> Answer:
        """%%exercise NAME: check the cell; after a pass NAME is the kernel, function or record that it is about."""
        if not (name := line.strip()):
            return Answer(False, f"Write %%exercise and a name: {', '.join(all_exercises())}.", "usage")
        try:
            chosen = exercise(name)
        except ValueError as error:
            return Answer(False, str(error), "usage")
        found = _store(chosen.check(cell, shell.user_ns), name, chosen.becomes, shell.user_ns)
        return _kept(found, "exercise", name, chosen.notebook, cell)

    shell.register_magic_function(kernel, "cell", "kernel")
    shell.register_magic_function(exercise_, "cell", "exercise")


def kernel_answer(words: list[str], cell: str, names: dict[str, Any]) -> Answer:
    """The answer to a cell with these words after %%kernel; a pass goes into `names`."""
    words = _named(words)
    op = OPS.get(words[0]) if words else None
    if op is None or len(words) not in (2, 3) or words[1] not in op.kernels:
        ways = "Write %%kernel, an op and one of its kernels: %%kernel matmul tiled, or %%kernel matmul_tiled."
        return Answer(False, f"{ways} {_unknown(op, words)}", "usage")
    if words[2:] and (not words[2].isidentifier() or iskeyword(words[2])):
        return Answer(False, f"{words[2]!r} is not a variable name; give the op another one.", "usage")
    if words[2:] and not isinstance(names.get(words[2], op), Op):
        return Answer(False, f"`{words[2]}` is something else already; give the op another name.", "usage")
    found = check.kernel(op, words[1], cell)
    return _store(found, words[2] if words[2:] else f"my_{op.name}", f"{op.name} with your kernel", names)


def _named(words: list[str]) -> list[str]:
    """Op, kernel and the words after them."""
    return [*_split(words[0]), *words[1:]] if words else []


def _split(name: str) -> list[str]:
    """Op and kernel of a kernel's name in CUDA: matmul_tiled is matmul tiled. Other names stay as they are."""
    known = ([op.name, role] for op in OPS.values() for role, kernel in op.kernels.items() if kernel.name == name)
    return next(known, [name])


def _unknown(op: Op | None, words: list[str]) -> str:
    if op is None:
        return (f"There is no op {words[0]!r}; there are " if words else "The ops are ") + f"{', '.join(OPS)}."
    if words[1:] and words[1] in op.kernels:
        return f"{' '.join(words[3:])!r} is too much: after the kernel there may be one name for the op, {words[2]!r}."
    missing = f"no kernel {words[1]!r}; it has " if words[1:] else ""
    return f"{op.name} has {missing}{', '.join(op.kernels) or 'no kernels'}."


def _store(found: Answer, name: str, what: str, names: dict[str, Any]) -> Answer:
    """After a pass, store the result under that name."""
    if not found.correct:
        return found
    names[name] = found.result
    return replace(found, text=f"{found.text}\n`{name}` is now {what}.")


def _kept(found: Answer, kind: str, name: str, notebook: str, text: str) -> Answer:
    """After a pass, keep the text for later sessions; the answer says where that went wrong."""
    note = progress.remember(kind, name, notebook, text) if found.correct else ""
    return replace(found, text=f"{found.text}\n{note}") if note else found
