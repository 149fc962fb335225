"""A dry run: which kernels an op would launch, over which grids, on which arrays. Nothing is compiled, nothing runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.devices import get, why_not
from minigrad.devices.array import Array
from minigrad.devices.device import PROCESSORS, Arguments, Dim3
from minigrad.source import Source


@dataclass(frozen=True)
class Launched:
    """One launch: the kernel with what was compiled into it, its extents, and its arrays by parameter."""

    kernel: str
    source: Source
    defines: Mapping[str, str]
    grid: Dim3
    block: Dim3
    shared: int
    arrays: tuple[tuple[str, Array], ...]


@dataclass
class Nowhere:
    """Memory that does not exist: an address for the books."""

    address: int
    nbytes: int


class DryRun:
    """A device of unlimited memory, like another if one is given, that notes every launch and does none.

    Downloads are zeros.
    """

    name = "dry run"
    repeats = False

    def __init__(self, like: Any = None) -> None:
        # As those of a device, or of the GPUs of the records.
        self.arch: str = like.arch if like else "sm_90a"
        self.processors: int = like.processors if like else PROCESSORS
        self.launches: list[Launched] = []
        self._next = 1 << 20

    def allocate(self, nbytes: int) -> Nowhere:
        """Addresses that nobody else has."""
        at, self._next = self._next, self._next + -(-nbytes // 256) * 256
        return Nowhere(at, nbytes)

    def upload(self, address: int, host: np.ndarray) -> None:
        """Nothing."""

    def download(self, address: int, host: np.ndarray) -> None:
        """Zeros."""
        host.fill(0)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Nothing."""

    def zero(self, address: int, nbytes: int) -> None:
        """Nothing."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def build(self, source: Source, defines: Mapping[str, str]) -> tuple[Source, dict[str, str]]:
        """What would be compiled."""
        return source, dict(defines)

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Note the launch."""
        source, defines = module
        self.launches.append(Launched(name, source, defines, grid, block, shared, tuple(arguments.arrays)))


def dry_run() -> DryRun:
    """A dry run of this machine's GPU, or where it has none of those of the records."""
    return DryRun() if why_not("cuda") else DryRun(get("cuda"))
