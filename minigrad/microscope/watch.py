"""Microscope: `sim`, with every launch in the checking build and watched access by access."""

import ctypes
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from minigrad.devices import check, for_launch, get
from minigrad.devices.array import Array
from minigrad.devices.device import Arguments, Dim3
from minigrad.errors import KernelError, whole
from minigrad.microscope import native
from minigrad.microscope.debug_info import places
from minigrad.microscope.find import Finder
from minigrad.microscope.native import recipe
from minigrad.microscope.problem import Problem, joined
from minigrad.microscope.record import Inspection, look
from minigrad.microscope.variables import Variables
from minigrad.simulator.module import Module, Modules
from minigrad.simulator.runtime import runtime
from minigrad.source import Source, blank

LIMIT = 1 << 24  # accesses that are recorded at most; what is made of them takes some 100 bytes each
# Vectors that are read in one piece, by their bytes; and by four times these, structs that the text aligns to as many.
_ALIGNED = r"\b(?:alignas|__align__|__builtin_align__)\s*\(\s*(?!%s\s*\))"
_VECTORS = {
    64: re.compile(_ALIGNED % "[1248]"),
    32: re.compile(_ALIGNED % r"(?:[124]|[1-9]\d+)"),
    16: re.compile(r"\b(?:u?int|float)4\b|\b(?:double|u?longlong)[24]\b"),
    8: re.compile(r"\b(?:u?int|float)2\b|\bu?short4\b"),
}
# What orders one thread and not its neighbour: a fence, or a __syncwarp of some lanes.
_SOME = re.compile(r"\b__threadfence|\b__syncwarp\s*\(\s*(?!0xffffffffu?\s*\)|\))")
_MODULES = Modules(recipe)  # one for all microscopes: a build is not made twice
_FIRST: dict[Path, list[tuple[int, bytes]]] = {}  # what a file's __device__ variables held before its first launch


class Watched(NamedTuple):
    """A launch that is watched."""

    module: Module
    name: str
    grid: Dim3
    block: Dim3
    shared: int  # bytes, of dynamic shared memory
    blocks: int  # so many are recorded


