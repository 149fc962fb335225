"""Inspection: the record of one launch."""

import html
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from minigrad.devices.device import Dim3
from minigrad.microscope.counts import Accesses, Branch, Line, branches
from minigrad.microscope.debug_info import DebugInfo
from minigrad.microscope.native import Observations, Rows
from minigrad.microscope.problem import Problem
from minigrad.microscope.variables import Variable, Variables
from minigrad.source import Source

HEAD = (
    "line", "space", "kind", "variable", "requests", "lanes", "sectors/req.", "ideal", "wavefronts/req.", "conflicts",
)  # fmt: skip
SHOWN = 5  # problems in the short table


@dataclass(frozen=True, repr=False, eq=False)
class Inspection:
    """One launch: problems of all its blocks, counts and traffic of the first `blocks` of them.

    outputs: from `inspect`, the arrays that the kernel may write, after the launch.
    """

    kernel: str
    source: Source
    grid: Dim3
    block: Dim3
    shared: int
    blocks: int
    problems: list[Problem]
    _seen: Observations
    _info: DebugInfo
    _variables: Variables
    outputs: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, Variable]:
        """The arrays by name, with their shapes."""
        return self._variables.by_name

    @property
    def complete(self) -> bool:
        """True if all problems were found, and not only the first few hundred."""
        return not self._seen.lost

    @property
    def lines(self) -> list[Line]:
        """The cost of each access in the source, in its order. Raises MemoryError, as all counts do, where there were
        more accesses than the limit.
        """
        return self._read.lines

    @cached_property
    def _read(self) -> Accesses:
        return Accesses(self._records, self._info, self._variables)

    @property
    def _records(self) -> Rows:
        if self._missing:
            raise MemoryError(self._missing)
        return self._seen.records

    counted = property(lambda self: not self._missing, doc="False where there were more accesses than the limit.")

    @property
    def _missing(self) -> str:
        limit = f"there are more than {self._seen.full} accesses to record; count fewer blocks, or launch less"
        return f"{self.kernel}: no counts, as {limit}" if self._seen.full else ""

    @cached_property
    def per_thread(self) -> dict[str, int]:
        """The most accesses by one thread, as {"global read": 2, "shared write": 1}: a score to bring down."""
        return self._read.per_thread()

    @cached_property
    def branches(self) -> list[Branch]:
        """The basic blocks that only some lanes of a warp entered."""
        return branches(self._records, self._info, prod(self.block))

    @cached_property
    def traffic(self) -> Rows:
        """A structured array with a row for each access of a thread in the recorded blocks.

        phase: barriers before it. block, thread: linear indices. line, space, kind, variable. element: flat index.
        bytes. request: number of the warp's instruction. site: index in lines. time: its place among all accesses, in
        the order of each thread.
        """
        return self._read.traffic()

    @property
    def ok(self) -> bool:
        """True if no problem was found."""
        return not self.problems

    def line(self, number: int) -> list[Line]:
        """The accesses in one line of the source."""
        return [line for line in self.lines if line.line == number]

    def table(self) -> list[tuple[str, ...]]:
        """The lines as text, one row each, under HEAD."""
        return [_row(line) for line in self.lines]

    def summary(self) -> str:
        """The launch and its number of problems, in a sentence."""
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
