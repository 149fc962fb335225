"""Microscope: the simulator, with every launch in the checking build and watched access by access."""

import ctypes
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices import check, for_launch, get
from minigrad.devices.array import Array
from minigrad.devices.device import Arguments, Dim3
from minigrad.errors import KernelError, require_int
from minigrad.kernels import structs
from minigrad.microscope import native
from minigrad.microscope.debug_info import debug_info
from minigrad.microscope.find import Finder
from minigrad.microscope.problem import Problem, add_new
from minigrad.microscope.record import Inspection
from minigrad.scan import blank
from minigrad.simulator.compiled_file import CompiledFile, compile_file
from minigrad.simulator.runtime import runtime
from minigrad.source import Param, Source

LIMIT = 1 << 24  # recorded accesses; each takes some 100 bytes until it is counted
# By bytes, the names of vectors that are one access; by four times these, `alignas` that lets a struct be one.
_ALIGNED = r"\b(?:alignas|__align__|__builtin_align__)\s*\(\s*(?!%s\s*\))"
_VECTORS = {
    64: re.compile(_ALIGNED % "[1248]"),
    32: re.compile(_ALIGNED % r"(?:[124]|[1-9]\d+)"),
    16: re.compile(r"\b(?:u?int|float)4\b|\b(?:double|u?longlong)[24]\b"),
    8: re.compile(r"\b(?:u?int|float)2\b|\bu?short4\b"),
}
# These order some threads and not all: a fence, a __syncwarp of some lanes, or the sync of a tile.
_ORDERS_SOME = re.compile(r"\b__threadfence|\b__syncwarp\s*\(\s*(?!0xffffffffu?\s*\)|\))|\bcooperative_groups\b")
_INITIAL: dict[Path, list[tuple[int, bytes]]] = {}  # the __device__ variables of a file before its first launch


class WatchedLaunch(NamedTuple):
    """A launch to watch."""

    file: CompiledFile
    kernel: str
    grid: Dim3
    block: Dim3
    shared: int  # bytes of dynamic shared memory
    blocks: int  # number of blocks that are recorded


class Microscope:
    """Runs kernels on the simulator under a watch. Arrays stay on `sim`; their contents move while a kernel runs.

    blocks: the first blocks, which are recorded in full; all blocks are checked. A kernel's faults do not raise: they
    are among the problems of its record. reset: each launch finds the __device__ variables as the file sets them, and
    not as an earlier launch left them.
    """

    name = "microscope"

    def __init__(self, blocks: int = 0, outputs: tuple[str, ...] = (), reset: bool = False):
        self.blocks, self.outputs, self.reset = require_int("the microscope", "blocks", blocks), outputs, reset
        self.launches: list[Inspection] = []
        sim: Any = for_launch(get(check("sim")))  # a Simulator, or the microscope of an outer `with watching()`
        self.simulator: Any = getattr(sim, "simulator", sim).using(workers=1)  # block after block, in order

    def build(self, source: Source, defines: Mapping[str, str], kernel: str) -> CompiledFile:
        """The checking build of the whole file, which is not optimised and so takes little longer than a kernel; of a
        reader's file that of the kernel that is wanted, as the others may not compile here.
        """
        return compile_file(source, defines, source.kernel, native.recipe(source.text))

    def store(self, module: CompiledFile, name: str, host: np.ndarray) -> np.ndarray:
        """Set a __constant__ or __device__ variable; a launch that resets them resets it to this."""
        before: np.ndarray = self.simulator.store(module, name, host)
        address, size = module.variable(name)
        content = ctypes.string_at(address, size)
        known = _INITIAL.get(module.path, [])
        known[:] = [(start, content if start == address else old) for start, old in known]
        return before

    def synchronize(self) -> None:
        """Return at once, as the simulator does."""

    def launch(
        self, module: CompiledFile, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments
    ) -> None:
        """Run a kernel, and append the record of what it did to `launches`."""
        launch = WatchedLaunch(module, name, grid, block, shared, self.blocks)
        signature = module.source.kernels.get(name)
        moved, start = MovedArguments(arguments, signature.params if signature else ()), time.monotonic()
        with runtime().launching:
            with native.watch(_request(launch, moved), moved.extents) as starts:
                found = native.Observations().variables[len(moved.groups) :]  # before the launch: __device__ variables
                statics = [(one.start, ctypes.string_at(one.start, one.bytes)) for one in found]
                initial = _INITIAL.setdefault(module.path, statics)
                if self.reset:
                    _write(statics := initial)
                error = self._run(launch, moved.enter(starts.tolist()))
                seen = native.Observations()
                before = moved.leave()
                finder = Finder(grid, block, moved.groups, debug_info(module), seen)
                problems = finder.find(seen.findings, error, self.outputs)
                record = Inspection(name, module.source, *launch[2:], problems, seen, finder.info, finder.variables)
            if seen.order_dependent and not error:
                timeout = min(self.simulator.timeout, 1 + 4 * (time.monotonic() - start))
                races = self._races_in_reverse(launch, moved, before, statics, timeout)
                record.problems[:] = add_new(record.problems, races)
        self.launches.append(record)

    def _run(self, launch: WatchedLaunch, arguments: Arguments, **settings: Any) -> KernelError | None:
        try:
            self.simulator.using(**settings).launch(*launch[:5], arguments)
        except KernelError as error:
            return error
        return None

    def _races_in_reverse(
        self, launch: WatchedLaunch, moved: "MovedArguments", before: Sequence[bytes],
        statics: Sequence[tuple[int, bytes]], timeout: float,
    ) -> list[Problem]:  # fmt: skip
        """The races of a second run in which the last block and the last thread begin first: what those release,
        threads that come earlier in the usual order have acquired only if they wait for it.
        """
        after = [(start, ctypes.string_at(start, len(content))) for start, content in statics]
        _write(statics)
        try:
            request = _request(launch._replace(blocks=0), moved, reversed=1)
            with native.watch(request, moved.extents) as starts:
                arguments = moved.enter(starts.tolist(), before)
                self._run(launch, arguments, timeout=timeout, write=str)  # prints nothing
                seen = native.Observations()
                races = [finding for finding in seen.findings if finding.kind == native.ProblemKind.RACE]
                return Finder(launch.grid, launch.block, moved.groups, debug_info(launch.file), seen).find(races)
        finally:
            _write(after)

    @property
    def problems(self) -> list[Problem]:
        """The problems of all launches, launch after launch."""
        return [problem for record in self.launches for problem in record.problems]


