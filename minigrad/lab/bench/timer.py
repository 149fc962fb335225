"""Timing on the GPU without the time that the host needs to queue the work, and on the host's clock.

A launch takes the host some microseconds, and many kernels are shorter. So a kernel that only waits holds the GPU back
while the work is queued between two events. If the first event has not happened when all is queued, the time contains
none of the host's; otherwise the wait is doubled.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.errors import require, require_int
from minigrad.kernels.kernel import Kernel

SHORTEST, LONGEST = 2e-4, 0.05  # seconds that the GPU is held back
ENOUGH = 0.3  # seconds for all runs of a call
Call = Callable[[], Any]
Wrap = Callable[[Any], Any]  # makes a model data-parallel, or leaves it as it is


@dataclass(frozen=True)
class Timing:
    """Median and spread of some runs, in seconds. `host`: they include the host's time."""

    seconds: float
    fastest: float
    slowest: float
    repeats: int
    host: bool = False

    @staticmethod
    def of(seconds: Sequence[float], host: bool = False) -> "Timing":
        return Timing(median(seconds), min(seconds), max(seconds), len(seconds), host)

    @staticmethod
    def from_json(numbers: Sequence[float]) -> "Timing":
        middle, low, high = (microseconds / 1e6 for microseconds in numbers[:3])
        return Timing(middle, low, high, int(numbers[3]), len(numbers) > 4)

    def to_json(self) -> list[float]:
        """The numbers in a record: median, fastest, slowest in microseconds, repeats, and a 1 if `host` is true."""
        times = [round(seconds * 1e6, 3) for seconds in (self.seconds, self.fastest, self.slowest)]
        return [*times, self.repeats, *[1] * self.host]

    def __repr__(self) -> str:
        middle, low, high = (seconds * 1e6 for seconds in (self.seconds, self.fastest, self.slowest))
        host = ", the host's time included" if self.host else ""
        return f"{middle:.1f} us (median of {self.repeats}; {low:.1f} to {high:.1f}{host})"


class Timer:
    """Times calls that queue work on the device `cuda`."""

    def __init__(self, gpu: Any):
        self.gpu = gpu
        self._spin = Kernel("bench/spin.cu", "spin")
        self._ended = Array.zeros(gpu, (1,), np.dtype(np.int64))
        self._flushed = Array.empty(gpu, (4 * gpu.chip.l2,), np.dtype(np.uint8))

    def interleaved(
        self, works: Mapping[str, Call], repeats: int, seconds: float = 2e-4, calls: int = 0, flush: bool = True
    ) -> dict[str, Timing]:
        """Time the works in turns, `repeats` runs of each: `calls` calls in a row, or as many as fill `seconds`.

        A work that has taken ENOUGH seconds after three runs is not measured further.
        """
        require_int("a timing", "repeats", repeats, 1)
        counts = {name: calls or self._calls(work, seconds) for name, work in works.items()}
        runs: dict[str, list[float]] = {name: [] for name in works}  # seconds per call
        holds, host = dict.fromkeys(works, SHORTEST), dict.fromkeys(works, False)
        for _ in range(repeats):
            for name, work in works.items():
                if len(runs[name]) >= 3 and sum(runs[name]) * counts[name] > ENOUGH:
                    continue
                took, queued, holds[name] = self._held(work, counts[name], holds[name], flush)
                runs[name].append(took / counts[name])
                host[name] |= not queued
        return {name: Timing.of(runs[name], host[name]) for name in works}

    def hold(self, seconds: float) -> None:
        """Hold the GPU back, so that what is queued now begins only then."""
        self._spin(self._ended, int(seconds * 1e9), grid=1, block=1)

    def _calls(self, work: Call, seconds: float) -> int:
        """The number of calls that fill the time. The first call warms up: it compiles, and fills the memory pool."""
        work()
        took, _, _ = self._held(work, 1, SHORTEST, flush=True)
        return max(1, min(50, int(seconds / took)))

    def _held(self, work: Call, calls: int, hold: float, flush: bool) -> tuple[float, bool, float]:
        """(seconds of all calls, True if all were queued before the first began, seconds that the GPU was held)."""
        while True:
            if hold:
                self.hold(hold)
            if flush:
                self.gpu.zero(self._flushed.address, self._flushed.nbytes)
            start = self.gpu.mark()
            for _ in range(calls):
                work()
            queued = not self.gpu.passed(start)
            took = self.gpu.between(start, self.gpu.mark())
            if queued or not hold:
                return took, queued, hold
            hold = 2 * hold if hold < LONGEST else 0.0  # work that itself waits for the GPU can never be queued


@cache
def timer() -> Timer:
    """The timer of this machine's GPU. Raises DeviceError without one."""
    return Timer(get(check("cuda")))


def time(work: Callable[[], Any], repeats: int = 20, calls: int = 0) -> Timing:
    """The GPU's time for one call of `work`, which launches kernels on `cuda`; a run is `calls` calls in a row.

    The host's time is not in it: the GPU waits until all calls are queued. calls=0: as many as fill 200 us. Data that
    fits into the GPU's cache stays there from call to call. Raises DeviceError without a GPU.
    """
    require_int("mg.bench.time", "calls", calls)
    require_int("mg.bench.time", "repeats", repeats, 1)
    require("mg.bench.time", work, Callable, "a function that launches kernels")
    return timer().interleaved({"": work}, repeats, calls=calls, flush=False)[""]


def in_turns(
    works: Mapping[str, Call], calls: Mapping[str, int], repeats: int, before: Call, after: Call = lambda: None
) -> dict[str, Timing]:
    """Time the works on the host's clock, in turns: `calls` of each in a row, then `after`; `before` is not timed."""
    taken = turns(works, repeats, lambda name, work: clocked(work, calls[name], before, after))
    return {name: Timing.of(seconds, host=True) for name, seconds in taken.items()}


def turns(works: Mapping[str, Call], repeats: int, seconds: Callable[[str, Call], float]) -> dict[str, list[float]]:
    """The seconds of each run of each work: a run of all of them, then the next."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            taken[name].append(seconds(name, work))
    return taken


def as_it_is(model: Any) -> Any:
    """A `Wrap` that leaves the model alone."""
    return model


def clocked(work: Call, calls: int = 1, before: Call = lambda: None, after: Call = lambda: None) -> float:
    """Seconds per call on the host's clock, `after` included."""
    before()
    start = perf_counter()
    for _ in range(calls):
        work()
    after()
    return (perf_counter() - start) / calls
