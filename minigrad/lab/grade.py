"""`minigrad grade`: the exercises in notebooks of students, each checked in a process of its own with a time limit."""

import contextlib
import json
import multiprocessing
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from textwrap import wrap
from typing import Any

from minigrad.display import Table, Tabular, table
from minigrad.lab.exercises.course import all_exercises
from minigrad.lab.notebook import kernel_answer

LIMIT = 60.0  # seconds for a cell
START = 120.0  # seconds in which a process has to start
RIGHT, TIME, CRASHED, MISSING = "right", "timeout", "crashed", "missing"  # all other verdicts are kinds of answers
WIDTH = 70  # characters of a line of an answer in the table
ALONE = "grade runs this cell alone: move into it what it needs."
_MAGIC = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*%%(exercise|kernel)[ \t]+([^\n]*)\n?(.*)", re.S)
_NUMBER = re.compile(r"(?<![0-9A-Za-z])\d\d[a-z]?(?![0-9A-Za-z])")
_CHECKED = re.compile(r"mg\.exercise\(\s*[\"'](\w+)[\"']\s*\)\.check\(")


@dataclass(frozen=True)
class Cell:
    """A cell with an answer: an exercise by its name, or the words after %%kernel, and the text."""

    kind: str
    name: str
    text: str

    @property
    def title(self) -> str:
        return self.name if self.kind == "exercise" else f"%%kernel {self.name}"


@dataclass(frozen=True)
class Graded:
    """The verdict on a cell, in a word, and the answer in a sentence or two."""

    notebook: str
    exercise: str  # its name, or the words of a %%kernel
    verdict: str
    sentence: str

    @property
    def correct(self) -> bool:
        return self.verdict == RIGHT


@dataclass(frozen=True, repr=False)
class Grades(Tabular):
    """The verdicts of all cells, in the order of the files. full: by file, the exercises of the notebook that it is."""

    cells: tuple[Graded, ...]
    full: Mapping[str, frozenset[str]]

    def totals(self) -> dict[str, dict[str, int]]:
        """By file: the exercises of the notebook that it is, and those of them with a right cell."""
        return {
            name: {
                "right": len({cell.exercise for cell in self.cells if cell.notebook == name and cell.correct} & full),
                "exercises": len(full),
            }
            for name, full in self.full.items()
        }

    def table(self) -> Table:
        rows = []
        for cell in self.cells:
            first, *more = wrap(cell.sentence, WIDTH) or [""]
            rows += [(cell.notebook, cell.exercise, cell.verdict, first), *(("", "", "", line) for line in more)]
        totals = self.totals()
        caption = "\n".join(f"{name}: {each['right']} of {each['exercises']} right" for name, each in totals.items())
        return table(rows, ("notebook", "exercise", "verdict", "answer"), caption)

    def json(self) -> str:
        """The cells, the totals by notebook and the total, as JSON."""
        totals = self.totals()
        total = {key: sum(each[key] for each in totals.values()) for key in ("right", "exercises")}
        cells = [asdict(cell) | {"correct": cell.correct} for cell in self.cells]
        return json.dumps({"cells": cells, "totals": totals, "total": total}, indent=1, ensure_ascii=False)


def grade(paths: Sequence[str | Path], limit: float = LIMIT) -> Grades:
    """Check every exercise in these notebooks. Raises ValueError or OSError for a file that is no notebook.

    limit: seconds for a cell. This runs the students' code on this machine, in processes of their own.
    """
    return graded({str(path): list(answers(path)) for path in paths}, limit)


def graded(found: Mapping[str, Sequence[Cell]], limit: float = LIMIT) -> Grades:
    """Check the cells of each file, by its path."""
    full = {name: notebook_of(name, cells) for name, cells in found.items()}
    checked = []
    grader = Grader(limit)
    for name, cells in found.items():
        checked += [Graded(name, cell.title, *grader.verdict(cell)) for cell in cells]
        missing = sorted(full[name] - {cell.name for cell in cells})
        checked += [Graded(name, each, MISSING, "The file has no cell for it.") for each in missing]
    return Grades(tuple(checked), full)


