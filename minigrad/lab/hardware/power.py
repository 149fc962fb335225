"""Clock and power of a GPU while it multiplies matrices.

`python -m minigrad.lab.hardware.power` measures them and writes `notebooks/records/power/<device>-<date>.json`.
"""

import argparse
import json
import sys
from collections.abc import Callable
from datetime import date
from functools import cache, partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.cuda.chip import FLOPS_PER_CLOCK
from minigrad.devices.tensor_map import TensorMap
from minigrad.display import Table, table
from minigrad.errors import DeviceError
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.record import records, versions
from minigrad.lab.hardware import counters
from minigrad.lab.hardware.counters import RUNGS, SIDE
from minigrad.lab.hardware.nvml import Sensors, summary
from minigrad.op import OPS
from minigrad.ops.matmul.shapes import ONE
from minigrad.source import PACKAGE
from minigrad.tape import no_grad

FOLDERS = (PACKAGE.parent / "notebooks" / "records" / "power", PACKAGE / "records" / "power")
CLOCKED = Kernel(
    "matmul/wgmma_clocked.cu", "matmul_wgmma_clocked", ("processors", "1"), ("384",), "m n k processors", shared=196672
)
ROWS, COLUMNS = 128, 256  # of its tiles
BURST, KEPT = 6000, 60  # launches one after another, and the number of them in the record
SECONDS = 0.6  # of work before a measurement, and of the measurement
Matrices = tuple[np.ndarray, np.ndarray]


@cache
def matrices(kind: str, m: int = SIDE, n: int = SIDE, k: int = SIDE) -> Matrices:
    """Two factors: `random`, standard normal numbers, or `zeros`."""
    if kind == "zeros":
        return np.zeros((m, k), np.float32), np.zeros((k, n), np.float32)
    random = np.random.default_rng(0)
    return random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)


def clocked(factors: Matrices, launches: int) -> dict[str, np.ndarray]:
    """matmul_wgmma, launched so often: us, MHz and ticks of each launch, by the clocks of the multiprocessors.

    The time is from the first block's start to the last block's end, the ticks are those of the slowest block.
    """
    gpu: Any = get(check("cuda"))
    a, b = (tensor(x, device="cuda", dtype="bfloat16").array for x in factors)
    (m, k), n = a.shape, b.shape[1]
    c = Array.empty(gpu, (m, n), a.dtype)
    clocks = Array.zeros(gpu, (launches, gpu.processors, 4), np.dtype(np.int64))
    maps = TensorMap(a, (1, m, k), (1, 128, 64)), TensorMap(b, (1, k, n), (1, 64, 64))
    launch = CLOCKED.launch(m, n, k, gpu.processors)
    for i in range(launches):
        launch(*maps, c, m, n, k, 1, ONE, ONE, clocks, i)
    start, first, stop, last = np.moveaxis(clocks.numpy(), 2, 0)
    return {
        "us": (stop.max(1) - start.min(1)) / 1e3,
        "mhz": np.median((last - first) / (stop - start), 1) * 1e3,
        "ticks": (last - first).max(1),
    }


def burst(kind: str) -> dict[str, list[float]]:
    """The launches of a burst, after a rest: every one of the first, fewer and fewer of the later ones."""
    factors = matrices(kind)
    clocked(factors, 1)
    sleep(SECONDS)
    found = clocked(factors, BURST)
    kept = np.unique(np.geomspace(1, BURST, KEPT).astype(int)) - 1
    began = np.cumsum(found["us"]) - found["us"]
    rows = {"launch": kept + 1, "ms": began[kept] / 1e3} | {key: values[kept] for key, values in found.items()}
    return {key: [round(float(x), 3) for x in values] for key, values in rows.items()}


def ticks(m: int, n: int, k: int) -> int:
    """The median of the ticks of 20 launches."""
    return int(np.median(clocked(matrices("random", m, n, k), 20)["ticks"]))


def sustained(sensors: Sensors, work: Callable[[], Any], wait: Callable[[], Any]) -> dict[str, Any]:
    """The time of a call in microseconds, clock, power and reasons of a lower clock, after SECONDS of the work."""

    def repeat(seconds: float, calls: int) -> tuple[int, float]:
        count, start = 0, perf_counter()
        while (took := perf_counter() - start) < seconds:
            for _ in range(calls):
                work()
            wait()
            count += calls
        return count, took

    repeat(0.05, 1)  # compiles
    count, took = repeat(0.2, 1)
    calls = max(1, int(0.05 * count / took))
    repeat(SECONDS, calls)
    with sensors.watching() as samples:
        count, took = repeat(SECONDS, calls)
    return {"us": round(took / count * 1e6, 2)} | summary(samples)


def minigrad_works() -> dict[str, Callable[[], Any]]:
    """The rungs of the ladder, by name, and the last one on zeros."""
    works: dict[str, Callable[[], Any]] = {}
    for kind, rungs in (("random", RUNGS), ("zeros", ("warp_tiled", "wgmma"))):
        for rung in rungs:
            works[f"{rung} {kind}"] = partial(OPS["matmul"].using(rung), *counters.factors_of(rung, *matrices(kind)))
    return works


