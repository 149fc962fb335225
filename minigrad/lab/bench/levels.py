"""The levels of a GPU's memory: the bandwidth that all threads get from each, and the latency of one read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.cuda.chip import Chip
from minigrad.display import Table, Tabular, table
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.record import Level, newest_with
from minigrad.lab.bench.timer import Timer, timer

THREADS, LINE = 1024, 32  # threads of a block; numbers from one place of a chase to the next: 128 bytes
HOPS = 2**15
VECTOR = 16  # bytes that a thread reads at once
STEPS = 4096  # of a walk through an array that stays near


@dataclass(frozen=True, repr=False)
class Levels(Tabular):
    """The levels of one GPU's memory by name, from the threads outwards: shared memory, L1, L2, global memory, host."""

    device: str
    date: str
    chip: Chip
    levels: Mapping[str, Level]

    def table(self) -> Table:
        rows = [
            (name, f"{level.bandwidth / 1e9:,.0f}", f"{level.latency * 1e9:.0f}" if level.latency else "")
            for name, level in self.levels.items()
        ]
        caption = (
            f"What all threads together read from each level, and the time of one read; {self.device}, {self.date}"
        )
        return table(rows, ("level", "GB/s", "ns"), caption)


def memory_levels() -> Levels:
    """Measure this GPU's. Raises DeviceError without a GPU."""
    gpu: Any = get(check("cuda"))
    clock, chip = timer(), gpu.chip
    found = {"shared memory": Level(_shared_bandwidth(gpu, clock), _shared_latency(gpu, clock))}
    sizes = {"L1": (2**15, 2**14), "L2": (chip.l2 // 4, chip.l2 // 8), "global memory": (64 * chip.l2, 4 * chip.l2)}
    for name, (streamed, chased) in sizes.items():
        far = name == "global memory"
        found[name] = Level(_bandwidth(gpu, clock, streamed, far), _latency(gpu, clock, chased, far))
    found["host"] = Level(_link(gpu), None)
    return Levels(gpu.label, date.today().isoformat(), chip, found)


def recorded_levels() -> Levels:
    """The newest recorded. Raises ValueError if there is none."""
    missing = "no record has the levels of memory. On a GPU: minigrad bench --levels."
    record, (chip, levels) = newest_with(lambda r: (r.chip, r.levels) if r.chip and r.levels else None, missing)
    return Levels(record.device, record.date, chip, levels)


def _bandwidth(gpu: Any, clock: Timer, nbytes: int, far: bool) -> float:
    """Bytes per second that two blocks a multiprocessor read from an array: once through if far, else many times."""
    vectors = nbytes // (VECTOR * THREADS) * THREADS
    blocks = 2 * gpu.chip.sms
    steps = vectors // (blocks * THREADS) if far else STEPS
    x = Array.zeros(gpu, (4 * vectors,), np.dtype(np.float32))
    return _streamed(gpu, clock, "stream", (x,), (vectors, steps), far)


def _shared_bandwidth(gpu: Any, clock: Timer) -> float:
    return _streamed(gpu, clock, "stream_shared", (), (STEPS,), False)


def _streamed(gpu: Any, clock: Timer, name: str, read: tuple, scalars: tuple, flush: bool) -> float:
    blocks, kernel = 2 * gpu.chip.sms, Kernel("bench/levels.cu", name)
    sums = Array.zeros(gpu, (blocks * THREADS,), np.dtype(np.float32))
    seconds = _seconds(clock, lambda: kernel(*read, sums, *scalars, grid=blocks, block=THREADS), flush)
    return blocks * THREADS * VECTOR * scalars[-1] / seconds


def _latency(gpu: Any, clock: Timer, nbytes: int, far: bool) -> float:
    """Seconds of one hop through an array in random order. A far one is not in L2 when it begins."""
    kernel, (following, last) = Kernel("bench/levels.cu", "chase"), (places(nbytes // 4), np.zeros(1, np.int32))
    arrays = [Array.upload(gpu, host) for host in (following, last)]
    return _seconds(clock, lambda: kernel(*arrays, HOPS, grid=1, block=1), far) / HOPS


def _shared_latency(gpu: Any, clock: Timer) -> float:
    kernel, last = Kernel("bench/levels.cu", "chase_shared"), Array.zeros(gpu, (1,), np.dtype(np.int32))
    short, long = (
        _seconds(clock, lambda hops=hops: kernel(last, hops, grid=1, block=1), False) for hops in (HOPS, 2 * HOPS)
    )
    return (long - short) / HOPS  # without the time in which the array is written


def places(numbers: int) -> np.ndarray:
    """following[i] is the place after i: one ring through every 32nd number, in random order."""
    order = LINE * np.random.default_rng(0).permutation(numbers // LINE).astype(np.int32)
    following = np.zeros(numbers, np.int32)
    following[order] = np.roll(order, -1)
    return following


def _link(gpu: Any) -> float:
    """Bytes per second from the host's page-locked memory to the GPU."""
    target = Array.empty(gpu, (2**28,), np.dtype(np.uint8))
    with gpu.page_locked(target.nbytes) as source:
        return target.nbytes / _seconds(timer(), lambda: gpu.upload(target.address, source), False)


def _seconds(clock: Timer, work: Any, flush: bool) -> float:
    return clock.interleaved({"": work}, repeats=9, calls=1, flush=flush)[""].seconds
