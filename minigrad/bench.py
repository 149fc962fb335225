"""Time on a GPU, by CUDA events, and the records of it. `sim` counts and checks; it says nothing about a GPU's speed.

`python -m minigrad.bench` times the sweeps of the notebooks on this GPU and writes them under `notebooks/records/`.
"""

import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.convert import move
from minigrad.create import extents
from minigrad.devices import check, get, why_not
from minigrad.op import OPS, Op
from minigrad.require import a
from minigrad.source import PACKAGE

RECORDS = PACKAGE.parent / "notebooks" / "records"
COMMAND = "python -m minigrad.bench"


@dataclass(frozen=True)
class Timing:
    """Median and spread of some runs, in seconds."""

    seconds: float
    fastest: float
    slowest: float
    repeats: int

    def __repr__(self) -> str:
        middle, low, high = (seconds * 1e6 for seconds in (self.seconds, self.fastest, self.slowest))
        return f"{middle:.1f} us (median of {self.repeats}; {low:.1f} to {high:.1f})"


def time(work: Callable[[], Any], repeats: int = 20, calls: int = 10) -> Timing:
    """The time of one call of `work`, which launches kernels on `cuda`, each run being so many calls in a row.

    A warm-up comes first. Several calls in a row keep the GPU busy while the host prepares the next launch; a kernel
    shorter than that preparation, some 50 us, is still timed too long. Raises DeviceError where there is no GPU.
    """
    device: Any = get(check("cuda"))

    def run() -> None:
        for _ in range(calls):
            work()

    runs = [seconds / calls for seconds in device.time(run, repeats)]
    return Timing(median(runs), min(runs), max(runs), repeats)


@dataclass(frozen=True)
class Sweep:
    """The time of one op for each legal value of a tunable: on this machine's GPU, and as recorded on another."""

    title: str
    tunable: str
    live: dict[int, Timing]
    live_on: str
    recorded: dict[int, Timing]
    recorded_on: str

    def at(self, value: int) -> str:
        """The time for one value, of what, and whether it is live or recorded; empty where it is not known."""
        known = [
            f"{runs[value]} {where}"
            for runs, where in (
                (self.live, f"live on {self.live_on}"),
                (self.recorded, f"recorded on {self.recorded_on}"),
            )
            if value in runs
        ]
        return f"{'; '.join(known)}, for {self.title}" if known else ""

    def rows(self) -> list[tuple[str, ...]]:
        """One row for each value: value, live time, recorded time."""
        values = sorted({*self.live, *self.recorded})
        return [(str(v), *(repr(runs[v]) if v in runs else "-" for runs in (self.live, self.recorded))) for v in values]

    def _heads(self) -> tuple[str, str, str]:
        return self.tunable, self.live_on or "live: no GPU here", f"recorded on {self.recorded_on or 'no GPU yet'}"

    def __repr__(self) -> str:
        table = [self._heads(), *self.rows()]
        widths = [max(len(row[i]) for row in table) for i in range(3)]
        lines = ("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table)
        return "\n".join([self.title, *lines])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(word)}</th>" for word in self._heads())
        body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in self.rows())
        return f"<b>{escape(self.title)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def sweep(op: Op, *shapes: tuple[int, ...], tunable: str = "BLOCK", variant: str | None = None) -> Sweep:
    """Time an op on random float32 arrays of these shapes for each legal value of a tunable of its forward kernel.

    Where there is no GPU, the times are those that were recorded, and the result says so.
    """
    a("sweep", op, Op, "an op, e.g. mg.relu")
    shapes = tuple(extents((shape,)) for shape in shapes)
    words = ", ".join(" x ".join(map(str, shape)) for shape in shapes)
    title = f"{' '.join([op.name, *([variant] if variant else [])])} of {words}, by {tunable}"
    recorded, recorded_on = load(title)
    if why_not("cuda"):
        return Sweep(title, tunable, {}, "", recorded, recorded_on)
    device: Any = get("cuda")
    return Sweep(title, tunable, measure(op, shapes, tunable, variant), device.label, recorded, recorded_on)


def measure(op: Op, shapes: tuple, tunable: str, variant: str | None) -> dict[int, Timing]:
    """The times on this GPU, after a check that every value gives the result of the first."""
    rng = np.random.default_rng(0)
    arrays = [Array.upload(get("cuda"), rng.standard_normal(shape, np.float32)) for shape in shapes]
    params = op.prepare(*arrays) if op.prepare else {}
    legal = op.using(variant).kernels["forward"].tunables[tunable]
    works = {value: partial(op.using(variant, **{tunable: value}).run, arrays, params) for value in sorted(legal)}
    results = [move(work(), "numpy") for work in works.values()]
    for result in results:
        np.testing.assert_allclose(result, results[0], rtol=1e-3, atol=1e-3)
    return {value: time(work) for value, work in works.items()}


def load(title: str) -> tuple[dict[int, Timing], str]:
    """The newest recorded times of that title, and on what and when they were measured."""
    for file in sorted(RECORDS.glob("*.json"), key=lambda path: path.name[-15:], reverse=True):
        record = json.loads(file.read_text())
        if title in record["sweeps"]:
            times = {int(value): Timing(**timing) for value, timing in record["sweeps"][title].items()}
            return times, f"{record['device']}, {record['date']}"
    return {}, ""


SWEEPS: list[tuple[str, str | None, str, tuple]] = [
    ("relu", None, "BLOCK", ((2**26,),)),
    ("add", None, "BLOCK", ((2**26,), (2**26,))),
    *(("matmul", variant, "TILE", ((1024, 1024), (1024, 1024))) for variant in ("naive", "coalesced", "tiled")),
]


def record() -> Path:
    """Run every sweep of the notebooks on this GPU and save them with device, date, versions and command."""
    device: Any = get(check("cuda"))
    done = [sweep(OPS[name], *shapes, tunable=t, variant=variant) for name, variant, t, shapes in SWEEPS]
    today = date.today().isoformat()
    content = {
        "device": device.label,
        "date": today,
        "command": COMMAND,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "sweeps": {s.title: {str(value): asdict(timing) for value, timing in s.live.items()} for s in done},
    }
    path = RECORDS / f"{device.label.lower().replace(' ', '-')}-{today}.json"
    RECORDS.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    for one in done:
        print(one, end="\n\n")
    return path


if __name__ == "__main__":
    print(record())