def notebook_of(path: str, cells: Sequence[Cell]) -> frozenset[str]:
    """All exercises of the notebook that a file is: by most of its cells, else by the number in its name."""
    known = all_exercises()
    names = {cell.name for cell in cells if cell.kind == "exercise" and cell.name in known}
    cells_of = Counter(known[name].notebook for name in names)
    named = [
        number for number in _NUMBER.findall(Path(path).stem) if number in {each.notebook for each in known.values()}
    ]
    number = max(sorted(cells_of) or named, key=lambda each: (cells_of[each], each in named), default=None)
    return frozenset(name for name, each in known.items() if each.notebook == number)


def answers(path: str | Path) -> Iterator[Cell]:
    """The cells of a notebook with an answer: %%exercise, %%kernel, and a function that a later cell checks."""
    functions: dict[str, str] = {}  # the last text that defines each
    for text in code_cells(path):
        if found := _MAGIC.match(text):
            name = " ".join(found[2].split())
            yield Cell(found[1], name, found[3])
            continue
        functions |= dict.fromkeys(re.findall(r"^def (\w+)\(", text, re.M), text)
        checked_here = (name for name in _CHECKED.findall(text) if name in functions)
        yield from (Cell("exercise", name, functions[name]) for name in checked_here)


def code_cells(path: str | Path) -> list[str]:
    """The texts of the code cells. Raises ValueError for a file that is no notebook, OSError for a missing one."""
    try:
        cells: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8-sig"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no notebook: it is not JSON with a list of cells.") from None


class Grader:
    """Checks each cell in a process of its own, and ends with it all that the cell started.

    The processes are copies of one that has imported the course, so that no cell sees what another has changed.
    """

    def __init__(self, limit: float):
        self.limit = limit
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload([__name__])

    def verdict(self, cell: Cell) -> tuple[str, str]:
        """The verdict in a word, and the sentence."""
        pipe, theirs = self._processes.Pipe()
        process = self._processes.Process(target=_serve, args=(theirs, cell), daemon=True)
        process.start()
        assert process.pid
        theirs.close()
        try:
            if not pipe.poll(START):
                return CRASHED, f"The process for it did not start within {START:g} s."
            pipe.recv()  # it has started: importing does not count
            return pipe.recv() if pipe.poll(self.limit) else (TIME, f"It was stopped after {self.limit:g} s.")
        except (EOFError, ConnectionError):
            return CRASHED, "It ended the process that ran it."
        finally:
            with contextlib.suppress(ProcessLookupError):  # it has ended with all that it started, or has not begun
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.join()
            pipe.close()


def _serve(pipe: Connection, cell: Cell) -> None:
    """Check a cell, in silence."""
    os.setsid()  # the processes that the cell starts are of its group
    os.environ["MINIGRAD_PROGRESS"] = "off"
    with open(os.devnull, "w") as nowhere:
        for descriptor in (1, 2):  # also what a library in C writes
            os.dup2(nowhere.fileno(), descriptor)
        all_exercises()  # imports their files
        pipe.send(None)
        pipe.send(checked(cell))


def checked(cell: Cell) -> tuple[str, str]:
    """The verdict on a cell and the sentence of its answer, here and now."""
    if cell.kind == "kernel":
        found = kernel_answer(cell.name.split(), cell.text, {})
    elif cell.name in all_exercises():
        found = all_exercises()[cell.name].check(cell.text)
    else:
        return "unknown", f"There is no exercise {cell.name!r}."
    if found.correct:
        return RIGHT, re.split(r"(?<=[.])\s", found.text, maxsplit=1)[0]
    said = re.sub(r"^Not yet[.:]\s+", "", found.text.strip()).splitlines()[0]
    return found.kind, f"{said} {ALONE}" if found.kind == "raised" and "NameError" in said else said
