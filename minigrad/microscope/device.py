"""Microscope: `sim`, with every launch in the checking build and watched access by access."""

import copy
import ctypes
import re
from collections.abc import Mapping
from typing import Any

from minigrad.array import Array
from minigrad.devices import check, get
from minigrad.devices.base import Arguments, Dim3
from minigrad.devices.simulator.module import Module, Modules
from minigrad.devices.simulator.runtime import runtime
from minigrad.errors import KernelError
from minigrad.microscope import native
from minigrad.microscope.build import recipe
from minigrad.microscope.problems import Problem
from minigrad.microscope.record import Inspection, look
from minigrad.microscope.sites import Places
from minigrad.source import Source

LIMIT = 1 << 26  # accesses that are recorded at most, 40 bytes each
# Vectors that are read in one piece, by their bytes.
_VECTORS = {
    16: re.compile(r"\b(?:u?int|float)4\b|\b(?:double|u?longlong)[24]\b"),
    8: re.compile(r"\b(?:u?int|float)2\b"),
}
_MODULES = Modules(recipe)  # one for all microscopes: a build is not made twice


class Microscope:
    """A device for launches alone: arrays stay on `sim`, and lie in watched memory while a kernel runs.

    blocks: so many blocks, from the first, are recorded in full; the checks are made in all of them. What goes wrong
    in a kernel does not raise: it is among the problems of its record.
    """

    name = "microscope"

    def __init__(self, blocks: int = 0, outputs: tuple[str, ...] = ()):
        self.blocks, self.outputs = blocks, outputs
        self.launches: list[Inspection] = []
        self._sim = copy.copy(get(check("sim")))
        self._sim.workers = 1  # type: ignore[attr-defined]  # block after block, in order

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sim, name)  # the memory, and synchronize

    def build(self, source: Source, defines: Mapping[str, str]) -> Module:
        """The checking build. Raises CompileError."""
        return _MODULES.get(source, defines)

    def launch(self, module: Module, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Run a kernel and keep the record of what it did in `launches`."""
        buffers: dict[int, list[tuple[str, Array]]] = {}
        for parameter, array in arguments.arrays:
            buffers.setdefault(array.buffer.address, []).append((parameter, array))
        groups = list(buffers.values())
        packed = type(arguments.packed).from_buffer_copy(arguments.packed)
        order = native.Order(
            packed=ctypes.addressof(packed), packed_bytes=ctypes.sizeof(packed),
            blocks=self.blocks, grid=grid[0] * grid[1] * grid[2], limit=LIMIT, kernel=module.entry(name), shared=shared,
            vectors=sum(size for size, names in _VECTORS.items() if any(map(names.search, module.parts.values()))),
        )  # fmt: skip
        extents = [(g[0][1].buffer.nbytes, min(a.dtype.itemsize for _, a in g)) for g in groups]
        stopped: KernelError | None = None
        with runtime().launching, native.watch(order, extents) as starts:
            places = dict(zip(buffers, map(int, starts), strict=True))
            for (address, group), start in zip(buffers.items(), places.values(), strict=True):
                self._sim.copy(start, address, group[0][1].buffer.nbytes)
            try:
                self._sim.launch(module, name, grid, block, shared, _move(arguments, packed, places))
            except KernelError as error:
                stopped = error
            for (address, group), start in zip(buffers.items(), places.values(), strict=True):
                self._sim.copy(address, start, group[0][1].buffer.nbytes)
            seen = native.seen(order.grid)
        launch = (grid, block, shared, self.blocks)
        self.launches.append(look(module.source, name, launch, groups, Places(module), seen, stopped, self.outputs))

    @property
    def problems(self) -> list[Problem]:
        """The problems of all launches, launch after launch."""
        return [problem for record in self.launches for problem in record.problems]


def _move(arguments: Arguments, packed: ctypes.Structure, starts: Mapping[int, int]) -> Arguments:
    """The arguments with their arrays where the watch has them; `packed` is a copy, and is changed."""
    arrays, pointers = [], iter(arguments.arrays)
    for field, kind in packed._fields_:  # type: ignore[misc]
        if kind is ctypes.c_void_p and getattr(packed, field) is not None:
            name, array = next(pointers)
            address = starts[array.buffer.address] + array.address - array.buffer.address
            setattr(packed, field, address)
            arrays.append((name, Array(array.device, array.shape, array.dtype, array.buffer, address)))
    return Arguments(packed, arguments.size, arrays)
