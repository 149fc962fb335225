"""Problems made of what the runtime found: line, variable, block, thread, and the way out."""

import re
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import Dim3, index_of
from minigrad.errors import KernelError, LaunchError
from minigrad.microscope import native, problem
from minigrad.microscope.counts import WARP, encloses
from minigrad.microscope.debug_info import NOWHERE, Places
from minigrad.microscope.native import Finding, Wrong
from minigrad.microscope.problem import Access, Problem, merge, nearest, sort, without_echoes
from minigrad.microscope.variables import Variable, Variables, signed

LOCK = re.compile(r"\batomicCAS\b|\bwhile\s*\(\s*atomicExch\b")  # takes one, or may be meant to


class Finder:
    """Makes problems of what the runtime found in one launch."""

    def __init__(self, grid: Dim3, block: Dim3, variables: Variables, places: Places, fenced: bool):
        self.grid, self.block, self.variables, self.places, self.fenced = grid, block, variables, places, fenced
        self._overwritten: set[tuple] = set()  # by lines and variable: where two threads write

    def find(self, findings: Sequence[Finding], stopped: KernelError | None) -> list[Problem]:
        """All problems but those of the outputs."""
        self.places.sites(pc for f in findings for pc in (f.pc, f.other_pc) if pc)  # all at once
        self._overwritten = {self._lines(f) for f in findings if f.access == f.other_access == native.Kind.WRITE}
        found = [self._problem(finding) for finding in findings]
        if stopped:
            found = self._stopped(found, stopped)
        return sort(nearest(without_echoes(merge(found))))

    def at(self, block: int, thread: int) -> tuple[Dim3, Dim3]:
        """Indices of a block and of a thread as CUDA has them."""
        return index_of(block, self.grid), index_of(thread, self.block)

    def _problem(self, finding: Finding) -> Problem:
        place = self.places.of(finding.pc)
        if finding.wrong == Wrong.INDEX:
            return self._index(finding)
        variable = self.variables.find(finding.variable, place.text)
        element = finding.offset // variable.itemsize if variable else None
        block, thread = self.at(finding.block, finding.thread)
        access = native.Kind(finding.access).name.lower()
        at = variable.subscript(element) if variable and element is not None else f"address {finding.offset:#x}"
        match finding.wrong:
            case Wrong.RACE:
                me = Access(access, *place, block, thread)
                return self._race(me, finding, at, variable, element)
            case Wrong.OUTSIDE:
                if variable and variable.single:
                    at = f"byte {finding.offset} of {variable.name}"
                kind, message = "out-of-bounds", problem.outside(access, at, variable)
            case _:
                kind, message = "uninitialised", problem.uninitialised(at)
        element = None if element is None else signed(element)
        return Problem(
            kind, message, *place.told, variable.name if variable else None, element, access, block, thread, None,
            finding.count,
        )  # fmt: skip

    def _index(self, finding: Finding) -> Problem:
        """An index outside its extent: the compiler's check says where, and has no address."""
        place = self.places.at(finding.file.decode(), finding.line)
        name = self.places.indexed(finding.file.decode(), finding.line, finding.column)
        array = re.findall(r"'(.*?)'", finding.type.decode())[-1]  # of a typedef Clang says: 'T' (aka 'float[8]')
        return Problem(
            "out-of-bounds", problem.index(finding.offset, array.replace(" [", "["), name), *place.told, name or None,
            None, None, *self.at(finding.block, finding.thread), None, finding.count,
        )  # fmt: skip

    def _race(self, me: Access, finding: Finding, at: str, variable: Variable | None, element: int | None) -> Problem:
        """Told from the side of the one that reads, whichever came first."""
        assert variable
        other = self._other(finding)
        if other.kind == "read":
            me, other = other, me
        first, last = sorted((me.line, other.line))
        barrier = self.places.barrier(me.file, first, last) if me.file == other.file else 0
        turns = me.file == other.file and encloses(self.places.text(me.file), first, last)
        x, y, _ = self.block
        warps = {(one.thread[0] + x * (one.thread[1] + y * one.thread[2])) // WARP for one in (me, other)}
        one_warp = len(warps) == 1 and me.block == other.block
        locks = LOCK.search(self.places.text(me.file)) is not None
        overwrites = self._lines(finding) in self._overwritten
        scene = problem.Scene(
            variable.space, barrier, turns, one_warp, overwrites, self.fenced, locks, variable.itemsize
        )
        place, count = (me.file, me.line or None, me.text), finding.count
        message = problem.race(me, other, at, scene)
        return Problem("race", message, *place, variable.name, element, me.kind, me.block, me.thread, other, count)

    def _lines(self, finding: Finding) -> tuple:
        return frozenset(self.places.of(pc)[:2] for pc in (finding.pc, finding.other_pc) if pc), finding.variable

    def _other(self, finding: Finding) -> Access:
        place = self.places.of(finding.other_pc)
        block, thread = self.at(finding.other_block, finding.other_thread)
        return Access(native.Kind(finding.other_access).name.lower(), *place, block, thread)

    def _stopped(self, found: list[Problem], error: KernelError) -> list[Problem]:
        """With the error that ended the launch, unless the access that led to it is known already."""
        wild = [p for p in found if p.kind == "out-of-bounds" and p.variable is None and p.access]  # to no array
        last = [p for p in found if p.kind == "out-of-bounds" and (p.block, p.thread) == (error.block, error.thread)]
        if error.kind in ("out-of-bounds", "illegal-access") and any(p not in wild for p in last):
            return found
        place = self.places.at(error.file or "", error.line) if error.line else NOWHERE
        name, element, message = error.buffer, None, error.reason
        if error.kind == "misaligned" and (found_at := self.variables.at(error.address or 0)):
            variable, element = found_at
            name = name or variable.name
            message = message.replace(f"address {error.address:#x}", variable.subscript(element))
        problem = Problem(error.kind, message, *place.told, name, element, None, error.block, error.thread)
        return [p for p in found if p not in wild or p.thread != error.thread] + [problem]


def check(
    names: Sequence[str], arrays: Mapping[str, tuple[int, Array]], seen: native.Seen, finder: Finder
) -> list[Problem]:
    """The problems of the named outputs; arrays are the parameters with their variable's number."""
    problems = []
    for name in names:
        if name not in arrays:
            raise LaunchError(f"outputs={name!r} is no array that the kernel was given; those are {', '.join(arrays)}.")
        number, array = arrays[name][0], arrays[name][1].numpy()
        writes = _last_writes(number, array, seen)
        problems += _never_written(name, writes, finder)
        problems += _nan(name, array, writes, seen, finder)
    return problems


def _last_writes(number: int, array: np.ndarray, seen: native.Seen) -> np.ndarray:
    """The stamp of the last write of each element, plain or atomic; epoch 0 where some of it was never written."""
    last = seen.cells(number)["write"]
    atomics = seen.atomics(number)
    if atomics is not None:
        for one in atomics["at"].T:
            last = np.where(one["epoch"] > last["epoch"], one, last)
    shift = seen.variables[number].shift
    parts = np.arange(max(array.itemsize >> shift, 1))
    cells = last[(np.arange(array.size) * array.itemsize >> shift)[:, None] + parts]
    least = cells["epoch"].argmin(1)[:, None]  # the part that was written first, or never
    stamps = np.take_along_axis(cells, least, 1)[:, 0]
    stamps["pc"] &= native.PC
    return stamps


def _never_written(name: str, writes: np.ndarray, finder: Finder) -> list[Problem]:
    missing = np.flatnonzero(writes["epoch"] == 0)
    if not missing.size:
        return []
    pcs = np.unique(writes["pc"][writes["epoch"] > 0])
    place = finder.places.of(pcs[0]) if pcs.size else NOWHERE  # where the others are written
    element = int(missing[0])
    message = problem.never_written(f"{name}[{element}]", missing.size, len(writes))
    return [Problem("never-written", message, *place.told, name, element, count=missing.size)]


def _nan(name: str, array: np.ndarray, writes: np.ndarray, seen: native.Seen, finder: Finder) -> list[Problem]:
    """NaN that the kernel wrote; one that was there before is not its fault."""
    if array.dtype.kind != "f":
        return []
    bad = np.flatnonzero(np.isnan(array.ravel()) & (writes["epoch"] > 0))
    if not bad.size:
        return []
    element = int(bad[0])
    stamp = writes[element]
    place = finder.places.of(stamp["pc"])
    block = int(seen.blocks(stamp["epoch"], prod(finder.grid)))
    where = finder.at(block, int(stamp["place"]) % (1 << native.THREAD_BITS))
    message = problem.nan(f"{name}[{element}]", bad.size)
    return [Problem("nan", message, *place.told, name, element, "write", *where, count=bad.size)]
