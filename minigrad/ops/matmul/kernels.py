"""The kernels of matmul: a ladder, each rung one idea faster than the one before, and kernels for unusual shapes."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from minigrad.devices.array import Spec
from minigrad.devices.device import MAX_GRID, PROCESSORS
from minigrad.devices.dtypes import is_bfloat16
from minigrad.errors import LaunchError
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.ops.matmul.shapes import ENDS, Products

TILES = (16, 4, 8, 32)
ON = f" processors={PROCESSORS}"  # a size of the launch, since it differs between devices
# (rows, columns) of a tile -> the time for one of its elements: measured on an H200, where 1.0 is 45 TFLOP/s.
LARGE = {(128, 128): 1.0, (64, 128): 1.1, (64, 64): 1.3}
SMALL = {(32, 32): 1.8, (16, 32): 2.3}
HOPPER = {(128, 256): 1.0, (128, 192): 1.05, (128, 160): 1.1, (128, 128): 1.18}  # of wgmma: 1.0 is 600 in bfloat16
MMA = {(128, 256): 1.0}
# The multiplications that a multiprocessor does in TF32 while an element of a partial sum is moved, and while a launch
# begins, and in bfloat16 so many times as many; the most parts, and the unit of their terms; what must be saved.
MOVED, BEGUN, FASTER, PARTS, UNIT, SAVED = 1, 3e6, 2.3, 64, 64, 0.2
SHARED = 221184  # bytes of shared memory in a block of the rungs mma_...
TENSOR_CORES = ("mma_3xtf32", "mma_tf32", "wgmma_tf32", "mma_bf16", "wgmma")  # as on the ladder
OF_BFLOAT16 = ("mma_bf16", "wgmma")
PRECISIONS = {"tf32": "mma_tf32", "bf16": "mma_tf32", "3xtf32": "mma_3xtf32"}  # for float32
STRIP, HEIGHTS = 32, (16, 32, 64, 128)  # columns of a block of vector_columns, and the rows that it reads at once


def per_tile(name: str, x: str, y: str) -> Kernel:
    """A kernel of one product. Its blocks are TILE x TILE threads, one per element of the result."""
    return Kernel("matmul.cu", f"matmul_{name}", (f"{x}/TILE", f"{y}/TILE"), ("TILE", "TILE"), "m n k", TILE=TILES)


def per_edge(file: str, name: str, block: tuple[str, ...], **tunables: tuple[int, ...]) -> Kernel:
    """A kernel whose blocks own EDGE x EDGE elements of the result."""
    grid = ("n/EDGE", "m/EDGE", "batch")
    return Kernel(f"matmul/{file}.cu", f"matmul_{name}", grid, block, "m n k batch=1", None, None, 0, False, **tunables)


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
    """A product in small tiles, with the sum over k split among the warps of a block, or of several blocks."""
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


def tile(
    rows: int, columns: int, count: int, processors: int, costs: Mapping[tuple[int, int], float]
) -> tuple[int, int]:
    """The tile with the least waves of blocks x elements x time: many processors may be idle in the last wave."""

    def time(shape: tuple[int, int]) -> float:
        return waves(rows, columns, count, processors, shape) * prod(shape) * costs[shape]

    return min((shape for shape in costs if rows <= shape[0] * MAX_GRID[1]), key=time, default=next(iter(costs)))


def waves(rows: int, columns: int, count: int, processors: int, shape: tuple[int, int]) -> int:
    """The tiles of this shape that the busiest processor makes."""
    return ceil_div(ceil_div(rows, shape[0]) * ceil_div(columns, shape[1]) * count, processors)


def chunk_in_parts(kernel: Kernel, rows: int, columns: int, terms: int, processors: int) -> int:
    """The terms of a part with the least time: of the waves of blocks, and of the partial sums, written and read."""
    low, free = "tf32" not in kernel.name, takes_chunks(kernel)
    tiles = HOPPER if free else MMA

    def time(chunk: int) -> float:
        parts = ceil_div(terms, chunk)
        more = MOVED * (2 * parts + 1) * rows * columns + BEGUN if parts > 1 else 0
        shape = tile(rows, columns, parts, processors, tiles)
        each = prod(shape) * tiles[shape] * chunk
        return waves(rows, columns, parts, processors, shape) * each + (FASTER if low else 1) * more

    chunks = {ceil_div(terms, parts * UNIT) * UNIT for parts in range(2, PARTS + 1)}
    best = min((chunk for chunk in chunks if free or terms % chunk == 0), key=time, default=terms)
    return best if time(best) <= (1 - SAVED) * time(terms) else terms


def takes_chunks(kernel: Kernel) -> bool:
    """True where a kernel finds the parts of a sum itself; for others they are equal, as the matrices of a batch."""
    return kernel.name == "matmul_wgmma_backward_b"


def is_small(rows: int, columns: int, count: int, processors: int) -> bool:
    """True where these results make too few large tiles to keep a GPU busy."""
    return tile(rows, columns, count, processors, LARGE | SMALL) in SMALL


def fitting(sizes: Mapping[str, int], y: str, x: str, costs: Mapping[tuple[int, int], float]) -> tuple[int, int]:
    """The tile for the sizes of a launch, of which y and x are the result's."""
    return tile(sizes[y], sizes[x], sizes.get("batch", 1), sizes["processors"], costs)