class Microscope:
    """A device for launches alone: arrays stay on `sim`, and lie in watched memory while a kernel runs.

    blocks: so many blocks, from the first, are recorded in full; the checks are made in all of them. What goes wrong
    in a kernel does not raise: it is among the problems of its record. anew: each launch finds the __device__ variables
    as the file sets them, and not as an earlier one has left them.
    """

    name = "microscope"

    def __init__(self, blocks: int = 0, outputs: tuple[str, ...] = (), anew: bool = False):
        self.blocks, self.outputs, self.anew = whole("the microscope", "blocks", blocks), outputs, anew
        self.launches: list[Inspection] = []
        sim: Any = for_launch(get(check("sim")))  # or what is in its place; of a microscope, what that looks at
        self._sim: Any = getattr(sim, "_sim", sim).using(workers=1)  # block after block, in order

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sim, name)  # the memory, and synchronize

    def build(self, source: Source, defines: Mapping[str, str]) -> Module:
        """The checking build. Raises CompileError."""
        return _MODULES.get(source, defines)

    def launch(self, module: Module, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Run a kernel and keep the record of what it did in `launches`."""
        one, moved, start = Watched(module, name, grid, block, shared, self.blocks), Moved(arguments), time.monotonic()
        with runtime().launching:
            with native.watch(_order(one, moved), moved.extents) as starts:
                statics = native.statics(len(moved.groups))
                first = _FIRST.setdefault(module.path, statics)
                if self.anew:
                    _put(statics := first)
                stopped = self._run(one, moved.enter(starts.tolist()))
                seen = native.seen()
                before = moved.leave()
                record = look(module.source, name, one[2:], moved.groups, places(module), seen, stopped, self.outputs)
            if seen.turnable and not stopped:
                patience = min(self._sim.timeout, 1 + 4 * (time.monotonic() - start))
                races = self._turned(one, moved, before, statics, patience)
                record.problems[:] = joined(record.problems, races)
        self.launches.append(record)

    def _run(self, one: Watched, arguments: Arguments, **settings: Any) -> KernelError | None:
        try:
            self._sim.using(**settings).launch(one.module, one.name, one.grid, one.block, one.shared, arguments)
        except KernelError as error:
            return error
        return None

    def _turned(
        self, one: Watched, moved: "Moved", before: Sequence[bytes], statics: Sequence[tuple[int, bytes]],
        timeout: float,
    ) -> list[Problem]:  # fmt: skip
        """The races where the last block and the last thread begin first: what one of these releases, those that come
        before it in the usual order have not acquired, unless they wait for it.
        """
        after = [(start, ctypes.string_at(start, len(held))) for start, held in statics]
        _put(statics)
        try:
            order = _order(one._replace(blocks=0), moved, reversed=1)
            with native.watch(order, moved.extents) as starts:
                arguments = moved.enter(starts.tolist(), before)
                self._run(one, arguments, timeout=timeout, tell=str)  # nobody is told
                seen = native.seen()
                races = [finding for finding in seen.findings if finding.wrong == native.Wrong.RACE]
                variables = Variables(moved.groups, seen.variables)
                return Finder(one.grid, one.block, variables, places(one.module), seen.fenced).find(races, None)
        finally:
            _put(after)

    @property
    def problems(self) -> list[Problem]:
        """The problems of all launches, launch after launch."""
        return [problem for record in self.launches for problem in record.problems]


def _order(one: Watched, moved: "Moved", **named: int) -> native.Order:
    vectors, careful = _spoken_of(tuple(one.module.parts.values()))
    return native.Order(
        packed=ctypes.addressof(moved.packed), packed_bytes=ctypes.sizeof(moved.packed), shared=one.shared,
        kernel=one.module.entry(one.name), grid=prod(one.grid), blocks=one.blocks, limit=LIMIT,
        vectors=vectors, careful=careful, **named,
    )  # fmt: skip


def _put(contents: Sequence[tuple[int, bytes]]) -> None:
    for start, held in contents:
        if ctypes.string_at(start, len(held)) != held:  # what is const has not changed, and cannot be written
            ctypes.memmove(start, held, len(held))


@cache
def _spoken_of(texts: Sequence[str]) -> tuple[int, bool]:
    """The sizes of the vectors that texts speak of, added up; and whether of what orders some threads alone."""
    code = "\n".join(map(blank, texts))
    return sum(size for size, names in _VECTORS.items() if names.search(code)), bool(_SOME.search(code))


class Moved:
    """A kernel's arguments, with copies of their arrays where the watch has them, for the time of a launch."""

    def __init__(self, arguments: Arguments):
        self._arguments = arguments
        self.packed = type(arguments.packed).from_buffer_copy(arguments.packed)
        buffers: dict[int, list[tuple[str, Array]]] = {}
        for name, array in arguments.arrays:
            buffers.setdefault(array.buffer.address, []).append((name, array))
        self._starts: dict[int, int] = {}
        self.groups = list(buffers.values())  # the parameters by buffer
        self.extents = [(g[0][1].buffer.nbytes, min(a.dtype.itemsize for _, a in g)) for g in self.groups]

    def enter(self, starts: Sequence[int], contents: Sequence[bytes] = ()) -> Arguments:
        """Copy each buffer, or the contents given for it, to its start; the arguments for the launch."""
        self._starts = {group[0][1].buffer.address: start for group, start in zip(self.groups, starts, strict=True)}
        sources: Iterable[Any] = contents or self._starts
        for source, start, (nbytes, _) in zip(sources, starts, self.extents, strict=True):
            ctypes.memmove(start, source, nbytes)
        arrays, given = [], iter(self._arguments.arrays)
        for field, kind in self.packed._fields_:  # type: ignore[misc]
            if kind is ctypes.c_void_p and getattr(self.packed, field) is not None:
                name, array = next(given)
                at = self._starts[array.buffer.address] + array.address - array.buffer.address
                setattr(self.packed, field, at)
                arrays.append((name, Array(array.device, array.shape, array.dtype, array.buffer, at)))
        return Arguments(self.packed, self._arguments.size, arrays)

    def leave(self) -> list[bytes]:
        """Copy everything back; gives what was there."""
        before = [
            ctypes.string_at(address, size) for address, (size, _) in zip(self._starts, self.extents, strict=True)
        ]
        for (address, start), (nbytes, _) in zip(self._starts.items(), self.extents, strict=True):
            ctypes.memmove(address, start, nbytes)
        return before
