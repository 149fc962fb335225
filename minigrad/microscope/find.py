"""Problems from the runtime's findings: line, variable, block, thread, and advice.

The runtime detects races and accesses out of bounds: `simulator/native/access.cpp` checks each access as it happens.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from math import prod
from pathlib import Path

import numpy as np

from minigrad.devices.device import Dim3
from minigrad.errors import KernelError, LaunchError
from minigrad.kernels.extents import index_of
from minigrad.microscope import advice, native
from minigrad.microscope.counts import WARP
from minigrad.microscope.debug_info import NOWHERE, DebugInfo, indexed_array
from minigrad.microscope.native import Finding, Kind, Observations, ProblemKind, Rows
from minigrad.microscope.problem import Access, Problem, drop_consequences, keep_nearest, merge, sort
from minigrad.microscope.variables import Groups, Variable, Variables, signed

LOCK = re.compile(r"\batomicCAS\b|\bwhile\s*\(\s*atomicExch\b")  # takes a lock, or may be meant to


class Finder:
    """Makes the problems of one launch."""

    def __init__(self, grid: Dim3, block: Dim3, groups: Groups, info: DebugInfo, seen: Observations):
        self.grid, self.block, self.groups, self.info, self.seen = grid, block, groups, info, seen
        self.variables = Variables(groups, seen.variables)
        self._write_races: set[tuple] = set()  # lines and variable of races of two writes

    def find(
        self, findings: Sequence[Finding], error: KernelError | None = None, outputs: Sequence[str] = ()
    ) -> list[Problem]:
        """All problems. error: the fault that ended the launch; without one the named outputs are checked too."""
        self.info.locations(pc for f in findings for pc in (f.pc, f.other_pc) if pc)  # looked up all at once
        self._write_races = {self._lines(f) for f in findings if f.access == f.other_access == Kind.WRITE}
        found = [problem for finding in findings if (problem := self._problem(finding))]
        if error:
            found = self._with_fault(found, error)
        found = keep_nearest(drop_consequences(merge(found), self.info.function))
        return sort(found if error else [*found, *self._outputs(outputs)])

    def at(self, block: int, thread: int) -> tuple[Dim3, Dim3]:
        """CUDA's indices of a block and a thread."""
        return index_of(block, self.grid), index_of(thread, self.block)

    def _access(self, kind: int, pc: int, block: int, thread: int) -> Access:
        return Access(Kind(kind).name.lower(), *self.info.line_of(pc), *self.at(block, thread))

    def _problem(self, finding: Finding) -> Problem | None:
        if finding.kind == ProblemKind.INDEX:
            return self._index(finding)
        if finding.kind == ProblemKind.ELEMENT:
            return self._unset_element(finding)
        if finding.kind >= ProblemKind.MISSED:
            return self._in_line(finding)
        me = self._access(finding.access, finding.pc, finding.block, finding.thread)
        variable, index = self.variables.located(finding.variable, finding.offset, me.text)
        element = index if variable else None
        at = variable.subscript(index) if variable else f"address {finding.offset:#x}"
        if finding.kind in (ProblemKind.RACE, ProblemKind.EARLY):
            return self._race(me, finding, at, variable, element)
        if finding.kind == ProblemKind.OUTSIDE:
            if variable and variable.single:
                at = f"byte {finding.offset} of {variable.name}"
            kind, message = "out-of-bounds", advice.outside(me.kind, at, variable)
        else:
            shared = variable is not None and variable.space == "shared"
            kind, message = "uninitialised", advice.uninitialised(at) if shared else advice.undefined(me.kind, at)
        element = signed(index) if variable else None
        place = (me.file, me.line or None, me.text, variable.name if variable else None)
        return Problem(kind, message, *place, element, me.kind, me.block, me.thread, None, finding.count)

    def _index(self, finding: Finding) -> Problem | None:
        """An index outside its extent: the compiler's check gives the place, and no address."""
        file, line = finding.file.decode(), finding.line
        words = finding.type.decode()
        if finding.extent:
            name, array = indexed_array(f"{words}[]", len(words) + 2), f"{finding.extent} long"
        else:
            name = self.info.indexed_array(file, line, finding.column)
            array = re.findall(r"'(.*?)'", words)[-1]  # Clang gives a typedef as 'T' (aka 'float[8]')
        message = advice.index(finding.offset, array.replace(" [", "["), name)
        where = self.at(finding.block, finding.thread)
        place = self.info.line(file, line).fields
        last = re.search(r"\[(\d\w*)\]$", array)
        length = last and int(last[1], 0) % 2**64  # g++ 13 and 14 call none 2^64
        if length == 0 or (length == 1 and self.info.has_open_end(place[0], place[2])):
            return None
        return Problem("out-of-bounds", message, *place, name or None, None, None, *where, None, finding.count)

    def _unset_element(self, finding: Finding) -> Problem | None:
        """A read of a thread's own number, or of an element of its array, other than by an update. To hand it on is no
        fault: to another of the thread's variables, to a lane or to a lambda.
        """
        place = self.info.line_of(finding.pc)
        updates = [(f.line, Path(f.file.decode()).name) for f in self.seen.findings if f.kind == ProblemKind.UNSET]
        if (place.line, Path(place.file).name) in updates:
            return None
        copied_to = self.info.copied_to(finding.pc, not finding.extent)
        if self.info.hands_on(place.text) or (copied_to and copied_to not in self.variables.by_name):
            return None
        if finding.extent:
            message = advice.unset_element(element := self.info.element(finding.pc, self.variables.by_name))
        else:
            message = advice.unset_number(element := self.info.number(finding.pc))
        where = self.at(finding.block, finding.thread)
        name = re.split(r"\W", element)[0] or None
        return Problem("uninitialised", message, *place.fields, name, None, "read", *where, count=finding.count)

    def _in_line(self, finding: Finding) -> Problem | None:
        """A finding that has its line: a missed call, a lane's value, an unset variable, a result unlike a GPU's."""
        place = self.info.line(finding.file.decode(), finding.line).fields
        where, what = self.at(finding.block, finding.thread), finding.type.decode()
        if finding.kind in (ProblemKind.MISSED, ProblemKind.SKIPPED):
            returned, count = finding.kind == ProblemKind.MISSED, finding.count
            skipped = advice.skipped_by_lanes if finding.extent else advice.skipped_barrier
            message = (advice.missed_barrier if returned else skipped)(what, finding.offset, where[1])
            return Problem("missed-barrier", message, *place, None, None, None, *where, count=count, harmless=returned)
        if finding.kind == ProblemKind.UNLIKE:
            message = advice.unlike(finding.value, what, finding.offset, bool(finding.differs))
            return Problem("unlike-gpu", message, *place, None, None, None, *where, count=finding.count)
        if finding.kind == ProblemKind.UNSET:
            name = re.split(r"\W", what)[0]
            message = advice.unset(what, name)
            return Problem("uninitialised", message, *place, name, None, None, *where, count=finding.count)
        source = self.at(finding.block, finding.other_thread)[1] if finding.other_thread < prod(self.block) else None
        kind, message = "returned-lane", advice.returned_lane(what, where[1], source)
        if finding.kind == ProblemKind.UNNAMED:
            if not (made := self._made_of(finding.offset)):  # it remains unused, as that of a sum's upper half
                return None
            kind, message = "inactive-lane", advice.inactive_lane(what, where[1], finding.other_thread % WARP, made)
        return Problem(kind, message, *place, None, None, None, *where, count=finding.count)

    def _made_of(self, value: int) -> str:
        """An element that the kernel has set to this NaN, which a shuffle brought from a lane that gave nothing, or to
        what a sum or a product made of it; empty: there is none.
        """
        for name, bits, elements in self._nans:
            for element in elements[np.isin(bits, _as_floats(value, bits.itemsize))][:1]:
                return f"{name}[{element}]"
        return ""

    @cached_property
    def _nans(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """By array: the bits of each NaN that the kernel has written, also to a member of a struct, and its element."""
        found = []
        for number, group in enumerate(self.groups):
            for name, array in ((name, array.numpy()) for name, array in group if array.dtype.kind in "fV"):
                sizes = (array.itemsize,) if array.dtype.kind == "f" else (4, 8)
                for size in (each for each in sizes if each >= 4 and array.itemsize % each == 0):
                    words = np.ascontiguousarray(array).reshape(-1).view(f"f{size}")
                    at = np.flatnonzero(np.isnan(words) & (_last_writes(number, words, self.seen)["epoch"] > 0))
                    found.append((name, np.abs(words[at]).view(f"u{size}"), at * size // array.itemsize))
        return found

    def _race(self, me: Access, finding: Finding, at: str, variable: Variable | None, element: int | None) -> Problem:
        """A race of a read and a write is described from the reader's side, whichever came first."""
        assert variable
        other = self._access(finding.other_access, finding.other_pc, finding.other_block, finding.other_thread)
        if other.kind == "read":
            me, other = other, me
        first, last = sorted((me.line, other.line))
        same_file = me.file == other.file
        x, y, _ = self.block
        warps = {(one.thread[0] + x * (one.thread[1] + y * one.thread[2])) // WARP for one in (me, other)}
        scene = advice.Scene(
            space=variable.space,
            barrier=self.info.barrier(me.file, first, last) if same_file else 0,
            in_one_loop=same_file and self.info.in_one_loop(me.file, first, last),
            one_warp=len(warps) == 1 and me.block == other.block,
            overwrites=self._lines(finding) in self._write_races,
            fenced=self.seen.fenced,
            meets=self.seen.order_dependent,
            groups="cooperative_groups" in self.info.text(me.file),
            cooperative=self.seen.cooperative,
            locks=LOCK.search(self.info.text(me.file)) is not None,
            bytes=variable.itemsize,
        )
        place, count = (me.file, me.line or None, me.text), finding.count
        early = finding.kind == ProblemKind.EARLY
        harmless = not (early or finding.differs)
        message = advice.early(me, other, at) if early else advice.race(me, other, at, scene, harmless)
        where = (me.block, me.thread, other)
        return Problem("race", message, *place, variable.name, element, me.kind, *where, count, harmless)

    def _lines(self, finding: Finding) -> tuple:
        return frozenset(self.info.line_of(pc)[:2] for pc in (finding.pc, finding.other_pc) if pc), finding.variable

    def _with_fault(self, found: list[Problem], error: KernelError) -> list[Problem]:
        """The problems with the fault that ended the launch, unless its access is among them already."""
        wild = [p for p in found if p.kind == "out-of-bounds" and p.variable is None and p.access]  # in no array
        last = [p for p in found if p.kind == "out-of-bounds" and (p.block, p.thread) == (error.block, error.thread)]
        if error.kind in ("out-of-bounds", "illegal-access") and any(p not in wild for p in last):
            return found
        place = self.info.line(error.file or "", error.line) if error.line else NOWHERE
        name, element, message = error.buffer, None, error.reason
        if error.kind == "misaligned" and (found_at := self.variables.at(error.address or 0)):
            variable, element = found_at
            name = name or variable.name
            message = message.replace(f"address {error.address:#x}", variable.subscript(element))
        there = [
            p for p in found if (p.file, p.line, p.block, p.thread) == (*place.fields[:2], error.block, error.thread)
        ]
        if name is None and any(p.kind == "uninitialised" for p in there):  # the pointer was not set
            return [p for p in found if p not in wild or p not in there]
        fault = Problem(error.kind, message, *place.fields, name, element, None, error.block, error.thread)
        return [p for p in found if p not in wild or p.thread != error.thread] + [fault]

    def _outputs(self, names: Sequence[str]) -> list[Problem]:
        """The problems of the named outputs."""
        arrays = {name: (i, array) for i, group in enumerate(self.groups) for name, array in group}
        problems = []
        for name in names:
            if name not in arrays:
                known = ", ".join(arrays)
                raise LaunchError(f"outputs={name!r} is no array that the kernel was given; those are {known}.")
            number, array = arrays[name][0], arrays[name][1].numpy()
            writes = _last_writes(number, array, self.seen)
            problems += [*self._never_written(name, writes), *self._nan(name, array, writes)]
        return problems

    def _never_written(self, name: str, writes: Rows) -> list[Problem]:
        missing = np.flatnonzero(writes["epoch"] == 0)
        if not missing.size:
            return []
        pcs = np.unique(writes["pc"][writes["epoch"] > 0])
        place = self.info.line_of(pcs[0]) if pcs.size else NOWHERE  # a line that writes other elements
        element = int(missing[0])
        message = advice.never_written(f"{name}[{element}]", missing.size, len(writes))
        return [Problem("never-written", message, *place.fields, name, element, count=missing.size)]

    def _nan(self, name: str, array: np.ndarray, writes: Rows) -> list[Problem]:
        """NaN written by the kernel; NaN from before the launch is not its fault."""
        if array.dtype.kind != "f":
            return []
        bad = np.flatnonzero(np.isnan(array.ravel()) & (writes["epoch"] > 0))
        if not bad.size:
            return []
        element = int(bad[0])
        stamp = writes[element]
        place = self.info.line_of(stamp["pc"])
        block = int(self.seen.blocks(stamp["epoch"], prod(self.grid)))
        where = self.at(block, int(stamp["thread_clock"]) % (1 << native.THREAD_BITS))
        message = advice.nan(f"{name}[{element}]", bad.size)
        return [Problem("nan", message, *place.fields, name, element, "write", *where, count=bad.size)]


def _as_floats(value: int, size: int) -> np.ndarray:
    """The bits of floats of that size that 8 bytes, or the lower 4, are, also converted from the other size."""
    given = np.array([value], "<u8")
    return np.concatenate([given.view(kind)[:1].astype(f"f{size}") for kind in ("<f4", "<f8")]).view(f"u{size}")


def _last_writes(number: int, array: np.ndarray, seen: Observations) -> Rows:
    """The stamp of each element's last write, plain or atomic; epoch 0 where part of it was never written."""
    last = seen.cells(number)["write"]
    atomics = seen.atomics(number)
    if atomics is not None:
        for one in atomics["at"].T:
            last = np.where(one["epoch"] > last["epoch"], one, last)
    shift = seen.variables[number].shift
    parts = np.arange(max(array.itemsize >> shift, 1))
    cells = last[(np.arange(array.size) * array.itemsize >> shift)[:, None] + parts]
    least = cells["epoch"].argmin(1)[:, None]  # the part written first, or never
    stamps = np.take_along_axis(cells, least, 1)[:, 0]
    stamps["pc"] &= native.PC
    return stamps