def tensor_cores(name: str, end: str, x: str, y: str) -> Kernel:
    """A product on tensor cores, of matrices as they are or, for a gradient, with one of them transposed."""
    file, sizes = f"{'wgmma' if name == 'wgmma' else 'tensor_cores'}{'_backward' if end else ''}", "m n k batch=1"
    if "wgmma" in name:  # persistent blocks, one on each multiprocessor, which loop over the tiles
        file = "wgmma_tf32" if name == "wgmma_tf32" else file
        grid: tuple[str, ...] = ("processors", "1")

        def fit(**sizes: int) -> dict[str, int]:
            return {"COLUMNS": fitting(sizes, y, x, HOPPER)[1]}

        widths = tuple(shape[1] for shape in HOPPER)
        made = f"matmul_{name}{end}"
        return Kernel(f"matmul/{file}.cu", made, grid, ("384",), sizes + ON, None, fit, 196672, COLUMNS=widths)
    if name == "mma_3xtf32":
        file, grid = "tensor_cores_3xtf32", (f"{x}/128", f"{y}/128", "batch")
    else:
        grid = (f"{x}/256", f"{y}/128", "batch")
    return Kernel(f"matmul/{file}.cu", f"matmul_{name}{end}", grid, ("256",), sizes, shared=SHARED)