def _request(launch: WatchedLaunch, moved: "MovedArguments", **named: int) -> native.WatchRequest:
    vectors, keep_history = _mentioned(tuple(launch.file.parts.values()))
    foreign = debug_info(launch.file).foreign
    return native.WatchRequest(
        packed=ctypes.addressof(moved.packed), packed_bytes=ctypes.sizeof(moved.packed), shared=launch.shared,
        kernel=launch.file.entry(launch.kernel), foreign=foreign.ctypes.data, foreign_bits=8 * len(foreign),
        grid=prod(launch.grid), blocks=launch.blocks, limit=LIMIT, vectors=vectors, keep_history=keep_history,
        cooperative=moved.cooperative, **named,
    )  # fmt: skip


def _write(contents: Sequence[tuple[int, bytes]]) -> None:
    for start, content in contents:
        if ctypes.string_at(start, len(content)) != content:  # const variables have not changed, and are read-only
            ctypes.memmove(start, content, len(content))


@cache
def _mentioned(texts: Sequence[str]) -> tuple[int, bool]:
    """The sum of the sizes of the vectors in the texts; and True if something in them orders only some threads."""
    code = "\n".join(map(blank, texts))
    return sum(size for size, names in _VECTORS.items() if names.search(code)), bool(_ORDERS_SOME.search(code))


class MovedArguments:
    """A kernel's arguments, with their arrays moved to the watched addresses for the time of a launch."""

    def __init__(self, arguments: Arguments, params: Sequence[Param] = ()):
        self._arguments, self._params = arguments, params
        self.packed = type(arguments.packed).from_buffer_copy(arguments.packed)
        self.cooperative = arguments.cooperative
        buffers: dict[int, list[tuple[str, Array]]] = {}
        for name, array in arguments.arrays:
            buffers.setdefault(array.buffer.address, []).append((name, array))
        self._starts: dict[int, int] = {}
        self.groups = list(buffers.values())  # the parameters by buffer
        self.extents = [(g[0][1].buffer.nbytes, min(a.dtype.itemsize for _, a in g)) for g in self.groups]

    def enter(self, starts: Sequence[int], contents: Sequence[bytes] = ()) -> Arguments:
        """Copy each buffer, or the content given for it, to its start. Returns the arguments for the launch."""
        self._starts = {group[0][1].buffer.address: start for group, start in zip(self.groups, starts, strict=True)}
        sources: Iterable[Any] = contents or self._starts
        for source, start, (nbytes, _) in zip(sources, starts, self.extents, strict=True):
            ctypes.memmove(start, source, nbytes)
        arrays, given = [], iter(self._arguments.arrays)
        for field, kind in self.packed._fields_:  # type: ignore[misc]
            if kind is ctypes.c_void_p and getattr(self.packed, field) is not None:
                name, array = next(given)
                at = self._moved(array)
                setattr(self.packed, field, at)
                arrays.append((name, Array(array.device, array.spec.stored, array.dtype, array.buffer, at)))
        self._relocate({a.address: self._moved(a) for _, a in self._arguments.arrays})
        return Arguments(self.packed, arrays, cooperative=self.cooperative)

    def _moved(self, array: Array) -> int:
        """The address of an array where it is watched."""
        return self._starts[array.buffer.address] + array.address - array.buffer.address

    def _relocate(self, new: Mapping[int, int]) -> None:
        """Replace the addresses in structs, by value and in watched arrays, by those for the same arrays."""
        arrays = dict(self._arguments.arrays)
        for param, place in zip(self._params, Arguments(self.packed, []).places, strict=False):
            if structs.holds_pointers(param.members) and (param.name in arrays or not param.pointer):
                dtype = structs.layout(param.type, param.members)[0]
                at, count = (self._moved(arrays[param.name]), arrays[param.name].size) if param.pointer else (place, 1)
                memory = (ctypes.c_ubyte * (dtype.itemsize * count)).from_address(at)
                for pointers in structs.addresses(param.members, np.frombuffer(memoryview(memory), dtype)):
                    moved = [new.get(address, address) for address in pointers.ravel().tolist()]
                    pointers[...] = np.reshape(np.array(moved, structs.ADDRESS), pointers.shape)

    def leave(self) -> list[bytes]:
        """Copy the results back. Returns the buffers' contents before the launch."""
        self._relocate({self._moved(a): a.address for _, a in self._arguments.arrays})
        before = list[bytes]()
        for (address, start), (nbytes, _) in zip(self._starts.items(), self.extents, strict=True):
            before.append(ctypes.string_at(address, nbytes))
            ctypes.memmove(address, start, nbytes)
        return before
