"""The microscope's counts of some kernels next to a GPU's counts, under the metric names of Nsight Compute."""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.create import tensor
from minigrad.display import Table, table
from minigrad.microscope import watching
from minigrad.op import OPS
from minigrad.ops.matmul.kernels import OF_BFLOAT16, TENSOR_CORES
from minigrad.source import PACKAGE
from minigrad.tensor import Tensor

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

# What is busy while a rung of the matmul ladder runs, in percent of the most that it can do.
BUSY = {
    "instruction slots": "sm__issue_active.avg.pct_of_peak_sustained_elapsed",
    "multipliers": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "tensor cores": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "shared memory and L1": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "global memory": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
}
# What a warp waits for between two of its instructions, by Nsight Compute's names of the reasons.
WAITS = {
    "loads from global memory": ("long_scoreboard", "lg_throttle"),
    "shared memory": ("short_scoreboard", "mio_throttle"),
    "barrier": ("barrier",),
    "multiplier": ("math_pipe_throttle",),
    "nothing": ("selected", "not_selected"),
}
LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"  # the sum of all reasons
STALLED = {
    reason: f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
    for reasons in WAITS.values()
    for reason in reasons
}
TICKS = "gpc__cycles_elapsed.avg"  # of the clock of the multiprocessors
RUNG_METRICS = (*BUSY.values(), *STALLED.values(), LATENCY, TICKS)
RUNGS = (
    *("naive", "coalesced", "tiled", "register_tile_1d", "register_tile_2d", "vectorized"),
    *("double_buffered", "warp_tiled", *TENSOR_CORES),
)
SIDE = 4096  # of the matrices that the rungs multiply


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


def climb() -> None:
    """Run each rung of the ladder once on the GPU, on random numbers."""
    x, y = (np.random.default_rng(seed).standard_normal((SIDE, SIDE), np.float32) for seed in (0, 1))
    for rung in RUNGS:
        OPS["matmul"].using(rung)(*factors_of(rung, x, y))


def factors_of(rung: str, *matrices: np.ndarray) -> list[Tensor]:
    """The matrices on the GPU, in the dtype that the rung multiplies."""
    dtype = "bfloat16" if rung in OF_BFLOAT16 else "float32"
    return [tensor(matrix, device="cuda", dtype=dtype) for matrix in matrices]


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


def newest(folders: Sequence[Path] | None = None) -> dict[str, Any]:
    """The newest record in these folders, by default of a GPU's counts; empty if there is none."""
    files = (path for folder in folders or FOLDERS for path in folder.glob("*.json"))
    found = (json.loads(path.read_text()) for path in files)
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


def busy(record: dict[str, Any] | None = None) -> Table:
    """The parts of the chip that each rung of the ladder keeps busy, in percent, as a GPU counted them."""
    found = (newest() if record is None else record).get("rungs", {})
    rows = [(name, *(f"{seen[metric]:.0f} %" for metric in BUSY.values())) for name, seen in found.items()]
    return table(rows, ("rung", *BUSY))


def waits(record: dict[str, Any] | None = None) -> Table:
    """The reasons for which the warps of each rung wait between two instructions, in percent of their time.

    "nothing": the warp goes on, or could and another one does. "other": what none of these reasons explains.
    """
    rows = []
    for name, seen in (newest() if record is None else record).get("rungs", {}).items():
        each = [100 * sum(seen[STALLED[reason]] for reason in reasons) / seen[LATENCY] for reasons in WAITS.values()]
        rows.append((name, *(f"{share:.0f} %" for share in (*each, 100 - sum(each)))))
    return table(rows, ("rung", *WAITS, "other"))
