"""The kernels of matmul: a ladder, each rung one idea faster than the one before, and which of them runs."""

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID, PROCESSORS
from minigrad.devices.dtypes import is_bfloat16
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import ceil_div

if TYPE_CHECKING:
    from minigrad.ops.matmul import Work

TILES = (16, 4, 8, 32)
ON = f" processors={PROCESSORS}"  # a size, too: a device has its own
ENDS = {"forward": "", "backward_a": "_backward_a", "backward_b": "_backward_b"}


def per_tile(name: str, x: str, y: str) -> Kernel:
    """A kernel whose blocks are TILE x TILE threads, one per element of the result."""
    grid = (f"{x}/TILE", f"{y}/TILE", "batch")
    return Kernel("matmul.cu", f"matmul_{name}", grid, ("TILE", "TILE"), "m n k batch=1", TILE=TILES)


def per_edge(file: str, name: str, x: str, y: str, block: tuple[str, ...], **tunables: tuple[int, ...]) -> Kernel:
    """A kernel whose blocks own EDGE x EDGE elements of the result."""
    grid = (f"{x}/EDGE", f"{y}/EDGE", "batch")
    return Kernel(f"matmul/{file}.cu", f"matmul_{name}", grid, block, "m n k batch=1", None, None, 0, **tunables)


def warp_tiled(name: str, x: str, y: str, batch: tuple[str, ...] = ("batch",)) -> Kernel:
    """A product in warp tiles, of matrices as they are or with one of them transposed."""
    return Kernel(
        "matmul/warp_tiled.cu",
        f"matmul_{name}",
        grid=(f"{x}/COLUMNS", f"{y}/ROWS", *batch),
        block=("128",),
        sizes=("m n k batch=1" if batch else "m n k") + ON,
        fit=lambda **sizes: dict(zip(("ROWS", "COLUMNS"), fitting(sizes, y, x, LARGE), strict=True)),
        ROWS=(128, 64),
        COLUMNS=(128, 64),
    )


def split_k(name: str, x: str, y: str, layers: str = "batch") -> Kernel:
    """A product in small tiles, with the sum over k shared out among the warps of a block, or of several."""
    return Kernel(
        "matmul/split_k.cu",
        f"matmul_{name}",
        grid=(f"{x}/32", f"{y}/ROWS", layers),
        block=("32*WARPS",),
        sizes=f"m n k {layers}=1" + ON,
        fit=lambda **sizes: {"ROWS": fitting(sizes, y, x, SMALL)[0]},
        ROWS=(32, 16),
        WARPS=(8, 16),
    )


# Rows and columns of a tile, and the time for an element of it: measured on an H200, 1.0 is 45 TFLOP/s.
LARGE = {(128, 128): 1.0, (64, 128): 1.1, (64, 64): 1.3}
SMALL = {(32, 32): 1.8, (16, 32): 2.3}


def tile(
    rows: int, columns: int, count: int, processors: int, costs: Mapping[tuple[int, int], float]
) -> tuple[int, int]:
    """The tile for which rounds of blocks x elements x time is least: in the last round many processors may be idle."""

    def time(shape: tuple[int, int]) -> float:
        blocks = ceil_div(rows, shape[0]) * ceil_div(columns, shape[1]) * count
        return ceil_div(blocks, processors) * prod(shape) * costs[shape]

    return min((shape for shape in costs if rows <= shape[0] * MAX_GRID[1]), key=time, default=(128, 128))


def is_small(rows: int, columns: int, count: int, processors: int) -> bool:
    """Whether there are too few large tiles in these results to keep a GPU busy."""
    return tile(rows, columns, count, processors, LARGE | SMALL) in SMALL


def fitting(sizes: Mapping[str, int], y: str, x: str, costs: Mapping[tuple[int, int], float]) -> tuple[int, int]:
    """The tile for the sizes of a launch, of which y and x are the result's."""
    return tile(sizes[y], sizes[x], sizes.get("batch", 1), sizes["processors"], costs)


def tensor_cores(name: str, end: str, x: str, y: str) -> Kernel:
    """A product on tensor cores, of matrices as they are or, for a gradient, with one of them transposed."""
    file, sizes = f"{'wgmma' if name == 'wgmma' else 'tensor_cores'}{'_backward' if end else ''}", "m n k batch=1"
    if name == "wgmma":  # a block on each multiprocessor, which goes from tile to tile
        grid: tuple[str, ...] = ("processors", "1")
        return Kernel(f"matmul/{file}.cu", f"matmul_{name}{end}", grid, ("384",), sizes + ON, shared=196672)
    grid = (f"{x}/256", f"{y}/128", "batch")
    return Kernel(f"matmul/{file}.cu", f"matmul_{name}{end}", grid, ("256",), sizes, shared=SHARED)


