"""The microscope's counts of some kernels next to a GPU's counts, under the metric names of Nsight Compute."""

import json
from collections import Counter, defaultdict
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.display import Table, table
from minigrad.microscope import watching
from minigrad.op import OPS
from minigrad.source import PACKAGE

Counts = dict[str, Counter[str]]  # by kernel and metric, summed over its launches
FOLDERS = (PACKAGE.parent / "notebooks" / "records" / "counters", PACKAGE / "records" / "counters")
KINDS = {"read": "ld", "write": "st", "atomic": "red"}
PIPES = {
    "global": {"requests": "t_requests_pipe_lsu", "sectors": "t_sectors_pipe_lsu"},
    "shared": {"wavefronts": "data_pipe_lsu_wavefronts", "bank_conflicts": "data_bank_conflicts_pipe_lsu"},
}
METRICS = {  # (attribute of a Line, memory space, kind of access) -> metric of Nsight Compute
    (field, space, kind): f"l1tex__{pipe}_mem_{space}_op_{short}.sum"
    for space, pipes in PIPES.items()
    for kind, short in KINDS.items()
    for field, pipe in pipes.items()
    if (space, kind) != ("shared", "atomic")
}


def launch(device: str) -> None:
    """Run the kernels to compare: transposes of (256, 256), products of (64, 64), sums of 4096 numbers.

    Products in larger tiles are of (128, 128): one tile.
    """
    wide, square = (tensor(np.arange(n * n, dtype=np.float32).reshape(n, n) % 17, device=device) for n in (256, 64))
    for variant in ("naive", "tiled", "padded"):
        OPS["transpose"].using(variant, TILE=32)(wide)
    for variant in ("naive", "coalesced", "tiled"):
        OPS["matmul"].using(variant, TILE=16)(square, square)
    tile = tensor(np.ones((128, 128), np.float32), device=device)
    for variant in ("register_tile_1d", "register_tile_2d", "vectorized", "double_buffered"):
        OPS["matmul"].using(variant)(tile, tile)
    OPS["matmul"].using("warp_tiled", ROWS=128, COLUMNS=128)(tile, tile)
    for variant in ("atomic", "tree", "warp", "columns"):
        OPS["sum"].using(variant, BLOCK=256)(square, axis=0 if variant == "columns" else None)


def simulated() -> Counts:
    """The microscope's counts, of all blocks."""
    with watching(blocks=1 << 30) as report:
        launch("sim")
    counts: Counts = defaultdict(Counter)
    for record in report.launches:
        for (field, *access), name in METRICS.items():
            found = (getattr(line, field) for line in record.lines if [line.space, line.kind] == access)
            counts[record.kernel][name] += sum(found)
    return counts


def newest() -> dict[str, Any]:
    """The newest record of a GPU's counts; empty if there is none."""
    files = [path for folder in FOLDERS for path in folder.glob("*.json")]
    found = [json.loads(path.read_text()) for path in files]
    return max(found, key=lambda record: record["date"], default={})


def compare(record: dict[str, Any] | None = None) -> Table:
    """A row for each kernel and metric, with the GPU's count and the simulator's, unless both are 0."""
    measured = (newest() if record is None else record).get("kernels", {})
    rows = []
    for kernel, counts in simulated().items():
        for (field, space, kind), name in METRICS.items():
            gpu, simulator = measured.get(kernel, {}).get(name), counts[name]
            if gpu or simulator:
                shown = "" if gpu is None else f"{gpu:.0f}"
                rows.append((kernel, f"{space} {kind} {field.replace('_', ' ')}", shown, simulator))
    return table(rows, ("kernel", "count", "GPU", "simulator"))
