"""A dry run: record the launches of an op, with their grids and arrays. Nothing is compiled, and nothing runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.devices import get, why_not
from minigrad.devices.array import Array
from minigrad.devices.device import PROCESSORS, Arguments, Dim3
from minigrad.source import Source


@dataclass(frozen=True)
class RecordedLaunch:
    """One launch: the kernel with the macros of its build, its extents, and its arrays by parameter."""

    kernel: str
    source: Source
    defines: Mapping[str, str]
    grid: Dim3
    block: Dim3
    shared: int
    arrays: tuple[tuple[str, Array], ...]


@dataclass
class FakeBuffer:
    """A fake allocation: an address and a size, no memory."""

    address: int
    nbytes: int


class DryRun:
    """A device that records launches and runs none. Its memory is unlimited; downloads are zeros."""

    name = "dry run"
    is_gpu = repeats = False

    def __init__(self, like: Any = None) -> None:
        self.arch: str = like.arch if like else "sm_90a"  # without a GPU, that of the stored records: an H200
        self.processors: int = like.processors if like else PROCESSORS
        self.launches: list[RecordedLaunch] = []
        self._next = 1 << 20

    def allocate(self, nbytes: int) -> FakeBuffer:
        """Addresses that no other buffer has."""
        address, self._next = self._next, self._next + -(-nbytes // 256) * 256
        return FakeBuffer(address, nbytes)

    def download(self, address: int, host: np.ndarray) -> None:
        host.fill(0)

    def _nothing(self, *arguments: Any) -> None:
        """There is no memory to work on."""

    upload = copy = zero = synchronize = _nothing

    def build(self, source: Source, defines: Mapping[str, str], kernel: str) -> tuple[Source, dict[str, str]]:
        return source, dict(defines)

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        source, defines = module
        self.launches.append(RecordedLaunch(name, source, defines, grid, block, shared, tuple(arguments.arrays)))


def dry_run() -> DryRun:
    """A dry run of this machine's GPU, or of an H200 where there is none."""
    return DryRun(None if why_not("cuda") else get("cuda"))
