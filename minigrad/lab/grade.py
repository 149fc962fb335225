"""`minigrad grade`: the exercises in notebooks of students, each checked in a process of its own with a time limit."""

import contextlib
import json
import multiprocessing
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from minigrad.display import Table, Tabular, table
from minigrad.lab.exercises.course import all_exercises
from minigrad.lab.notebook import kernel_answer

LIMIT = 60.0  # seconds for a cell
RIGHT, TIME, CRASHED = "right", "time", "crashed"  # verdicts; all others are the kinds of answers
SHOWN = 60  # characters of a sentence in the table
_MAGIC = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*%%(exercise|kernel)[ \t]+([^\n]*)\n?(.*)", re.S)
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
    """The verdict on a cell, in a word, and the first sentence of the answer."""

    notebook: str
    exercise: str  # its name, or the words of a %%kernel
    verdict: str
    sentence: str

    @property
    def correct(self) -> bool:
        return self.verdict == RIGHT


@dataclass(frozen=True, repr=False)
class Grades(Tabular):
    """The verdicts of all cells, in the order of the notebooks."""

    cells: tuple[Graded, ...]
    notebooks: tuple[str, ...]

    def totals(self) -> dict[str, dict[str, int]]:
        """By notebook: the exercises in it, and those of them with a right cell."""
        return {
            name: {
                "right": len({cell.exercise for cell in self.cells if cell.notebook == name and cell.correct}),
                "exercises": len({cell.exercise for cell in self.cells if cell.notebook == name}),
            }
            for name in self.notebooks
        }

    def table(self) -> Table:
        rows = [(c.notebook, c.exercise, c.verdict, _shortened(c.sentence)) for c in self.cells]
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
    found = [(str(path), list(answers(path))) for path in paths]
    with Grader(limit) as grader:
        graded = [Graded(name, cell.title, *grader.verdict(cell)) for name, cells in found for cell in cells]
    return Grades(tuple(graded), tuple(dict.fromkeys(name for name, _ in found)))


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
        cells: list[dict[str, Any]] = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no notebook: it is not JSON with a list of cells.") from None


class Grader:
    """A process that checks one cell after another, and is replaced where a cell takes too long or ends it."""

    def __init__(self, limit: float):
        self.limit = limit
        self._process: Any = None
        self._pipe: Any = None

    def __enter__(self) -> "Grader":
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def verdict(self, cell: Cell) -> tuple[str, str]:
        """The verdict in a word, and the sentence."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
            self._pipe.recv()  # it has started: importing does not count
        try:
            self._pipe.send(cell)
            if self._pipe.poll(self.limit):
                return self._pipe.recv()
            verdict = TIME, f"It was stopped after {self.limit:g} s."
        except (EOFError, ConnectionError):
            verdict = CRASHED, "It ended the process that ran it."
        self._end()
        return verdict

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


def _serve(pipe: Connection) -> None:
    """Check the cells that arrive, in silence."""
    os.environ["MINIGRAD_PROGRESS"] = "off"
    with open(os.devnull, "w") as nowhere:
        for descriptor in (1, 2):  # also what a library in C writes
            os.dup2(nowhere.fileno(), descriptor)
        all_exercises()  # imports their files
        pipe.send(None)
        with contextlib.suppress(EOFError):
            while True:
                pipe.send(checked(pipe.recv()))


def checked(cell: Cell) -> tuple[str, str]:
    """The verdict on a cell and the first sentence of its answer, here and now."""
    if cell.kind == "kernel":
        found = kernel_answer(cell.name.split(), cell.text, {})
    elif cell.name in all_exercises():
        found = all_exercises()[cell.name].check(cell.text)
    else:
        return "unknown", f"There is no exercise {cell.name!r}."
    return RIGHT if found.correct else found.kind, first_sentence(found.text)


def first_sentence(text: str) -> str:
    """The first sentence of an answer, after its "Not yet"."""
    said = re.sub(r"^Not yet[.:]\s+", "", text.strip())
    return re.split(r"(?<=[.!?])\s", said, maxsplit=1)[0]


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= SHOWN else f"{sentence[: SHOWN - 3].rstrip()}..."
