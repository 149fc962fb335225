"""Device: the protocol of a device that runs kernels. `sim` and `cuda` follow it, so a launch is written once."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from minigrad.source import Source

Dim3 = tuple[int, int, int]
Maps = Sequence[tuple[int, Any]]  # a parameter's number and its tensor map
Step = Callable[[], Any]  # queues a launch, a copy or a fill

# The launch limits of every CUDA GPU since 2010, kept for `sim` too, so that what runs here runs there.
MAX_THREADS = 1024
MAX_BLOCK: Dim3 = (1024, 1024, 64)
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
PROCESSORS = 132  # multiprocessors of an H100 (SXM) or H200, for devices that are no GPU
MAX_SHARED, MAX_ASKED = 48 * 1024, 227 * 1024  # bytes of a block; and of one that asks for more, on an H100


class Buffer(Protocol):
    """Device memory, freed when the object is collected."""

    address: int
    nbytes: int


@dataclass
class Arguments:
    """A kernel's arguments: one packed field per parameter, in the layout of CUDA's parameter buffer."""

    packed: ctypes.Structure
    arrays: list[tuple[str, Any]]  # the arrays by parameter name, for messages
    maps: Maps = ()
    cooperative: bool = False  # all blocks run at once, and may wait for each other

    @property
    def places(self) -> list[int]:
        """The host address of each parameter."""
        start, kind = ctypes.addressof(self.packed), type(self.packed)
        return [start + getattr(kind, f).offset + getattr(kind, "paddings", {}).get(f, 0) for f, *_ in kind._fields_]


class PlacedLaunch(NamedTuple):
    """A launch whose parameters are read from host memory whenever it is queued: the i-th at places[i].

    Where a parameter is a tensor map, the place holds the address of its array.
    """

    module: Any
    name: str
    grid: Dim3
    block: Dim3
    shared: int
    arguments: Arguments
    places: Sequence[int]


class Launcher(Protocol):
    """A compiler and a launch: all that a kernel needs of a device, or of a replacement for `sim`."""

    name: str

    def build(self, source: Source, defines: Mapping[str, str], kernel: str) -> Any:
        """Compile the kernel, or its whole file, or take it from the cache. Raises CompileError."""

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Run a kernel. The caller has checked its arguments and limits. Raises KernelError."""

    def synchronize(self) -> None:
        """Wait until every launch has ended."""


class Device(Launcher, Protocol):
    """A launcher with memory."""

    is_gpu: bool  # launches return before the kernel has run, and steps can be captured as graphs
    # It replays recorded launches: queued(a PlacedLaunch) returns steps that queue it at every call of them;
    # repeat(a Program, arrays) fills in the addresses of these arrays and of new memory, calls the steps, and returns
    # the memory; touch(*arrays) lets the graph that is being captured, if any, keep these arrays.
    repeats: bool
    arch: str  # the target of the compiler, e.g. "sm_90a"; empty where that is no GPU
    processors: int  # multiprocessors, each of which runs blocks of its own

    def allocate(self, nbytes: int) -> Buffer:
        """Uninitialised memory of at least one byte, aligned to 16. Raises MemoryError."""

    def upload(self, address: int, host: np.ndarray) -> None:
        """Copy a contiguous host array to the device."""

    def download(self, address: int, host: np.ndarray) -> None:
        """Copy device memory into a contiguous host array, after all launches before it."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""

    def zero(self, address: int, nbytes: int) -> None:
        """Fill with zero bytes."""