SHARED = 221184  # bytes of a block of mma_tf32 or mma_bf16
TENSOR_CORES = ("mma_tf32", "mma_bf16", "wgmma")
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
    "packed": warp_tiled("packed", "n", "m", batch=()),
    "split_k": split_k("split_k", "n", "m"),
    "split_k_parts": split_k("split_k_parts", "n", "m", "parts"),
    **{name: tensor_cores(name, "", "n", "m") for name in TENSOR_CORES},
    "backward_a": per_tile("backward_a", "k", "m"),
    "backward_b": per_tile("backward_b", "n", "k"),
    "warp_tiled_backward_a": warp_tiled("warp_tiled_backward_a", "k", "m"),
    "warp_tiled_backward_b": warp_tiled("warp_tiled_backward_b", "n", "k"),
    "split_k_backward_a": split_k("split_k_backward_a", "k", "m"),
    "split_k_backward_b": split_k("split_k_backward_b", "n", "k"),
    "split_k_parts_backward_a": split_k("split_k_parts_backward_a", "k", "m", "parts"),
    "split_k_parts_backward_b": split_k("split_k_parts_backward_b", "n", "k", "parts"),
    **{f"{name}_backward_a": tensor_cores(name, "_backward_a", "k", "m") for name in TENSOR_CORES},
    **{f"{name}_backward_b": tensor_cores(name, "_backward_b", "n", "k") for name in TENSOR_CORES},
}
kernels["forward"] = kernels["tiled"]
# No rungs of the ladder, but for matrices of other sizes or for copies of them.
BESIDE = ("packed", "split_k", "split_k_parts", "vector_rows", "vector_columns")
# What multiplies in place of a kernel that is not for these sizes.
INSTEAD = {"packed": "warp_tiled", "split_k_parts": "split_k", "vector_rows": "tiled", "vector_columns": "tiled"}
# While `using` asks for nothing else, float32 goes the fast way, and small products another.
FAST = {f"{way}_float32": f"warp_tiled{end}" for way, end in ENDS.items()}
FAST |= {f"{way}_small": f"split_k{end}" for way, end in ENDS.items()} | {"large": "packed"}
FAST |= {f"{way}_long": f"split_k_parts{end}" for way, end in ENDS.items()}


def extents(way: str, w: "Work") -> tuple[int, int, int]:
    """Rows and columns of a result, and the terms of its sums."""
    return {"forward": (w.m, w.n, w.k), "backward_a": (w.m, w.k, w.n), "backward_b": (w.k, w.n, w.m)}[way]


def pick(kernels: Mapping[str, Kernel], way: str, w: "Work", x: Array, y: Array) -> Kernel:
    """The kernel that multiplies x and y. A gradient goes through the same tensor cores as the forward pass."""
    asked, end = kernels["forward"], ENDS[way]
    if is_bfloat16(x.dtype) or asked is kernels["mma_tf32"]:
        must_have_room(x.device.arch)
    if is_bfloat16(x.dtype):
        hopper = asked is kernels["wgmma"] or (asked is not kernels["mma_bf16"] and x.device.arch == "sm_90a")
        return kernels[f"{'wgmma' if hopper and fits_wgmma(w, x, y) else 'mma_bf16'}{end}"]
    if asked is kernels["mma_tf32"]:
        return kernels[f"mma_tf32{end}"]
    rows, columns, _ = extents(way, w)
    size = "small" if is_small(rows, columns, w.count, x.device.processors) else "float32"
    # the fast ones for float32 would overflow registers with float64
    ways = (f"{way}_{size}", f"{way}_small", f"{way}_float32") if x.dtype == np.float32 else ()  # one may stand alone
    chosen = next((kernels[role] for role in ways if role in kernels), kernels[way])
    return next((kernels[other] for name, other in INSTEAD.items() if chosen is kernels[name]), chosen)


def has_room(arch: str) -> bool:
    """Whether blocks on tensor cores find their shared memory: there are 64 to 163 KiB before sm_90, 99 on sm_12x."""
    return not arch.startswith(("sm_7", "sm_8", "sm_12"))


def must_have_room(arch: str) -> None:
    """Raise LaunchError where they do not."""
    if not has_room(arch):
        raise LaunchError(
            f"matmul: on tensor cores a block takes {SHARED} bytes of shared memory, which GPUs of {arch} do not have; "
            "H100, H200 and B200 do. Multiply in float32, without `using`: x.astype('float32')."
        )


def fits_wgmma(w: "Work", x: Array, y: Array) -> bool:
    """Whether the copy engine takes these matrices: every row begins at a multiple of 16 bytes, and there are some."""
    return w.n % 8 == 0 and w.k % 8 == 0 and all(array.size and not array.spec.offset for array in (x, y))
