"""The rungs of conv2d for images with their channels last: their tiles, what they take, and the choice among them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.device import MAX_GRID
from minigrad.devices.dtypes import is_bfloat16
from minigrad.errors import LaunchError
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.window import Window
from minigrad.ops.conv2d import wgmma
from minigrad.ops.matmul.kernels import PRECISIONS, has_tensor_cores

Tiles = Mapping[tuple[int, int], float]  # (rows, columns) -> the time for an element, on all warps of a multiprocessor
EDGE = 64  # rows or columns of the smallest tile

# Measured on an H200. A block of a wave that is not full takes so many times its part of a full wave's time.
FEW = 1.25
# Of dw: a chunk of pixels is a multiple; a launch takes as long as so many pixels on tensor cores; the additions of an
# element of a part, and their launch, as so many multiplications; parts at most.
PIXELS, LAUNCH, ADDITION, FINISH, MOST = 64, 100, 2, 2e6, 264
LONGEST = 2**19  # pixels of a part: tensor cores round sums toward zero, by 4e-3 of the largest after 1.6 million terms


def chunk_of(pixels: int, count: int) -> int:
    """The pixels of one of so many parts."""
    return max(ceil_div(pixels, count * PIXELS), 1) * PIXELS


@dataclass(frozen=True)
class ChannelsLast:
    """A rung for images with their channels last.

    tiles: of y and dx, and of dw, which has few rows. room: elements of tiles that a multiprocessor works on at once.
    slow: times as slow as tensor cores. filled: channels and kernels come in multiples of 16 bytes; it is on tensor
    cores, and adds a residual and applies relu before it stores y. widest: rows or columns of its largest window.
    plain: it takes stride 1 and dilation 1 alone.
    """

    name: str
    dtypes: tuple[str, ...] = ("float32",)
    tiles: Tiles = field(default_factory=dict)
    tiles_w: Tiles = field(default_factory=dict)
    room: int = 1
    slow: int = 1
    filled: bool = False
    widest: int = 15
    plain: bool = False

    def tile(self, way: str, rows: int, columns: int, layers: int, processors: int) -> tuple[int, int]:
        """The tile with the least time for its waves of blocks; of y and dx, among those that are not half empty.

        Where all are, it is the one whose blocks have the fewest elements.
        """
        of_w = way == "_backward_w"
        tiles = self.tiles_w if of_w else self.tiles
        full = [shape for shape in tiles if of_w or (shape[0] < 2 * rows and shape[1] < 2 * columns)]

        def blocks(shape: tuple[int, int]) -> int:
            return ceil_div(rows, shape[0]) * ceil_div(columns, shape[1]) * layers

        def time(shape: tuple[int, int]) -> float:
            return self.time(blocks(shape), shape, tiles, processors)

        return min(full, key=time) if full else min(tiles, key=lambda shape: (blocks(shape) * prod(shape), time(shape)))

    def split(self, rows: int, columns: int, pixels: int, processors: int) -> dict[str, int]:
        """The tile of dw, and the parts of its sums over pixels: few, since all are added up, but enough blocks."""

        def time(count: int) -> float:
            shape = self.tile("_backward_w", rows, columns, count, processors)
            blocks = ceil_div(rows, shape[0]) * ceil_div(columns, shape[1]) * count
            sums = self.time(blocks, shape, self.tiles_w, processors) * (pixels / count * self.slow + LAUNCH)
            return sums + (rows * columns * count * ADDITION + FINISH if count > 1 else 0)

        least = max(ceil_div(pixels, LONGEST), 1) if self.filled else 1
        count = min(range(least, max(min(MOST, pixels // LAUNCH), least) + 1), key=time)
        count = max(ceil_div(pixels, chunk_of(pixels, count)), 1)
        tile = self.tile("_backward_w", rows, columns, count, processors)
        return dict(zip(("ROWS", "COLUMNS", "SPLIT"), (*tile, count), strict=True))

    def time(self, blocks: int, shape: tuple[int, int], tiles: Tiles, processors: int) -> float:
        """The time for a term of all sums: the blocks of a multiprocessor x elements x time of one.

        It works on several blocks at once. Few of them leave it idle at times: half a wave takes longer than half the
        time of a wave, and less than that as long as half a wave.
        """
        at_once = max(self.room // prod(shape), 1)
        waves, rest = divmod(ceil_div(blocks, processors), at_once)
        last = min(FEW * max(rest, at_once / 2), at_once) if rest else 0
        return (waves * at_once + last) * prod(shape) * tiles[shape]

    def unit(self, dtype: np.dtype) -> int:
        """The number of which channels and kernels are multiples."""
        return wgmma.RUN // dtype.itemsize if self.filled else 1

    def fits(self, x: Any, w: Any, at: Window, groups: int) -> bool:
        """True for arrays that it takes."""
        steps = (at.stride_y, at.stride_x, at.dilation_y, at.dilation_x)
        dtype = "bfloat16" if is_bfloat16(x.dtype) else x.dtype.name
        taken = groups == 1 and dtype in self.dtypes and w.shape[0] % self.unit(x.dtype) == 0
        taken = taken and max(at.rows, at.columns) <= self.widest and (not self.plain or steps == (1, 1, 1, 1))
        columns, blocks = prod(w.shape[2:]) * max(w.shape[:2]), x.shape[0] * ceil_div(max(w.shape[:2]), EDGE)
        room = columns <= EDGE * MAX_GRID[1] and (not self.plain or blocks <= MAX_GRID[2])
        return taken and room and not (x.offset or w.offset)

    def takes(self, dtype: np.dtype) -> str:
        """The arrays that it takes, in words."""
        steps = ["stride 1", "dilation 1"] if self.plain else []
        kernels = [f"kernels in multiples of {self.unit(dtype)}"] if self.filled else []
        window = f"windows of at most {self.widest} x {self.widest}"
        return f"{', '.join(['groups=1', *steps, *kernels, window])} and {' or '.join(self.dtypes)}"


# Of float32 in registers, of tensor cores, and where a warp on tensor cores holds both parts of its factors.
REGISTERS, REGISTERS_W = {(128, 64): 1.0, (64, 64): 1.2}, {(128, 64): 1.0, (64, 64): 1.05}
LARGE = {(256, 128): 1.0, (256, 64): 1.05, (128, 128): 1.0}
LARGE_W = {(128, 256): 1.0, (256, 128): 0.97, (128, 128): 1.0, (64, 256): 1.1, (64, 128): 1.05, (128, 64): 1.05}
LARGE_W_BF16 = {**LARGE_W, (64, 256): 1.0, (128, 64): 1.6}
HALF, HALF_W = {(256, 64): 1.1, (128, 128): 1.0}, {(64, 256): 1.1}
EXACT = ("float32", "float64")
RUNGS = {
    rung.name: rung
    for rung in (
        ChannelsLast("register_tile", EXACT, REGISTERS, REGISTERS_W, room=65536, slow=6),
        ChannelsLast("halo_tile", EXACT, widest=7, plain=True),
        ChannelsLast("mma_tf32", ("float32",), LARGE, LARGE_W, room=32768, filled=True),
        ChannelsLast("mma_bf16", ("bfloat16",), LARGE, LARGE_W_BF16, room=32768, filled=True),
        ChannelsLast("mma_3xtf32", ("float32",), HALF, HALF_W, room=16384, slow=3, filled=True),
        ChannelsLast("wgmma_tf32", ("float32",), filled=True),
        ChannelsLast("wgmma_bf16", ("bfloat16",), filled=True),
        ChannelsLast("wgmma_3xtf32", ("float32",), filled=True),
    )
}
# On Hopper, by wgmma: the rung that replaces it where it does not fit.
HOPPER = {name: RUNGS[name.removeprefix("wg")] for name in RUNGS if name.startswith("wgmma")}
# The multiplications from which on copies to another layout pay, and the columns that fill enough of a tile.
SMALL, NARROW = 2**22, 8


def choose(
    kernels: Mapping[str, Any], role: str, x: Any, w: Any, at: Window, groups: int, precision: str
) -> ChannelsLast | None:
    """The rung for the forward pass or a gradient, or None for those of images in C order.

    The one that `using` selects, else on a GPU the fastest that rounds no more than permitted, and last the exact one.
    Raises LaunchError where the selected one cannot do it.
    """
    for name, rung in RUNGS.items():
        if kernels["forward"] is kernels[name] or kernels[role] is kernels.get(f"{name}_{role}"):
            if not rung.fits(x, w, at, groups):
                raise LaunchError(
                    f"conv2d: {name} takes {rung.takes(x.dtype)}; x is {x.dtype} {x.shape} and w {w.shape}, "
                    f"groups={groups}. Without `using` conv2d finds a kernel itself."
                )
            if name in HOPPER:
                return rung if wgmma.fits(role, x, w, at) else HOPPER[name]
            return rung if role == "forward" or f"{name}_{role}" in kernels else RUNGS["register_tile"]
    names = ["mma_bf16" if is_bfloat16(x.dtype) else PRECISIONS.get(precision, "")] * has_tensor_cores(x.device.arch)
    if x.device.arch and x.dtype.name in EXACT and is_worth_tiles(role, x.shape[0], w.shape, at):
        names.append("register_tile")
    # 3xTF32 splits all of x, and where the stride passes most of its pixels by, that takes longer than the products.
    sparse = role == "forward" and "mma_3xtf32" in names and at.rows * at.columns < at.stride_y * at.stride_x
    if x.device.arch == "sm_90a" and names[0] and not sparse and wgmma.fits(role, x, w, at):
        names.insert(0, f"wg{names[0]}")
    free = [RUNGS[name] for name in names if f"fast_{name}" in kernels]
    return next((rung for rung in free if rung.fits(x, w, at, groups)), None)


def is_worth_tiles(role: str, images: int, window: tuple[int, ...], at: Window) -> bool:
    """True for a convolution that is large enough, and whose result has enough columns, for the exact rung in tiles."""
    narrow = window[1] if role == "backward_x" else window[0]
    return narrow >= NARROW and images * at.out_height * at.out_width * prod(window) >= SMALL
