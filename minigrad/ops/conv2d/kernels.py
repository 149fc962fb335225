"""The kernels of conv2d: a ladder, each rung one idea faster than the one before, with their gradients."""

from typing import Any

from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.ops.conv2d import winograd
from minigrad.ops.conv2d.rungs import HOPPER, RUNGS
from minigrad.ops.conv2d.wgmma import STAGE, plan
from minigrad.ops.elementwise import per_element, per_four
from minigrad.ops.matmul.kernels import ON
from minigrad.ops.window import BLOCKS

TILES = (16, 8, 32)
WAYS = ("", "_backward_x", "_backward_w")
TENSOR_CORES = ("mma_tf32", "mma_bf16", "mma_3xtf32")


def implicit(way: str) -> Kernel:
    """A product of matrices that are nowhere in memory, in tiles."""
    grid, block = ("columns/TILE", "rows/TILE", "groups"), ("TILE", "TILE")
    return Kernel("conv2d/implicit.cu", f"conv2d_implicit{way}", grid, block, "rows columns groups", TILE=TILES)


# The parts into which each sum of dw, and of y or dx by wgmma, is split: others are as legal, these a sweep tries.
SPLITS = (1, 2, 4, 8, 16, 32, 64, 128)


def in_tiles(file: str, name: str, way: str, threads: str, shared: str | int, **tunables: Any) -> Kernel:
    """A product of images with their channels last, in tiles; layers: the parities of dx."""
    rung, split = RUNGS[name], way == "_backward_w"

    def fit(**sizes: int) -> dict[str, int]:
        return rung.split(**sizes) if split else dict(zip(("ROWS", "COLUMNS"), rung.tile(way, **sizes), strict=True))

    return Kernel(
        f"conv2d/{file}{way}.cu",
        f"conv2d_{name}{way}",
        grid=("rows/ROWS", "columns/COLUMNS", "SPLIT" if split else "layers"),
        block=(threads,),
        sizes=("rows columns pixels" if split else "rows columns layers=1") + ON,
        fit=fit,
        shared=shared,
        **(tunables | {"SPLIT": SPLITS} if split else tunables),
    )


def register_tile(way: str) -> Kernel:
    """A product in registers."""
    rows, columns = ((128, 64), (64, 128)) if way == "_backward_w" else ((128, 256, 64), (64,))
    return in_tiles("register_tile", "register_tile", way, "128", 0, ROWS=rows, COLUMNS=columns)


def halo_tile(way: str) -> Kernel:
    """A convolution with stride 1 in tiles of images; layers: the blocks of an image's pixel, times the images."""

    def fit(rows: int, columns: int, layers: int) -> dict[str, int]:
        return {"TILE_WIDTH": min((16, 32), key=lambda width: ceil_div(columns, width) * ceil_div(rows * width, 256))}

    return Kernel(
        "conv2d/halo_tile.cu",
        f"conv2d_halo_tile{way}",
        grid=("columns/TILE_WIDTH", "rows*TILE_WIDTH/256", "layers"),
        block=("128",),
        sizes="rows columns layers",
        fit=fit,
        TILE_WIDTH=(16, 32),
    )


def tensor_cores(name: str, way: str) -> Kernel:
    """A product on tensor cores: a warp has 64 x WIDE of a tile."""
    tiles = RUNGS[name].tiles_w if way == "_backward_w" else RUNGS[name].tiles
    rows, columns = (tuple(dict.fromkeys(tile[i] for tile in tiles)) for i in (0, 1))
    wide = 32 if name == "mma_3xtf32" else 64  # with both parts of its factors a warp has no registers for more
    threads, shared = "ROWS*COLUMNS/2*WIDE", "432*ROWS*COLUMNS/WIDE"
    return in_tiles("tensor_cores", name, way, threads, shared, ROWS=rows, COLUMNS=columns, WIDE=(wide,))


def wgmma(name: str, way: str) -> Kernel:
    """A product by wgmma: persistent blocks, one on each multiprocessor, which loop over the tiles.

    That of dx, for strides, loops over the parities, too, whose sums have different numbers of stages.
    """

    def fit(kernels: int, **sizes: int) -> dict[str, int]:
        chosen = plan(name, kernels, **sizes)
        return {"DOWN": 2 if kernels % 128 == 0 else 1, "PIXELS": chosen.pixels, "SPLIT": chosen.parts}

    return Kernel(
        f"conv2d/{name if name == 'wgmma_3xtf32' else 'wgmma'}{way}.cu",
        f"conv2d_{name}{way}",
        grid=("processors",),
        block=("384",),
        sizes=("kernels pixels stages longest" if way else "kernels pixels stages") + ON,
        fit=fit,
        shared=221312,
        DOWN=(2, 1),
        PIXELS=tuple(STAGE[name]),
        SPLIT=(1,) if way else SPLITS,
    )


kernels = {
    "naive": per_element("conv2d.cu", "conv2d_naive", "size", BLOCKS),
    "backward_x": per_element("conv2d.cu", "conv2d_backward_x", "size", BLOCKS),
    "backward_w": Kernel("conv2d.cu", "conv2d_backward_w", ("elements",), ("BLOCK",), "elements", BLOCK=(128, 32, 512)),
    **{f"implicit{way}": implicit(way) for way in WAYS},
}
kernels["forward"] = kernels["naive"]
kernels["im2col"] = per_element("conv2d.cu", "conv2d_im2col", "size", BLOCKS)
kernels["im2col_backward_x"] = per_element("conv2d.cu", "conv2d_col2im", "size", BLOCKS)
kernels |= winograd.KERNELS
kernels |= {f"register_tile{way}": register_tile(way) for way in WAYS}
kernels |= {f"halo_tile{way}": halo_tile(way) for way in WAYS[:2]}
kernels |= {f"{name}{way}": tensor_cores(name, way) for name in TENSOR_CORES for way in WAYS}
kernels |= {f"{name}{way}": wgmma(name, way) for name in HOPPER for way in WAYS[:2]}
kernels["rest"] = per_four("conv2d/rest.cu", "conv2d_rest", "n", BLOCKS)
kernels["finish"] = per_four("conv2d/finish.cu", "conv2d_finish", "n", BLOCKS)
kernels["turn"] = per_element("conv2d/turn.cu", "conv2d_turn", "size", BLOCKS)
kernels["recount"] = per_element("conv2d/recount.cu", "conv2d_recount", "size", BLOCKS)
# Role -> kernel, until `using` selects another kernel.
FAST = {f"fast_{name}": name for name in ("register_tile", *TENSOR_CORES, *HOPPER)}
