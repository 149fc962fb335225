"""Occupancy: the blocks of a kernel that a multiprocessor holds at once, the resource that limits them, the waves.

The arithmetic is that of NVIDIA's occupancy calculator, `cuda_occupancy.h`, for compute capability 7.0 and newer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from minigrad.devices.cuda.chip import Chip
from minigrad.devices.device import MAX_THREADS
from minigrad.devices.dry_run import RecordedLaunch
from minigrad.errors import a, whole
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
            whole("Occupancy", name, getattr(self, name), int(name == "threads"))
        if self.threads > MAX_THREADS:
            raise ValueError(f"Occupancy: threads={self.threads}; a block has at most {MAX_THREADS}.")
        a("Occupancy: chip", self.chip, Chip, "a chip, e.g. mg.bench.newest().chip")

    @property
    def warps(self) -> int:
        """Warps of a block, rounded up."""
        return ceil_div(self.threads, WARP)

    @property
    def limits(self) -> dict[str, int]:
        """Blocks that fit on a multiprocessor, by resource."""
        chip = self.chip
        return {
            "warps": chip.warps // self.warps,
            "registers": self._by_registers(),
            "shared memory": chip.shared // max(1, self.shared_taken),
            "blocks": chip.blocks,
        }

    def _by_registers(self) -> int:
        taken = self.registers_taken
        if not taken:
            return self.chip.blocks
        if taken * ceil_div(self.warps, PARTITIONS) * PARTITIONS > self.chip.registers:
            return 0  # not even one block fits: the launch is rejected
        return self.chip.registers // PARTITIONS // taken * PARTITIONS // self.warps

    @property
    def registers_taken(self) -> int:
        """Registers of a warp, rounded up to the allocation unit."""
        return ceil_div(self.registers * WARP, REGISTERS) * REGISTERS

    @property
    def shared_taken(self) -> int:
        """Bytes of a block with the driver's own, rounded up to the allocation unit."""
        unit = 128 if self.chip.compute >= (8, 0) else 256
        return ceil_div(self.shared + self.chip.reserved, unit) * unit

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

    def _steps(self) -> dict[str, str]:
        """The arithmetic of each limit."""
        chip, warps = self.chip, self.warps
        return {
            "warps": f"{chip.warps} of a multiprocessor / {warps} of a block",
            "registers": f"{chip.registers} / ({self._warps} x {self.registers_taken}), {self.registers} a thread",
            "shared memory": f"{chip.shared} bytes / {self.shared_taken}, {self.shared} + {chip.reserved} a block",
            "blocks": f"{chip.blocks} of a multiprocessor / 1",
        }

    def __repr__(self) -> str:
        limits, steps, chip = self.limits, self._steps(), self.chip
        lines = [f"{self.kernel}: blocks of {self.threads} threads on {chip.name}"]
        for name, limit in limits.items():
            mark = ": the limit" if name in self.limiters else ""
            lines.append(f"  {name:14} {steps[name]} = {limit} blocks{mark}")
        held = f"{self.blocks} blocks x {self._warps} = {self.blocks * self.warps} of {chip.warps} warps"
        waves = f"{self.grid} blocks / ({chip.sms} multiprocessors x {self.blocks}) = {self.waves:.2f} waves"
        waves += f"; the last one is {100 * self.tail:.0f} % full"
        return "\n".join(
            [
                *lines,
                f"  {'occupancy':14} {held}, {100 * self.share:.0f} %",
                f"  {'waves':14} {waves if self.blocks else 'none: not one block fits, and its launch is refused'}",
            ]
        )


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
