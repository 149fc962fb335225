"""A reader's solved exercises and own kernels, kept over sessions: `mg.progress()`.

After a pass of `%%exercise` or `%%kernel` the text of the cell goes with its date into one JSON file in the user's data
folder, or in the file that MINIGRAD_PROGRESS names; MINIGRAD_PROGRESS=off keeps nothing.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from minigrad.devices.caches import write
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
NEEDED = {"kind", "name", "notebook", "date", "text"}


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
        found, damage = _read(path)
    except OSError as error:
        return Progress((), f"{path} cannot be read: {error.strerror or error}.")
    return Progress(found, f"{path} is damaged, {damage}; the next pass keeps it under another name." * bool(damage))


def remember(kind: str, name: str, notebook: str, text: str, hints: int = 0, shown: bool = False) -> str:
    """Keep a text that passed, and the hints taken and the solution shown before; the answer is empty.

    It replaces an older text of that name, whose help it keeps. The answer is a sentence where that cannot be done: a
    file that cannot be read is not replaced, and a damaged one is renamed.
    """
    path = file()
    if path is None:
        return ""
    now, doing, note = datetime.now().isoformat(timespec="microseconds"), "written", ""
    try:
        with _alone(path):
            doing = "read"
            found, damage = _read(path)
            doing = "written"
            if damage:
                note = f"{path} was damaged, {damage}: it is now {_put_aside(path)}, and a new one begins."
            kept = {(each.kind, each.name): each for each in found}
            first = kept.pop((kind, name), Solved(kind, name, notebook, now, text, hints, shown))
            kept[kind, name] = replace(first, notebook=notebook, date=now, text=text)
            write(path, json.dumps({"solved": [asdict(each) for each in kept.values()]}, indent=1).encode())
    except OSError as error:
        why = error.strerror or error
        return f"It is not kept for later sessions: {path} cannot be {doing} ({why}). Name a file in MINIGRAD_PROGRESS."
    return note


def file() -> Path | None:
    """MINIGRAD_PROGRESS, or progress.json in the user's data folder; None if it is off."""
    from platformdirs import user_data_dir  # as for the cache: `import minigrad` needs none

    given = os.environ.get("MINIGRAD_PROGRESS")
    return None if given == "off" else Path(given or Path(user_data_dir("minigrad")) / "progress.json")


def notebook_number() -> str:
    """The number of the notebook in which this kernel runs, as Jupyter's server says; empty elsewhere."""
    found = re.match(r"\d\d[a-z]?(?=_)", Path(os.environ.get("JPY_SESSION_NAME", "")).name)
    return found[0] if found else ""


def _read(path: Path) -> tuple[tuple[Solved, ...], str]:
    """The entries in the order of their dates, and what is damaged in the file, if anything. Raises OSError."""
    if path.exists() and not path.is_file():
        raise OSError("it is no regular file")
    try:
        entries = json.loads(path.read_bytes())["solved"]
    except FileNotFoundError:
        return (), ""
    except (ValueError, TypeError, KeyError):
        entries = None
    if not isinstance(entries, list):
        return (), "nothing of it can be used"
    found = [solved for entry in entries if (solved := _entry(entry))]
    damage = f"{len(entries) - len(found)} of its {len(entries)} entries cannot be used"
    return tuple(sorted(found, key=lambda each: each.date)), damage * (len(found) < len(entries))


def _entry(entry: Any) -> Solved | None:
    """An entry, without the fields of other versions; None where a field is missing or holds another type."""
    if not isinstance(entry, dict):
        return None
    known = {key: value for key, value in entry.items() if key in asdict(SAMPLE)}
    typed = all(isinstance(value, type(getattr(SAMPLE, key))) for key, value in known.items())
    return Solved(**known) if typed and known.keys() >= NEEDED and known["kind"] in KINDS else None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No other process changes the file in the block. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _put_aside(path: Path) -> str:
    """Rename a damaged file, so that a new one takes its place; the new name. Raises OSError."""
    aside = path.with_name(f"{path.name}.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}")
    os.replace(path, aside)
    return aside.name


def _columns(solved: Solved | None) -> tuple[str, str, str]:
    """The day, the help and the kernel of a row."""
    return (solved.date[:10], solved.help, "yours" if solved.own_kernel else "") if solved else ("", "", "")
