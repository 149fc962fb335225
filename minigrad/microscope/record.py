"""Inspection: what was seen of one launch."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import Dim3
from minigrad.errors import KernelError
from minigrad.microscope import find, native
from minigrad.microscope.counts import Accesses, Branch, Line, branches
from minigrad.microscope.debug_info import Places
from minigrad.microscope.find import Finder
from minigrad.microscope.problem import Problem, sort
from minigrad.microscope.variables import Variable, Variables
from minigrad.source import Source

HEAD = (
    "line", "space", "kind", "variable", "requests", "lanes", "sectors/req.", "ideal", "wavefronts/req.", "conflicts",
)  # fmt: skip
SHOWN = 5  # problems in the short table


@dataclass(frozen=True, repr=False, eq=False)
class Inspection:
    """One launch: problems of all its blocks, counts and traffic of the first `blocks` of them.

    variables are the arrays by name, with their shapes; outputs, of `inspect`, those that the kernel may write, as it
    left them.
    """

    kernel: str
    source: Source
    grid: Dim3
    block: Dim3
    shared: int
    blocks: int
    variables: dict[str, Variable]
    outputs: dict[str, np.ndarray]
    problems: list[Problem]
    complete: bool  # every problem is there, and not only the first few hundred
    _accesses: Callable[[], Accesses]
    _branches: Callable[[], list[Branch]]
    _missing: str  # why there are no counts, or nothing

    @property
    def lines(self) -> list[Line]:
        """What each access in the source cost, in the order of the source. Raises MemoryError where there were more
        accesses than are recorded; so do all counts.
        """
        return self._read.lines

    @cached_property
    def _read(self) -> Accesses:
        if self._missing:
            raise MemoryError(self._missing)
        return self._accesses()

    @cached_property
    def per_thread(self) -> dict[str, int]:
        """The most accesses by one thread, as {"global read": 2, "shared write": 1}: a score to bring down."""
        return self._read.per_thread()

    @cached_property
    def branches(self) -> list[Branch]:
        """The stretches of code that only some lanes of a warp entered."""
        if self._missing:
            raise MemoryError(self._missing)
        return self._branches()

    @cached_property
    def traffic(self) -> np.ndarray:
        """A structured array with a row for each access of a thread in the blocks that were looked at closely.

        phase: barriers before it. block, thread: their linear indices. line, space, kind, variable. element: its index,
        counted flat. bytes. request: the warp's instruction that it was part of. site: its index in lines.
        """
        return self._read.traffic()

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def line(self, number: int) -> list[Line]:
        """The accesses in one line of the source."""
        return [line for line in self.lines if line.line == number]

    def table(self) -> list[tuple[str, ...]]:
        """The lines as words and numbers, under HEAD."""
        return [_row(line) for line in self.lines]

    def summary(self) -> str:
        """The launch and how many problems it has, in a sentence."""
        found = len(self.problems)
        verdict = f"{found} problem{'s' * (found != 1)}" if found else "no problems"
        verdict += "" if self.complete else ", and more that there was no room for"
        return f"{self.kernel}, grid {_extent(self.grid)}, block {_extent(self.block)}: {verdict}"

    def __repr__(self) -> str:
        shown = [repr(problem) for problem in self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            shown.append(f"and {len(self.problems) - SHOWN} more problems")
        if self._missing:
            return "\n".join([self.summary(), *shown, self._missing])
        rows = [HEAD, *self.table()] if self.lines else []
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join(map(str.rjust, row, widths)).rstrip() for row in rows]
        return "\n".join([self.summary(), *shown, *table])

    def _repr_html_(self) -> str:
        problems = "".join(f"<li><pre>{html.escape(repr(problem))}</pre></li>" for problem in self.problems)
        if self._missing:
            return f"<p>{html.escape(self.summary())}</p><ul>{problems}</ul><p>{html.escape(self._missing)}</p>"
        head = "".join(f"<th>{name}</th>" for name in HEAD)
        rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in self.table()]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
        return f"<p>{html.escape(self.summary())}</p>" + (f"<ul>{problems}</ul>" if problems else "") + table


def look(
    source: Source, kernel: str, launch: tuple[Dim3, Dim3, int, int], groups: Sequence[Sequence[tuple[str, Array]]],
    places: Places, seen: native.Seen, stopped: KernelError | None, wanted: Sequence[str],
) -> Inspection:  # fmt: skip
    """The record of what was seen; launch is (grid, block, shared, blocks)."""
    grid, block, _, _ = launch
    variables = Variables(groups, seen.variables)
    finder = Finder(grid, block, variables, places, seen.fenced)
    problems = finder.find(seen.findings, stopped)
    if not stopped:
        arrays = {name: (i, array) for i, group in enumerate(groups) for name, array in group}
        problems = sort([*problems, *find.check(wanted, arrays, seen, finder)])
    missing = f"{kernel}: no counts, as there are more than {seen.full} accesses to record; give fewer blocks="
    return Inspection(
        kernel, source, *launch, variables.by_name, {}, problems, not seen.lost,
        partial(Accesses.read, seen.records, places, variables),
        partial(branches, seen.records, places, prod(block)), missing if seen.full else "",
    )  # fmt: skip


def _row(line: Line) -> tuple[str, ...]:
    in_global = line.space == "global"
    return (
        str(line.line), line.space, line.kind, line.variable, str(line.requests), f"{line.active_lanes:.4g}",
        f"{line.sectors_per_request:.4g}" if in_global else "",
        f"{line.ideal_sectors_per_request:.4g}" if in_global else "",
        "" if in_global else f"{line.wavefronts_per_request:.4g}",
        "" if in_global else str(line.bank_conflicts),
    )  # fmt: skip


def _extent(extent: Dim3) -> str:
    x, y, z = extent
    return f"({x}, {y}, {z})" if z > 1 else f"({x}, {y})" if y > 1 else str(x)
