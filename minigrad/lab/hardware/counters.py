"""What the microscope counts of a few kernels beside what a GPU counted of the same, by the names of Nsight Compute."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.display import Table, table
from minigrad.microscope import watching
from minigrad.microscope.record import Inspection
from minigrad.op import OPS
from minigrad.source import PACKAGE

Counts = dict[str, dict[str, float]]  # by kernel and metric, of all its launches together
FOLDERS = (PACKAGE.parent / "notebooks" / "records" / "counters", PACKAGE / "records" / "counters")
_NAME = "l1tex__{}_mem_{}_op_{}.sum"
# What a line has, and the metric of Nsight Compute for it: of global and shared memory, by loads, stores, reductions.
METRICS = {
    **{
        (field, "global", kind): _NAME.format(f"t_{field}_pipe_lsu", "global", short)
        for kind, short in (("read", "ld"), ("write", "st"), ("atomic", "red"))
        for field in ("requests", "sectors")
    },
    **{
        (field, "shared", kind): _NAME.format(name, "shared", short)
        for kind, short in (("read", "ld"), ("write", "st"))
        for field, name in (
            ("wavefronts", "data_pipe_lsu_wavefronts"),
            ("bank_conflicts", "data_bank_conflicts_pipe_lsu"),
        )
    },
}


def launch(device: str) -> None:
    """Run every kernel that is compared: transposes of (256, 256), products of (64, 64), sums of 4096 numbers."""
    wide, square = (tensor(np.arange(n * n, dtype=np.float32).reshape(n, n) % 17, device=device) for n in (256, 64))
    for variant in ("naive", "tiled", "padded"):
        OPS["transpose"].using(variant, TILE=32)(wide)
    for variant in ("naive", "coalesced", "tiled"):
        OPS["matmul"].using(variant, TILE=16)(square, square)
    for variant in ("atomic", "tree", "warp", "columns"):
        OPS["sum"].using(variant, BLOCK=256)(square, axis=0 if variant == "columns" else None)


def simulated() -> Counts:
    """What the microscope counts, in all blocks."""
    with watching(blocks=1 << 30) as report:
        launch("sim")
    counts: Counts = {}
    for record in report.launches:
        add(counts, record.kernel, {name: float(sum(_values(record, key))) for key, name in METRICS.items()})
    return counts


def _values(record: Inspection, key: tuple[str, str, str]) -> Iterator[int]:
    field, space, kind = key
    return (getattr(line, field) for line in record.lines if (line.space, line.kind) == (space, kind))


def add(counts: Counts, kernel: str, more: Mapping[str, float]) -> None:
    """Add the counts of another launch to those of its kernel."""
    known = counts.setdefault(kernel, {})
    for name, value in more.items():
        known[name] = known.get(name, 0) + value


def newest() -> dict[str, Any]:
    """The newest record of a GPU's counts; empty where there is none."""
    files = [path for folder in FOLDERS for path in folder.glob("*.json")]
    found = [json.loads(path.read_text()) for path in files]
    return max(found, key=lambda record: record["date"], default={})


def compare(record: dict[str, Any] | None = None) -> Table:
    """Kernel by kernel and metric by metric, the GPU's counts beside the simulator's; rows of zeros are left out."""
    there = (newest() if record is None else record).get("kernels", {})
    rows = []
    for kernel, counts in simulated().items():
        for (field, space, kind), name in METRICS.items():
            one, other = there.get(kernel, {}).get(name), counts[name]
            if one or other:
                shown = "" if one is None else f"{one:.0f}"
                rows.append((kernel, f"{space} {kind} {field.replace('_', ' ')}", shown, f"{other:.0f}"))
    return table(rows, ("kernel", "count", "GPU", "simulator"))
