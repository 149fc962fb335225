"""Occupancy: the blocks of a kernel that a multiprocessor holds at once, the resource that limits them, the waves.

The arithmetic is that of NVIDIA's occupancy calculator, `cuda_occupancy.h`, for compute capability 7.0 and newer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from minigrad.devices.cuda.chip import Chip
from minigrad.devices.device import MAX_THREADS
from minigrad.devices.dry_run import RecordedLaunch
from minigrad.errors import require, require_int
from minigrad.kernels.extents import ceil_div
from minigrad.op import Op

WARP = 32
REGISTERS = 256  # the unit in which a warp's registers are allocated
PARTITIONS = 4  # of a multiprocessor, each with a quarter of the registers
Resources = tuple[int, int, int]  # registers a thread, static shared memory, local memory, in bytes


@dataclass(frozen=True)
class Occupancy:
    """A kernel's blocks on a chip; `limits`: the blocks that fit on a multiprocessor, by resource."""

    kernel: str
    grid: int  # blocks
    threads: int  # of a block
    registers: int  # of a thread
    shared: int  # bytes of a block
    chip: Chip

    def __post_init__(self) -> None:
        for name in ("grid", "threads", "registers", "shared"):
            require_int("Occupancy", name, getattr(self, name), int(name == "threads"))
        if self.threads > MAX_THREADS:
            raise ValueError(f"Occupancy: threads={self.threads}; a block has at most {MAX_THREADS}.")
        require("Occupancy: chip", self.chip, Chip, "a chip, e.g. mg.bench.newest().chip")

    @property
    def warps(self) -> int:
        """Warps of a block, rounded up."""
        return ceil_div(self.threads, WARP)

    @property
    def limits(self) -> dict[str, int]:
        """Blocks that fit on a multiprocessor, by resource."""
        return {name: limit for name, (limit, _) in self._limits.items()}

    @property
    def _limits(self) -> dict[str, tuple[int, str]]:
        """The limit of each resource, and its arithmetic."""
        chip, warps = self.chip, self.warps
        taken = ceil_div(self.registers * WARP, REGISTERS) * REGISTERS  # by a warp
        fit = chip.registers // PARTITIONS // taken * PARTITIONS // warps if taken else chip.blocks
        if taken * ceil_div(warps, PARTITIONS) * PARTITIONS > chip.registers:
            fit = 0  # not even one block fits: the launch is rejected
        unit = 128 if chip.compute >= (8, 0) else 256  # in which shared memory is allocated, the driver's own included
        block = ceil_div(self.shared + chip.reserved, unit) * unit
        return {
            "warps": (chip.warps // warps, f"{chip.warps} of a multiprocessor / {warps} of a block"),
            "registers": (fit, f"{chip.registers} / ({self._warps} x {taken}), {self.registers} a thread"),
            "shared memory": (
                chip.shared // max(1, block),
                f"{chip.shared} bytes / {block}, {self.shared} + {chip.reserved} a block",
            ),
            "blocks": (chip.blocks, f"{chip.blocks} of a multiprocessor / 1"),
        }  # fmt: skip

    @property
    def blocks(self) -> int:
        """Blocks on a multiprocessor at once."""
        return min(self.limits.values())

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources with the smallest limit."""
        return tuple(name for name, limit in self.limits.items() if limit == self.blocks)

    @property
    def share(self) -> float:
        """Resident warps / the most that a multiprocessor can hold."""
        return self.blocks * self.warps / self.chip.warps

    @property
    def waves(self) -> float:
        """grid / (multiprocessors * blocks on each)"""
        return self.grid / (self.chip.sms * self.blocks) if self.blocks else 0.0

    @property
    def tail(self) -> float:
        """The occupied share of the last wave; 1 is full."""
        return self.waves % 1 or 1.0 if self.waves else 0.0

    @property
    def _warps(self) -> str:
        return "1 warp" if self.warps == 1 else f"{self.warps} warps"

    def __repr__(self) -> str:
        chip = self.chip
        lines = [f"{self.kernel}: blocks of {self.threads} threads on {chip.name}"]
        for name, (limit, arithmetic) in self._limits.items():
            mark = ": the limit" if name in self.limiters else ""
            lines.append(f"  {name:14} {arithmetic} = {limit} blocks{mark}")
        held = f"{self.blocks} blocks x {self._warps} = {self.blocks * self.warps} of {chip.warps} warps"
        waves = f"{self.grid} blocks / ({chip.sms} multiprocessors x {self.blocks}) = {self.waves:.2f} waves"
        waves += f"; the last one is {100 * self.tail:.0f} % full"
        waves = waves if self.blocks else "none: not one block fits, and its launch is refused"
        return "\n".join([*lines, f"  {'occupancy':14} {held}, {100 * self.share:.0f} %", f"  {'waves':14} {waves}"])


def occupancy(launch: RecordedLaunch, taken: Resources, chip: Chip) -> Occupancy:
    """The occupancy of a launch, from the resources of its kernel."""
    registers, static, _ = taken
    return Occupancy(launch.kernel, prod(launch.grid), prod(launch.block), registers, static + launch.shared, chip)


def key(launch: RecordedLaunch) -> str:
    """A kernel with the macros compiled into it, as in records: "matmul_tiled TILE=16"."""
    values = sorted((name, value) for name, value in launch.defines.items() if name != "real")
    return " ".join([launch.kernel, *(f"{name}={value}" for name, value in values)])


def heaviest(launches: Sequence[RecordedLaunch], op: Op) -> RecordedLaunch:
    """The launch with most threads among the op's own kernels; kernels that copy for them come last."""
    own = {kernel.name for kernel in op.kernels.values()}
    return max(launches, key=lambda run: (run.kernel in own, prod(run.grid) * prod(run.block)))
