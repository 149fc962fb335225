"""Attention in tiles, which never holds scores in memory: the kernels, their tiles, and the choice of a rung."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID
from minigrad.devices.dtypes import is_bfloat16
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.layouts import typed
from minigrad.ops.matmul.kernels import PRECISIONS, has_tensor_cores

WIDTHS = (64, 32, 128)
WAYS = ("", "_backward_queries", "_backward_keys", "_backward_all")
FILES = dict(zip(WAYS, ("", "_backward", "_backward", "_backward_all"), strict=True))
# Of rows that pass by: stages, tiles (of keys and values, or of queries and upstream gradients), and numbers of a row.
STAGES, TILES, NUMBERS = 2, 2, 3
FEW = 16  # queries that leave most of a strip of tensor cores empty, so that float32 itself is as fast as 3xTF32
Tiles = dict[str, int]


def tiles(tall: int, passing: int, warps: int) -> Tiles:
    """A block's tiles: TALL makes the rows of a warp's strip, PASSING rows pass by at once."""
    return {"TALL": tall, "PASSING": passing, "WARPS": warps}


@dataclass(frozen=True)
class FlashRung:
    """A way to compute attention in tiles.

    step: the rows of a strip are TALL times as many. Each warp exchanges scores through memory, or none. sizes: of the
    tiles by way and width of the rows.
    """

    name: str
    dtype: str
    step: int
    exchanges: bool = False
    sizes: dict[str, dict[int, Tiles]] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Of a number."""
        return 2 if self.dtype == "bfloat16" else 4

    def fits(self, q: Any, k: Any, v: Any, mask: Any, scale: float) -> bool:
        """True for arrays that it takes."""
        dtype = "bfloat16" if is_bfloat16(q.dtype) else q.dtype.name
        pairs, usual = q.shape[0] * max(q.shape[1], k.shape[1]), mask is None and scale > 0 and isfinite(scale)
        fits = dtype == self.dtype and usual and 0 < q.shape[3] <= max(WIDTHS) and pairs <= MAX_GRID[1]
        return fits and not any(x.spec.offset for x in (q, k, v))

    def takes(self) -> str:
        """The arrays that it takes, in words."""
        return f"{self.dtype}, no mask, a positive scale, and widths up to {max(WIDTHS)}"

    def launch(self, kernels: Mapping[str, Kernel], way: str, rows: int, pairs: int, width: int) -> Launch:
        """The launch of one kernel over blocks of rows."""
        kernel, wide = kernels[f"{self.name}{way}"], min(w for w in WIDTHS if w >= width)
        chosen = kernel.values | (self.fitting(way, wide, rows) if kernel.fit else {}) | {"WIDTH": wide}
        return kernel.launch(rows, pairs, self.shared(way, **chosen), **chosen)

    def fitting(self, way: str, wide: int, rows: int) -> Tiles:
        """The tiles, lower where a lower block has all rows."""
        tile = self.sizes[way][wide]
        lower = {**tile, "TALL": tile["TALL"] // 2}
        known = any(lower["TALL"] == other["TALL"] for other in self.sizes[way].values())
        return lower if known and rows <= self.step * lower["TALL"] * lower["WARPS"] else tile

    def shared(self, way: str, TALL: int, PASSING: int, WARPS: int, WIDTH: int) -> int:
        """Bytes of shared memory: the block's own rows, two stages of rows that pass by, and what warps exchange."""
        rows, pitch = self.step * TALL * WARPS, WIDTH * self.bytes + 16
        exchange = rows * (PASSING + 8) * self.bytes if self.exchanges or way == "_backward_all" else 0
        own = (2 if way else 1) * rows * pitch
        return own + STAGES * PASSING * (TILES * pitch + NUMBERS * 4) + exchange

    def kernel(self, way: str) -> Kernel:
        """Its kernel for the forward pass or a gradient. Sizes and tunables come from `launch`."""
        every = [self.sizes[way][wide] for wide in WIDTHS]
        tunables: Any = {key: tuple(dict.fromkeys(tile[key] for tile in every)) for key in every[0]}
        return Kernel(
            f"attention/{'register_tile' if self.exchanges else 'tensor_cores'}{FILES[way]}.cu",
            f"attention_{self.name}{way}",
            grid=(f"rows/{self.step}*TALL*WARPS", "pairs"),
            block=("32*WARPS",),
            sizes="rows pairs shared",
            fit=lambda **sizes: {},
            shared="shared",
            WIDTH=WIDTHS,
            **tunables,
        )


# Measured on an H200 at widths 64 and 128; narrower rows take the tiles of 64.
def sizes(*by_way: tuple[Tiles, Tiles]) -> dict[str, dict[int, Tiles]]:
    """The tiles of each way, for widths up to 64 and for 128."""
    return {way: {32: few, 64: few, 128: many} for way, (few, many) in zip(WAYS, by_way, strict=True)}


NARROW, LOW = tiles(4, 64, 8), tiles(4, 32, 8)
REGISTERS = sizes((tiles(8, 64, 8), LOW), *[(NARROW, LOW)] * 3)
BF16 = sizes(
    (tiles(2, 64, 4), tiles(2, 32, 4)), (tiles(2, 64, 4), tiles(1, 64, 4)), (tiles(2, 32, 4), tiles(1, 32, 4)),
    (tiles(2, 32, 8), tiles(1, 64, 8)),
)  # fmt: skip
TF32 = sizes((tiles(2, 64, 4), tiles(1, 64, 4)), *[(tiles(1, 64, 8), tiles(1, 32, 4))] * 3)
TF32X3 = sizes(*[(tiles(1, 32, 4), tiles(1, 32, 4))] * 4)
RUNGS = {
    rung.name: rung
    for rung in (
        FlashRung("register_tile", "float32", 4, True, REGISTERS),
        FlashRung("mma_tf32", "float32", 16, False, TF32),
        FlashRung("mma_bf16", "bfloat16", 16, False, BF16),
        FlashRung("mma_3xtf32", "float32", 16, False, TF32X3),
    )
}
kernels = {f"{name}{way}": rung.kernel(way) for name, rung in RUNGS.items() for way in WAYS}
# Role -> kernel, until `using` selects another kernel. One kernel makes all gradients in less time, but the
# last bits of dq differ from run to run; after `using` there are two, and they do not.
FAST = {f"fast_{name}": name for name in RUNGS} | {f"all_{name}": f"{name}_backward_all" for name in RUNGS}


def choose(
    kernels: Mapping[str, Kernel], q: Any, k: Any, v: Any, mask: Any, scale: float, precision: str
) -> FlashRung | None:
    """The rung in tiles, or None for the one that takes everything: by shapes, dtype, permitted rounding and chip.

    The one that `using` selects, or whose kernel has a gradient's role; else on a GPU the fastest that rounds no more
    than permitted. Raises LaunchError where the selected one cannot do it.
    """
    for name, rung in RUNGS.items():
        selected = kernels["forward"] is kernels[name] or (f"all_{name}" in kernels and f"fast_{name}" not in kernels)
        if selected or any(kernels[way[1:]] is kernels[f"{name}{way}"] for way in WAYS[1:3]):
            if not rung.fits(q, k, v, mask, scale):
                raise LaunchError(
                    f"attention: {name} takes {rung.takes()}; q is {q.dtype} {q.shape}, scale {scale:.3g}, "
                    f"{'no' if mask is None else 'a'} mask. Without `using` attention finds a kernel itself."
                )
            return rung
    if not has_tensor_cores(q.device.arch):  # or has not the shared memory
        return None
    names = ["mma_bf16" if is_bfloat16(q.dtype) else PRECISIONS.get(precision, ""), "register_tile"]
    if q.shape[2] < FEW and precision == "3xtf32":
        names = names[1:]
    free = [RUNGS[name] for name in names if f"fast_{name}" in kernels]
    return next((rung for rung in free if rung.fits(q, k, v, mask, scale)), None)


def lengths(q: Array, k: Array, causal: bool) -> tuple[int, ...]:
    """The last arguments of the kernels."""
    return q.shape[1] // max(k.shape[1], 1), q.shape[2], k.shape[2], q.shape[3], int(causal)


def forward(
    kernels: Mapping[str, Kernel], rung: FlashRung, q: Array, k: Array, v: Array, y: Array, most: Array,
    inverse: Array, causal: bool, scale: float,
) -> None:  # fmt: skip
    """Write y, and what gradients need."""
    run = rung.launch(kernels, "", q.shape[2], q.shape[0] * q.shape[1], q.shape[3])
    run(q, k, v, y, most, inverse, scale, *lengths(q, k, causal))


def gradients(
    kernels: Mapping[str, Kernel], rung: FlashRung, needs: tuple, dy: Array, q: Array, k: Array, v: Array,
    saved: tuple[Array, ...], causal: bool, scale: float,
) -> tuple[Array, ...]:  # fmt: skip
    """dq, dk and dv, of which the wanted ones are written. saved: most, inverse and dots.

    By a kernel for dq, and one for dk and dv, each of which makes the scores again; or by one kernel that adds to dq.
    """
    dk, dv = (Array.empty(x.device, x.shape, x.dtype) for x in (k, v))
    ends, width = (scale, *lengths(q, k, causal)), q.shape[3]
    of_queries, of_keys = ((x.shape[2], x.shape[0] * x.shape[1], width) for x in (q, k))
    if f"all_{rung.name}" in kernels and needs[0] and (needs[1] or needs[2]):
        dq = Array.zeros(q.device, q.shape, np.dtype(np.float32))
        rung.launch(kernels, "_backward_all", *of_keys)(dy, q, k, v, *saved, dq, dk, dv, *ends)
        return typed(dq, q.dtype), dk, dv
    dq = Array.empty(q.device, q.shape, q.dtype)
    if needs[0]:
        rung.launch(kernels, "_backward_queries", *of_queries)(dy, q, k, v, *saved, dq, *ends)
    if needs[1] or needs[2]:
        rung.launch(kernels, "_backward_keys", *of_keys)(dy, q, k, v, *saved, dk, dv, *ends)
    return dq, dk, dv
