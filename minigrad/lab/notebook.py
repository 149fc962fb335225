"""The notebook extension: the cell magics %%kernel, %%exercise and %%mpi, and errors that a page can hold.

An error shows the lines of the cell and the message, folded between words; `%tb` shows all frames. C++ that Python was
given to read is answered in a sentence. IPython's shell is an argument, so that nothing here imports IPython.
"""

import linecache
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from keyword import iskeyword
from types import TracebackType
from typing import Any

from minigrad.display import folded
from minigrad.errors import RankError
from minigrad.lab import check, progress, ranks
from minigrad.lab.check.answer import Answer
from minigrad.lab.exercises.course import all_exercises, exercise
from minigrad.lab.ranks import UsageError
from minigrad.op import OPS, Op
from minigrad.source import PACKAGE

_HOME = f"{PACKAGE}{os.sep}"
_MAGIC = re.compile(r"run_line_magic\('(%?)(kernel|exercise|mpi)'")  # IPython's form of a cell magic that is not one
_CUDA = re.compile(r'extern\s+"C"|__global__|#include\b')
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


def shorten(shell: Any) -> None:
    """Hide minigrad's frames in tracebacks and fold messages, unless another handler of exceptions is installed."""

    def shown(shell: Any, kind: type, error: BaseException, trace: TracebackType, tb_offset: int | None = None) -> None:
        cell = linecache.getlines(error.filename or "") if isinstance(error, SyntaxError) else []
        sentence = str(error) if isinstance(error, UsageError) else misplaced("".join(cell))
        display = shell._showtraceback

        def fold(kind: type, error: BaseException, lines: list[str]) -> None:
            lines = [folded(f"SyntaxError: {sentence}")] if sentence else [*lines[:-1], _folded(lines[-1])]
            if isinstance(error, RankError):  # the frames are those of the rank
                lines = [*filter(None, [error.trace]), lines[-1]]
            display(kind, error, lines)

        shell._showtraceback = fold  # to it IPython hands what it has made of the error
        try:
            shell.showtraceback((kind, error, _shortened(trace)), tb_offset=tb_offset)
        finally:
            del shell._showtraceback
        sys.last_traceback = trace  # for %tb and %debug

    if not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), shown)


def misplaced(cell: str) -> str:
    """The answer to CUDA C++ that is given to Python; empty if the cell, as IPython passes it on, has no such thing."""
    if found := _MAGIC.search(cell):
        return _to_first_line(found[2]) if found[1] else _to_two_signs(found[2])
    if _CUDA.search(cell):
        return (
            "this is CUDA C++, and the cell is read as Python. Its first line must be `%%kernel` with a kernel, "
            "or `%%exercise` with a name; the C++ of mg.kernel stands in quotes."
        )
    return ""


def _to_first_line(magic: str) -> str:
    return f"`%%{magic}` must be the first line of its cell. Move what is above it into the cell, or delete it."


def _to_two_signs(magic: str) -> str:
    return f"Write `%%{magic}` with two percent signs, in the first line of the cell: it takes the whole cell."


def _folded(message: str) -> str:
    """The last lines of a traceback folded between words; the kind of the error keeps its colour."""
    plain = _COLOURS.sub("", message)
    kind, colon, _ = plain.partition(":")
    coloured = re.match(rf"(?:{_COLOURS.pattern})*{re.escape(kind)}(?:{_COLOURS.pattern})*", message)
    return coloured[0] + folded(plain)[len(kind) :] if colon and coloured else message


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
        return _kept(found, "exercise", name, chosen.notebook, cell, *chosen.help)

    def mpi(line: str, cell: str) -> None:
        """%%mpi RANKS [--get NAME ...] [--timeout SECONDS]: run the cell as a script on ranks of MPI.

        Each time it is a new job, which knows nothing of the notebook. NAME is then a list here, one value a rank.
        """
        ranks.run_cell(line, cell, shell.user_ns)

    def misplace(sentence: str) -> Callable[[str], None]:
        def magic(line: str) -> None:
            raise UsageError(sentence)

        return magic

    for name, magic in (("kernel", kernel), ("exercise", exercise_), ("mpi", mpi)):
        shell.register_magic_function(magic, "cell", name)
        shell.register_magic_function(misplace(_to_two_signs(name)), "line", name)
        shell.register_magic_function(misplace(_to_first_line(name)), "line", f"%{name}")


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


def _kept(found: Answer, *solved: Any) -> Answer:
    """After a pass, remember what was solved for later sessions; the answer says where that went wrong."""
    note = progress.remember(*solved) if found.correct else ""
    return replace(found, text=f"{found.text}\n{note}") if note else found
