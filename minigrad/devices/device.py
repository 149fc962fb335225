"""What a device that runs kernels must offer; `sim` and `cuda` both do, so a launch is written once."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from minigrad.source import Source

Dim3 = tuple[int, int, int]
Maps = Sequence[tuple[int, Any]]
Step = Callable[[], Any]  # queues a launch, a copy or a fill

# The launch limits of every CUDA GPU since 2010, kept for `sim` too, so that what runs here runs there.
MAX_THREADS = 1024
MAX_BLOCK: Dim3 = (1024, 1024, 64)
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
PROCESSORS = 132  # multiprocessors of an H100 (SXM) or H200, for devices that are no GPU
MAX_SHARED = 48 * 1024


def index_of(number: int, extent: Dim3) -> Dim3:
    """The index (x, y, z) of a block or thread that is counted along x first."""
    x, y, _ = extent
    return number % x, number // x % y, number // (x * y)


class Buffer(Protocol):
    """Device memory, given back when the object is collected."""

    address: int
    nbytes: int


@dataclass
class Arguments:
    """A kernel's arguments: one packed field per parameter, laid out as CUDA's parameter buffer is."""

    packed: ctypes.Structure
    size: int  # up to the end of the last parameter: a C struct is padded behind it, CUDA's buffer is not
    arrays: list[tuple[str, Any]]  # the pointers by parameter name, for messages
    maps: Maps = ()  # the tensor maps, by the number of the parameter


class Placed(NamedTuple):
    """A launch with the places of host memory at which the values of its parameters are found when it is queued.

    Where a parameter is a tensor map, the place holds the address of its array.
    """

    module: Any
    name: str
    grid: Dim3
    block: Dim3
    shared: int
    packed: ctypes.Structure
    at: Sequence[int]
    maps: Maps


class Launcher(Protocol):
    """A compiler and a launch: all that a kernel needs of a device, or of what stands in for `sim`."""

    name: str

    def build(self, source: Source, defines: Mapping[str, str]) -> Any:
        """Compile, or take from the cache. Raises CompileError."""

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Run a kernel. Its arguments and limits have been checked. Raises KernelError."""

    def synchronize(self) -> None:
        """Wait until every launch has ended."""


class Device(Launcher, Protocol):
    """A launcher with memory."""

    repeats: bool  # whether it also is a Repeater
    arch: str  # what its kernels are compiled for, as "sm_90a"; empty where that is no GPU
    processors: int  # multiprocessors, each of which runs blocks of its own

    def allocate(self, nbytes: int) -> Buffer:
        """Uninitialised memory of at least one byte, aligned to 16."""

    def upload(self, address: int, host: np.ndarray) -> None:
        """Copy a contiguous host array to the device."""

    def download(self, address: int, host: np.ndarray) -> None:
        """Copy device memory into a contiguous host array, after all launches before it."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""

    def zero(self, address: int, nbytes: int) -> None:
        """Fill with zero bytes."""


class Repeater(Device, Protocol):
    """A device on which the launches of an op are prepared once and repeated with other addresses."""

    def queued(self, launch: Placed) -> Sequence[Step]:
        """What queues this launch, as often as it is taken."""

    def repeat(self, program: Any, arrays: Sequence[Any]) -> list[Buffer]:
        """Let the program fill in the addresses of arrays and of new memory, take its steps, return that memory."""

    def touch(self, *arrays: Any) -> None:
        """Keep these arrays as long as what is being noted, if anything is."""
