"""Chip: the numbers of a GPU that bound a kernel, read from the driver or from a record."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Floating-point operations per clock of a multiprocessor, additions and multiplications counted: twice its float32
# cores; for its (dense) tensor cores as in NVIDIA's tables of compute capabilities.
FLOAT32 = {(7, 0): 128, (7, 5): 128, (8, 0): 128, (8, 6): 256, (8, 7): 256, (8, 9): 256, (9, 0): 256, (10, 0): 256}
TENSOR = {"tf32": {(8, 0): 1024, (9, 0): 2048}, "bfloat16": {(8, 0): 2048, (9, 0): 4096}}
THREE = {compute: rate / 3 for compute, rate in TENSOR["tf32"].items()}  # float32 in three products of TF32
FLOPS_PER_CLOCK: Mapping[str, Mapping[tuple[int, int], float]] = {"float32": FLOAT32, "3xtf32": THREE, **TENSOR}

# KB of L1 and shared memory together, from the same tables.
NEAR = {(7, 0): 128, (7, 5): 96, (8, 0): 192, (8, 6): 128, (8, 7): 192, (8, 9): 128, (9, 0): 256, (10, 0): 256}


@dataclass(frozen=True)
class Chip:
    """A GPU as its driver describes it. `registers`, `shared`, `threads` and `blocks` are per multiprocessor."""

    name: str
    compute: tuple[int, int]
    sms: int
    clock: float  # in Hz, the highest
    bandwidth: float  # bytes per second: bus width * 2 * memory clock
    l2: int  # bytes
    registers: int
    shared: int  # bytes
    reserved: int  # bytes of shared memory that the driver takes per block
    threads: int
    blocks: int
    memory: int = 0  # bytes of global memory; 0 in older records

    def peak(self, unit: str = "float32") -> float | None:
        """FLOP/s = multiprocessors * FLOPs per clock * clock, by the unit of FLOPS_PER_CLOCK; None if unknown."""
        per_clock = FLOPS_PER_CLOCK[unit].get(self.compute)
        return self.sms * per_clock * self.clock if per_clock else None

    @property
    def cores(self) -> int | None:
        """float32 cores per multiprocessor: each makes two FLOPs per clock. None if unknown."""
        per_clock = FLOAT32.get(self.compute)
        return per_clock // 2 if per_clock else None

    @property
    def near(self) -> int:
        """Bytes of L1 and shared memory together, per multiprocessor; those of shared memory where unknown."""
        return NEAR.get(self.compute, 0) * 1024 or self.shared

    @property
    def warps(self) -> int:
        """Warps per multiprocessor."""
        return self.threads // 32


def chip_of(gpu: Any) -> Chip:
    """The chip of a GPU, by its driver's attributes."""
    of = gpu.attribute
    return Chip(
        name=gpu.label,
        compute=(of("COMPUTE_CAPABILITY_MAJOR"), of("COMPUTE_CAPABILITY_MINOR")),
        sms=of("MULTIPROCESSOR_COUNT"),
        clock=of("CLOCK_RATE") * 1e3,
        bandwidth=2 * of("MEMORY_CLOCK_RATE") * 1e3 * of("GLOBAL_MEMORY_BUS_WIDTH") / 8,
        l2=of("L2_CACHE_SIZE"),
        registers=of("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        shared=of("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        reserved=of("RESERVED_SHARED_MEMORY_PER_BLOCK"),
        threads=of("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks=of("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        memory=gpu.total_memory,
    )
