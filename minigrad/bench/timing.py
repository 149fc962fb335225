"""Median and spread of repeated runs on the GPU."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from minigrad.devices import check, get
from minigrad.devices.timer import Timer
from minigrad.require import a, whole


@dataclass(frozen=True)
class Timing:
    """Median and spread of some runs, in seconds. `host`: the host's time is in it, for the work waits for the GPU."""

    seconds: float
    fastest: float
    slowest: float
    repeats: int
    host: bool = False

    @staticmethod
    def of(seconds: Sequence[float], host: bool = False) -> "Timing":
        """The summary of these runs."""
        return Timing(median(seconds), min(seconds), max(seconds), len(seconds), host)

    @staticmethod
    def read(numbers: Sequence[float]) -> "Timing":
        """The timing that a record holds as these numbers."""
        middle, low, high = (microseconds / 1e6 for microseconds in numbers[:3])
        return Timing(middle, low, high, int(numbers[3]), len(numbers) > 4)

    def written(self) -> list[float]:
        """As a record holds it: median, fastest, slowest in microseconds, repeats, and a 1 where `host` is true."""
        times = [round(seconds * 1e6, 3) for seconds in (self.seconds, self.fastest, self.slowest)]
        return [*times, self.repeats, *[1] * self.host]

    def __repr__(self) -> str:
        middle, low, high = (seconds * 1e6 for seconds in (self.seconds, self.fastest, self.slowest))
        host = ", the host's time included" if self.host else ""
        return f"{middle:.1f} us (median of {self.repeats}; {low:.1f} to {high:.1f}{host})"


@cache
def timer() -> Timer:
    """The timer of this machine's GPU. Raises DeviceError where there is none."""
    return Timer(get(check("cuda")))


def time(work: Callable[[], Any], repeats: int = 20, calls: int = 0) -> Timing:
    """The time of one call of `work`, which launches kernels on `cuda`; each run is so many calls in a row.

    The host's time is not in it: the GPU waits until all calls are queued. calls=0 takes as many as fill 200 us. What
    fits into the GPU's cache stays there from call to call. Raises DeviceError where there is no GPU.
    """
    whole("mg.bench.time", "calls", calls)
    whole("mg.bench.time", "repeats", repeats, 1)
    a("mg.bench.time", work, Callable, "a function that launches kernels")
    (runs,) = timer().interleaved([work], repeats, 2e-4, calls, flush=False)
    return Timing.of(runs.seconds, not runs.queued)