def torch_works() -> dict[str, Callable[[], Any]]:
    """PyTorch's product in bfloat16."""
    import torch

    works: dict[str, Callable[[], Any]] = {}
    for kind in ("random", "zeros"):
        a, b = (torch.as_tensor(x, device="cuda").bfloat16() for x in matrices(kind))
        works[f"PyTorch bfloat16 {kind}"] = partial(torch.matmul, a, b, out=torch.empty_like(a))
    return works


def measured() -> dict[str, Any]:
    """The tables of a record. Raises DeviceError without a GPU or its sensors."""
    import torch

    gpu: Any = get(check("cuda"))
    sensors = Sensors()
    found: dict[str, Any] = {"limit": sensors.limit, "bursts": {kind: burst(kind) for kind in ("random", "zeros")}}
    sizes = [(SIDE, SIDE, k) for k in (512, 1024, 2048, 4096, 8192, 16384)] + [(4224, SIDE, SIDE)]
    found["ticks"] = {" x ".join(map(str, size)): ticks(*size) for size in sizes}
    with no_grad():
        works = {name: (work, gpu.synchronize) for name, work in minigrad_works().items()}
        works |= {name: (work, torch.cuda.synchronize) for name, work in torch_works().items()}
        found["sustained"] = {name: sustained(sensors, *both) for name, both in works.items()}
    return found


def account(record: dict[str, Any] | None = None) -> Table:
    """The speed of matmul_wgmma as a part of the peak: the product of three parts, for each kind of numbers.

    The turns of tiles that blocks fill, of all that the multiprocessors have; the ticks in which a multiprocessor with
    the most tiles must multiply, of all its ticks; the clock, of the highest one. Raises ValueError without a record.
    """
    found = known(record)
    chip: Any = next((each.chip for each in records(found["device"]) if each.chip), None)
    tiles, per_tick = (SIDE // ROWS) * (SIDE // COLUMNS), FLOPS_PER_CLOCK["bfloat16"][chip.compute]
    turns = ceil_div(tiles, chip.sms)
    busy = turns * 2 * ROWS * COLUMNS * SIDE / per_tick
    rows = []
    for kind, burst in found["bursts"].items():
        for when, part in (("in the first 10 ms", slice(1, 40)), ("after a second", slice(-3, None))):
            us, mhz, ticks = (float(np.median(burst[key][part])) for key in ("us", "mhz", "ticks"))
            shares = tiles / (turns * chip.sms), busy / ticks, mhz * 1e6 / chip.clock
            speed = 2 * SIDE**3 / us * 1e6
            cells = (*shares, float(np.prod(shares)), speed / chip.peak("bfloat16"))
            rows.append((f"{kind}, {when}", *(f"{share:.1%}" for share in cells), f"{speed / 1e12:.0f}"))
    return table(rows, ("numbers", "tiles", "ticks", "clock", "product", "of peak", "TFLOP/s"))


def watts(record: dict[str, Any] | None = None) -> Table:
    """Time, power, energy and limits of each kernel, repeated for SECONDS. Raises ValueError without a record."""
    rows = []
    for name, seen in known(record)["sustained"].items():
        joules = seen["watts"] * seen["us"] / 1e6
        speed, each = f"{2 * SIDE**3 / seen['us'] / 1e6:.1f}", f"{joules / (2 * SIDE**3) * 1e12:.3g}"
        cells = (
            f"{seen['us']:.0f}",
            speed,
            f"{seen['watts']:.0f}",
            each,
            ", ".join(seen["reasons"]),
        )
        rows.append((name, *cells))
    return table(rows, ("kernel", "us", "TFLOP/s", "W", "pJ/FLOP", "clock lowered by"))


def known(record: dict[str, Any] | None) -> dict[str, Any]:
    """This record, by default the newest. Raises ValueError if there is none."""
    if found := newest() if record is None else record:
        return found
    raise ValueError("there is no record of a clock: on a GPU, python -m minigrad.lab.hardware.power makes one.")


def newest() -> dict[str, Any]:
    """The newest record; empty if there is none."""
    return counters.newest(FOLDERS)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser("python -m minigrad.lab.hardware.power", description=__doc__)
    parser.add_argument("--save", type=Path, default=FOLDERS[0], metavar="FOLDER", help="write the record there")
    folder = parser.parse_args().save
    try:
        gpu: Any = get(check("cuda"))
        tables = measured()
    except DeviceError as error:
        print(error, file=sys.stderr)
        return 2
    head = {"device": gpu.label, "date": date.today().isoformat(), "command": parser.prog, "versions": versions()}
    path = folder / f"{gpu.label.lower().replace(' ', '-')}-{head['date']}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(head | tables, indent=1) + "\n")
    print(f"Written to {path}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