def vector_rows(outputs: int, n: int, parts: int, batch: int, processors: int) -> dict[str, int]:
    """The threads of a row: a block where rows are few and long, else lanes of a warp with 16 elements each."""
    few = outputs * parts * batch < 24 * processors
    return {"SHARE": 256 if few and n >= 2048 * parts else min(32, 1 << max(0, (n // 16).bit_length() - 1))}


def vector_columns(outputs: int, n: int, parts: int, batch: int, processors: int) -> dict[str, int]:
    """The rows that a block reads at once: 1024 threads per multiprocessor, 8 per row, each with at least four rows."""
    blocks = max(ceil_div(outputs, STRIP) * parts * batch, 1)
    limit = max(min(1024 * processors // (8 * blocks), n // (4 * parts)), HEIGHTS[0])
    return {"HEIGHT": max(height for height in HEIGHTS if height <= limit)}


def with_vector(fit: Callable, x: str, block: tuple[str, ...], **tunables: tuple[int, ...]) -> Kernel:
    """A product with a vector, with the rows or columns of the matrix split among threads."""
    sizes = "outputs n parts=1 batch=1" + ON
    name = f"matmul_{fit.__name__}"
    return Kernel("matmul/vector.cu", name, (x, "parts", "batch"), block, sizes, None, fit, 0, False, **tunables)


COLUMN, SQUARE, EIGHTHS = ("EDGE", "EDGE/EACH"), ("EDGE/EACH", "EDGE/EACH"), ("EDGE/8", "EDGE/8")
kernels = {
    "naive": per_tile("naive", "m", "n"),
    "coalesced": per_tile("coalesced", "n", "m"),
    "tiled": per_tile("tiled", "n", "m"),
    "register_tile_1d": per_edge("register_tile", "register_tile_1d", COLUMN, EDGE=(32, 64), EACH=(8, 4)),
    "register_tile_2d": per_edge("register_tile", "register_tile_2d", SQUARE, EDGE=(128, 64), EACH=(8, 4)),
    "vectorized": per_edge("vectorized", "vectorized", EIGHTHS, EDGE=(128, 64)),
    "double_buffered": per_edge("double_buffered", "double_buffered", EIGHTHS, EDGE=(128, 64)),
    "warp_tiled": warp_tiled("warp_tiled", "n", "m"),
    "packed": warp_tiled("packed", "n", "m", batch=()),
    "split_k": split_k("split_k", "n", "m"),
    "split_k_parts": split_k("split_k_parts", "n", "m", "parts"),
    **{name: tensor_cores(name, "", "n", "m") for name in TENSOR_CORES},
}
BACKWARD = (("backward_a", "k", "m"), ("backward_b", "n", "k"))  # with the columns and rows of the gradient
kernels |= {way: per_tile(way, x, y) for way, x, y in BACKWARD}
kernels |= {f"warp_tiled_{way}": warp_tiled(f"warp_tiled_{way}", x, y) for way, x, y in BACKWARD}
kernels |= {f"split_k_{way}": split_k(f"split_k_{way}", x, y) for way, x, y in BACKWARD}
kernels |= {f"split_k_parts_{way}": split_k(f"split_k_parts_{way}", x, y, "parts") for way, x, y in BACKWARD}
kernels |= {
    f"{name}_{way}": tensor_cores(name, f"_{way}", x, y)
    for way, x, y in BACKWARD
    for name in TENSOR_CORES
    if name != "wgmma_tf32"  # one kernel for all three products, of copies where they are stored otherwise
}
kernels["forward"] = kernels["tiled"]
kernels["vector_rows"] = with_vector(vector_rows, "outputs*SHARE/256", ("256",), SHARE=(32, 1, 2, 4, 8, 16, 256))
kernels["vector_columns"] = with_vector(vector_columns, f"outputs/{STRIP}", ("8", "HEIGHT"), HEIGHT=HEIGHTS)
kernels["vector_parts"] = Kernel("matmul/vector.cu", "matmul_vector_parts", ("32*outputs/256",), ("256",), "outputs")
# Kernels for matrices of unusual sizes, or for copies of them.
OFF_LADDER = ("packed", "split_k", "split_k_parts", "vector_rows", "vector_columns", "vector_parts")
# The kernel that replaces one that does not support these sizes.
INSTEAD = {"packed": "warp_tiled", "split_k_parts": "split_k"} | dict.fromkeys(OFF_LADDER[3:], "tiled")
# Role -> kernel, until `using` selects another kernel: float32 takes the fast ones, small products others.
FAST = {f"{way}_float32": f"warp_tiled{end}" for way, end in ENDS.items()}
FAST |= {f"{way}_small": f"split_k{end}" for way, end in ENDS.items()} | {"large": "packed"}
FAST |= {f"{way}_long": f"split_k_parts{end}" for way, end in ENDS.items()}
FAST |= {"along": "vector_rows", "down": "vector_columns", "turned": "wgmma_tf32"}


def pick(kernels: Mapping[str, Kernel], way: str, shapes: Products, x: Spec, y: Spec) -> Kernel:
    """The kernel that multiplies x and y in tiles. A gradient takes the same tensor cores as the forward pass."""
    requested, end = kernels["forward"], ENDS[way]
    of_floats = next((name for name in PRECISIONS.values() if requested is kernels[name]), "")
    if (is_bfloat16(x.dtype) or of_floats) and not has_room(x.device.arch):
        raise LaunchError(
            f"matmul: on tensor cores a block takes {SHARED} bytes of shared memory, which GPUs of {x.device.arch} do "
            "not have; H100, H200 and B200 do. Multiply in float32, without `using`: x.astype('float32')."
        )
    if is_bfloat16(x.dtype):
        hopper = requested is kernels["wgmma"] or (requested is not kernels["mma_bf16"] and x.device.arch == "sm_90a")
        return kernels[f"{'wgmma' if hopper and fits_wgmma(shapes, way, x, y) else 'mma_bf16'}{end}"]
    if of_floats:
        return kernels[f"{of_floats}{end}"]
    rows, columns, _ = shapes.extents(way)
    size = "small" if is_small(rows, columns, shapes.count, x.device.processors) else "float32"
    # With float64 the fast kernels would run out of registers. `with_kernel` may leave one role alone.
    roles = (f"{way}_{size}", f"{way}_small", f"{way}_float32") if x.dtype == np.float32 else ()
    chosen = next((kernels[role] for role in roles if role in kernels), kernels[way])
    return next((kernels[other] for name, other in INSTEAD.items() if chosen is kernels[name]), chosen)


def has_room(arch: str) -> bool:
    """True where a block on tensor cores fits in shared memory: before sm_90 there are 64 to 163 KiB, on sm_12x 99.

    The simulator, of no arch, gives a block as much as sm_90 does.
    """
    return not arch.startswith(("sm_7", "sm_8", "sm_12"))


def has_tensor_cores(arch: str) -> bool:
    """True for a GPU that runs the kernels on tensor cores. The simulator does so where `using` selects one."""
    return arch.startswith("sm_") and has_room(arch)


def fits_wgmma(shapes: Products, way: str, x: Spec, y: Spec) -> bool:
    """True where the copy engine (TMA) takes the factors: not empty, and rows begin at multiples of 16 bytes."""
    rows = (shapes.n,) if way == "backward_a" else (shapes.n, shapes.k)
    return all(row % 8 == 0 for row in rows) and all(spec.size and not spec.offset for spec in (x, y))
