"""What a record says of the machine that it was made on: its GPU, the copy bandwidth, and the versions of all below."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from importlib import metadata
from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.bench.record import Record
from minigrad.bench.timing import Timing, timer
from minigrad.devices import check, get

GIB = 2**30


def blank(command: str) -> Record:
    """A record of this GPU, of today, with nothing measured yet."""
    gpu: Any = get(check("cuda"))
    return Record(gpu.label, date.today().isoformat(), command, versions(), gpu.chip)


def copy_bandwidth(nbytes: int = GIB) -> float:
    """Bytes per second of a copy within the device, read and written both counted: what memory-bound work can reach."""
    gpu: Any = get(check("cuda"))
    source, target = (Array.empty(gpu, (nbytes,), np.dtype(np.uint8)) for _ in range(2))
    gpu.upload(source.address, np.random.default_rng(0).integers(0, 255, nbytes, np.uint8))
    (runs,) = timer().interleaved([lambda: target.copy_from(source)], 20, 2e-3)
    return 2 * nbytes / Timing.of(runs.seconds).seconds


def versions() -> dict[str, str]:
    """What the numbers depend on: driver, CUDA compiler, Python and its packages."""
    return dict(_versions())


def _versions() -> Iterator[tuple[str, str]]:
    from minigrad.devices.toolkit import find_nvcc, nvcc_version

    if smi := shutil.which("nvidia-smi"):
        asked = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
        yield "driver", subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]
    if nvcc := find_nvcc():
        yield "nvcc", nvcc_version(nvcc)
    yield "python", platform.python_version()
    yield "numpy", np.__version__
    yield from ((name, metadata.version(name)) for name in ("pycuda", "torch") if name in sys.modules)
