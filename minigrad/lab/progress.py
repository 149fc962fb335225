"""A reader's solved exercises and own kernels, kept over sessions: `mg.progress()`.

After a pass of `%%exercise` or `%%kernel` the text of the cell goes with its date into one JSON file in the user's data
folder, or in the file that MINIGRAD_PROGRESS names; MINIGRAD_PROGRESS=off keeps nothing.
"""

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from minigrad.display import Table, Tabular, table
from minigrad.lab.exercises import KernelExercise
from minigrad.lab.exercises.course import all_exercises

KINDS = ("exercise", "kernel")


@dataclass(frozen=True)
class Solved:
    """A text that passed: an exercise by its name, or in place of an op's kernel, "matmul tiled"."""

    kind: str  # of KINDS
    name: str
    notebook: str  # its number; empty where it is not known
    date: str  # ISO, local time
    text: str
    hints: int = 0  # taken before the first pass
    shown: bool = False  # the solution was looked at before the first pass

    @property
    def help(self) -> str:
        """The help taken, in words."""
        hints = f"{self.hints} hint{'s' * (self.hints != 1)}" if self.hints else ""
        return ", ".join(filter(None, (hints, "solution seen" if self.shown else "")))

    @property
    def own_kernel(self) -> bool:
        """True if the text is a kernel."""
        return self.kind == "kernel" or isinstance(all_exercises().get(self.name), KernelExercise)


SAMPLE = Solved("", "", "", "", "")  # for the types of the fields


@dataclass(frozen=True, repr=False)
class Progress(Tabular):
    """All exercises with the day on which each was solved and the help taken, and the kernels written for an op.

    solved: what passed, the oldest first. note: a sentence where the file was damaged or cannot be used.
    """

    solved: tuple[Solved, ...]
    note: str = ""

    def table(self) -> Table:
        done = {each.name: each for each in self.solved if each.kind == "exercise"}
        rows = [
            (each.notebook, each.name, each.title, *_columns(done.get(each.name))) for each in all_exercises().values()
        ]
        kernels = [each for each in self.solved if each.kind == "kernel"]
        rows += [(each.notebook, f"%%kernel {each.name}", "", *_columns(each)) for each in kernels]
        count = sum(name in done for name in all_exercises())
        own = sum(each.own_kernel for each in self.solved)
        caption = f"{count} of {len(all_exercises())} exercises solved; {own} kernels are yours."
        headers = ("notebook", "exercise", "title", "solved on", "help", "kernel")
        return table(sorted(rows), headers, f"{caption} {self.note}".rstrip())


def progress() -> Progress:
    """The exercises that you have solved, and your own kernels, of this and of earlier sessions."""
    path = file()
    if path is None:
        return Progress(())
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Progress(())
    except (OSError, UnicodeDecodeError) as error:
        return Progress((), _put_aside(path) if isinstance(error, ValueError) else f"{path} cannot be read: {error}.")
    try:
        return Progress(_parsed(text))
    except (ValueError, TypeError, KeyError):
        return Progress((), _put_aside(path))


def remember(kind: str, name: str, notebook: str, text: str, hints: int = 0, shown: bool = False) -> str:
    """Keep a text that passed, and the hints taken and the solution shown before; the answer is empty.

    It replaces an older text of that name, whose help it keeps. The answer is a sentence where that cannot be done.
    """
    path = file()
    if path is None:
        return ""
    before = progress()
    now = datetime.now().isoformat(timespec="microseconds")
    kept = {(each.kind, each.name): each for each in before.solved}
    first = kept.pop((kind, name), Solved(kind, name, notebook, now, text, hints, shown))
    kept[kind, name] = replace(first, notebook=notebook, date=now, text=text)
    try:
        _write(path, json.dumps({"solved": [asdict(each) for each in kept.values()]}, indent=1, ensure_ascii=False))
    except OSError as error:
        why = error.strerror or error
        return f"It is not kept for later sessions: {path} cannot be written ({why}). Name a file in MINIGRAD_PROGRESS."
    return before.note


def file() -> Path | None:
    """MINIGRAD_PROGRESS, or progress.json in the user's data folder; None if it is off."""
    from platformdirs import user_data_dir  # as for the cache: `import minigrad` needs none

    given = os.environ.get("MINIGRAD_PROGRESS")
    return None if given == "off" else Path(given or Path(user_data_dir("minigrad")) / "progress.json")


def notebook_number() -> str:
    """The number of the notebook in which this kernel runs, as Jupyter's server says; empty elsewhere."""
    found = re.match(r"\d\d[a-z]?(?=_)", Path(os.environ.get("JPY_SESSION_NAME", "")).name)
    return found[0] if found else ""


def _parsed(text: str) -> tuple[Solved, ...]:
    """The entries in the order of their dates. Raises ValueError, TypeError or KeyError for another content."""
    entries: list[dict[str, Any]] = json.loads(text)["solved"]
    found = [Solved(**entry) for entry in entries]
    if not all(
        isinstance(value, type(getattr(SAMPLE, name))) for each in found for name, value in asdict(each).items()
    ):
        raise TypeError("an entry holds a value of another type")
    if any(each.kind not in KINDS for each in found):
        raise ValueError("an entry is of no known kind")
    return tuple(sorted(found, key=lambda each: each.date))


def _put_aside(path: Path) -> str:
    """Rename a damaged file, so that a new one takes its place, and say so."""
    aside = path.with_name(f"{path.name}.damaged")
    try:
        os.replace(path, aside)
    except OSError as error:
        return f"{path} is damaged, and cannot be renamed ({error.strerror or error}): nothing of it is used."
    return f"{path} was damaged: it is now {aside.name}, and a new one begins."


def _write(path: Path, text: str) -> None:
    """The whole file or none of it, in one rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(handle, "w", encoding="utf-8") as out:
            out.write(text)
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise


def _columns(solved: Solved | None) -> tuple[str, str, str]:
    """The day, the help and the kernel of a row."""
    return (solved.date[:10], solved.help, "yours" if solved.own_kernel else "") if solved else ("", "", "")
