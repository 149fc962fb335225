"""The kernels of matmul: a ladder, each rung one idea faster than the one before, and which of them runs."""

from math import prod

import numpy as np

from minigrad.convert import is_bfloat16
from minigrad.devices.base import MAX_GRID
from minigrad.kernel import Kernel
from minigrad.launch import ceil_div

TILES = (16, 4, 8, 32)
ENDS = {"forward": "", "backward_a": "_backward_a", "backward_b": "_backward_b"}


def per_tile(name: str, x: str, y: str) -> Kernel:
    """A kernel whose blocks are TILE x TILE threads, one per element of the result."""
    grid = (f"{x}/TILE", f"{y}/TILE", "batch")
    return Kernel("matmul.cu", f"matmul_{name}", grid, ("TILE", "TILE"), "m n k batch=1", TILE=TILES)


def per_edge(file: str, name: str, x: str, y: str, block: tuple[str, ...], **tunables: tuple[int, ...]) -> Kernel:
    """A kernel whose blocks own EDGE x EDGE elements of the result."""
    grid = (f"{x}/EDGE", f"{y}/EDGE", "batch")
    return Kernel(f"matmul/{file}.cu", f"matmul_{name}", grid, block, "m n k batch=1", None, None, 0, **tunables)


def warp_tiled(name: str, x: str, y: str) -> Kernel:
    """A product in warp tiles, of matrices as they are or with one of them transposed."""
    return Kernel(
        "matmul/warp_tiled.cu",
        f"matmul_{name}",
        grid=(f"{x}/COLUMNS", f"{y}/ROWS", "batch"),
        block=("128",),
        sizes="m n k batch=1",
        fit=lambda **sizes: dict(zip(("ROWS", "COLUMNS"), tile(sizes[y], sizes[x], sizes["batch"]), strict=True)),
        ROWS=(128, 64),
        COLUMNS=(128, 64),
    )


COSTS = {(128, 128): 1.0, (64, 128): 1.05, (64, 64): 1.15}  # rows and columns of a tile, and the time for an element
PROCESSORS = 132  # of an H100 or H200; each takes a block at a time, and in the last round many may be idle


def tile(rows: int, columns: int, count: int) -> tuple[int, int]:
    """The tile for which rounds of blocks x elements x time is least."""

    def time(shape: tuple[int, int]) -> float:
        blocks = ceil_div(rows, shape[0]) * ceil_div(columns, shape[1]) * count
        return ceil_div(blocks, PROCESSORS) * prod(shape) * COSTS[shape]

    return min((shape for shape in COSTS if rows <= shape[0] * MAX_GRID[1]), key=time, default=(128, 128))


def tensor_cores(unit: str, shared: int) -> Kernel:
    """A product on tensor cores, with tiles in so many bytes of shared memory."""
    grid = ("n/256", "m/128", "batch")
    return Kernel("matmul/tensor_cores.cu", f"matmul_mma_{unit}", grid, ("256",), "m n k batch=1", shared=shared)


COLUMN, SQUARE, EIGHTHS = ("EDGE", "EDGE/EACH"), ("EDGE/EACH", "EDGE/EACH"), ("EDGE/8", "EDGE/8")
kernels = {
    "naive": per_tile("naive", "m", "n"),
    "coalesced": per_tile("coalesced", "n", "m"),
    "tiled": per_tile("tiled", "n", "m"),
    "register_tile_1d": per_edge("register_tile", "register_tile_1d", "n", "m", COLUMN, EDGE=(32, 64), EACH=(8, 4)),
    "register_tile_2d": per_edge("register_tile", "register_tile_2d", "n", "m", SQUARE, EDGE=(128, 64), EACH=(8, 4)),
    "vectorized": per_edge("vectorized", "vectorized", "n", "m", EIGHTHS, EDGE=(128, 64)),
    "double_buffered": per_edge("double_buffered", "double_buffered", "n", "m", EIGHTHS, EDGE=(128, 64)),
    "warp_tiled": warp_tiled("warp_tiled", "n", "m"),
    "mma_tf32": tensor_cores("tf32", 208896),
    "mma_bf16": tensor_cores("bf16", 156672),
    "backward_a": per_tile("backward_a", "k", "m"),
    "backward_b": per_tile("backward_b", "n", "k"),
    "warp_tiled_backward_a": warp_tiled("warp_tiled_backward_a", "k", "m"),
    "warp_tiled_backward_b": warp_tiled("warp_tiled_backward_b", "n", "k"),
}
kernels["forward"] = kernels["tiled"]
# While `using` asks for nothing else, float32 goes the fast way.
FAST = {f"{way}_float32": f"warp_tiled{end}" for way, end in ENDS.items()}


def single(kernels: dict[str, Kernel], way: str, dtype: np.dtype) -> Kernel:
    """The fast kernel for float32, whose large tiles would overflow registers with float64; the one for bfloat16."""
    if is_bfloat16(dtype):
        return kernels["mma_bf16"]
    return kernels.get(f"{way}_float32" if dtype == np.float32 else way, kernels[way])
