"""Clock, power and limits of a GPU while it works, from NVIDIA's management library."""

import ctypes
import ctypes.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from threading import Event, Thread
from time import perf_counter

from minigrad.errors import DeviceError

REASONS = {0x4: "power", 0x8: "hardware", 0x20: "temperature", 0x40: "temperature", 0x80: "power supply"}
SM = 1  # the clock domain of the multiprocessors


@dataclass
class Sample:
    """One reading: seconds, MHz of the multiprocessors, joules since a fixed time, reasons of a lower clock."""

    at: float
    mhz: int
    joules: float
    reasons: set[str]


class Sensors:
    """The sensors of the first GPU. Raises DeviceError where the library is missing or reports an error."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise DeviceError(f"no NVML here ({error}); it comes with NVIDIA's driver.") from error
        self.handle = ctypes.c_void_p()
        self._call("Init_v2")
        self._call("DeviceGetHandleByIndex_v2", 0, ctypes.byref(self.handle))

    def _call(self, name: str, *args: object) -> None:
        if code := getattr(self.library, f"nvml{name}")(*args):
            raise DeviceError(f"nvml{name} returned {code}")

    def _read(self, name: str, kind: type, *args: int) -> int:
        value = kind()
        self._call(f"DeviceGet{name}", self.handle, *args, ctypes.byref(value))
        return int(value.value)

    @property
    def limit(self) -> float:
        """The power limit in watts."""
        return self._read("EnforcedPowerLimit", ctypes.c_uint) / 1e3

    def sample(self) -> Sample:
        bits = self._read("CurrentClocksThrottleReasons", ctypes.c_ulonglong)
        return Sample(
            perf_counter(),
            self._read("ClockInfo", ctypes.c_uint, SM),
            self._read("TotalEnergyConsumption", ctypes.c_ulonglong) / 1e3,
            {name for bit, name in REASONS.items() if bits & bit},
        )

    @contextmanager
    def watching(self, every: float = 0.005) -> Iterator[list[Sample]]:
        """Samples, taken by a thread while the block runs. Raises DeviceError at its end if a reading failed."""
        samples, stop = [self.sample()], Event()
        failed: list[DeviceError] = []

        def watch() -> None:
            try:
                while not stop.wait(every):
                    samples.append(self.sample())
            except DeviceError as error:
                failed.append(error)

        thread = Thread(target=watch)
        thread.start()
        try:
            yield samples
        finally:
            stop.set()
            thread.join()
        if failed:
            raise failed[0]
        samples.append(self.sample())


def summary(samples: list[Sample]) -> dict[str, object]:
    """The median clock, the mean power and all reasons of some samples."""
    first, last = samples[0], samples[-1]
    return {
        "mhz": median(sample.mhz for sample in samples),
        "watts": round((last.joules - first.joules) / (last.at - first.at), 1),
        "reasons": sorted(set().union(*(sample.reasons for sample in samples))),
    }
