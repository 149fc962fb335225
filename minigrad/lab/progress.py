"""A reader's solved exercises and own kernels, kept over sessions: `mg.progress()`.

After a pass of `%%exercise` or `%%kernel` the text of the cell goes with its date into one JSON file in the user's data
folder, or in the file that MINIGRAD_PROGRESS names; MINIGRAD_PROGRESS=off keeps nothing.
"""

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass, fields
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

    @property
    def own_kernel(self) -> bool:
        """True if the text is a kernel."""
        return self.kind == "kernel" or isinstance(all_exercises().get(self.name), KernelExercise)


@dataclass(frozen=True, repr=False)
class Progress(Tabular):
    """All exercises with the date on which each was solved, and the kernels that a reader wrote in place of an op's.

    solved: what passed, the oldest first. note: a sentence where the file was damaged or cannot be used.
    """

    solved: tuple[Solved, ...]
    note: str = ""

    def table(self) -> Table:
        done = {each.name: each for each in self.solved if each.kind == "exercise"}
        rows = [
            (each.notebook, each.name, each.title, _day(done.get(each.name)), _owned(done.get(each.name)))
            for each in all_exercises().values()
        ]
        kernels = [each for each in self.solved if each.kind == "kernel"]
        rows += [(each.notebook, f"%%kernel {each.name}", "", _day(each), _owned(each)) for each in kernels]
        count = sum(name in done for name in all_exercises())
        own = sum(each.own_kernel for each in self.solved)
        caption = f"{count} of {len(all_exercises())} exercises solved; {own} kernels are yours."
        headers = ("notebook", "exercise", "title", "solved on", "kernel")
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


def remember(kind: str, name: str, notebook: str, text: str) -> str:
    """Keep a text that passed; it replaces an older one of that name. A sentence where that cannot be done, else ""."""
    path = file()
    if path is None:
        return ""
    before = progress()
    now = datetime.now().isoformat(timespec="microseconds")
    kept = [each for each in before.solved if (each.kind, each.name) != (kind, name)]
    kept.append(Solved(kind, name, notebook, now, text))
    try:
        _write(path, json.dumps({"solved": [asdict(each) for each in kept]}, indent=1, ensure_ascii=False))
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
    names = [each.name for each in fields(Solved)]
    entries: list[Any] = json.loads(text)["solved"]
    found = [Solved(*(entry[name] for name in names)) for entry in entries]
    if not all(isinstance(value, str) for each in found for value in asdict(each).values()):
        raise TypeError("an entry holds something else than text")
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


def _day(solved: Solved | None) -> str:
    return solved.date[:10] if solved else ""


def _owned(solved: Solved | None) -> str:
    return "yours" if solved and solved.own_kernel else ""
