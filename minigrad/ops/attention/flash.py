"""Attention in tiles, which never holds scores in memory: the kernels, their tiles, and the choice of a rung."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID
from minigrad.devices.dtypes import is_bfloat16
from minigrad.devices.tensor_map import TensorMap
from minigrad.errors import LaunchError
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.ops.matmul.kernels import PRECISIONS, has_tensor_cores

WIDTHS = (64, 32, 128)
WAYS = ("", "_backward_queries", "_backward_keys", "_backward_all")
FILES = dict(zip(WAYS, ("", "_backward", "_backward", "_backward_all"), strict=True))
# Of rows that pass by: stages, tiles (of keys and values, or of queries and upstream gradients), and numbers of a row.
STAGES, TILES, NUMBERS = 2, 2, 3
# Of wgmma, each group of whose warps owns 64 rows: queries of a block by width, keys of a tile, bytes of two barriers.
# At width 64 two small blocks share a multiprocessor, so that one multiplies while the other begins or stores:
# B4 H12 S1024, causal, takes 36 us on an H200, and 48 with 192 queries.
QUERIES, KEYS, BARRIERS = {64: 64, 128: 128}, 128, 16
SHORT = 512  # keys, up to which a block of gradients has 64 of them in the same way; with more it adds to dq less often
# Queries, or keys, that leave most of a tile of tensor cores empty, so that float32 itself is as fast as 3xTF32. It is
# more exact in short sums, since tensor cores round toward zero.
FEW = 16
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

    ways: ClassVar[tuple[str, ...]] = WAYS  # those for which it has a kernel
    merges: ClassVar[bool] = False  # it writes the rows of y of several heads side by side

    @property
    def bytes(self) -> int:
        """Of a number."""
        return 2 if self.dtype == "bfloat16" else 4

    def given(self, way: str, *arrays: Array) -> Sequence[Any]:
        """The first arguments of a kernel, q, k and v, or before them dy."""
        return arrays

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


class HopperRung(FlashRung):
    """The way that multiplies by wgmma: a thread of each block feeds the copy engine (TMA), which brings whole tiles.

    It has one kernel for all gradients. By two, they are those of mma_bf16.
    """

    ways, merges = (WAYS[0], WAYS[3]), True

    def fits(self, q: Any, k: Any, v: Any, mask: Any, scale: float) -> bool:
        """The copy engine takes no empty arrays, and rows that are multiples of 16 bytes."""
        return super().fits(q, k, v, mask, scale) and q.shape[3] % 8 == 0 and q.size > 0 and k.size > 0

    def takes(self) -> str:
        return f"{super().takes()} that are multiples of 8, and at least one query and key"

    def launch(self, kernels: Mapping[str, Kernel], way: str, rows: int, pairs: int, width: int) -> Launch:
        if way not in self.ways:
            return RUNGS["mma_bf16"].launch(kernels, way, rows, pairs, width)
        wide, queries, keys = self.block(way, width, rows)
        row = wide * self.bytes
        if way:  # keys and values, ds twice, and stages of tiles of q and dy with two numbers of each query
            memory = 2 * keys * row + 2 * keys * queries * self.bytes + STAGES * (2 * queries * (row + 4) + BARRIERS)
        else:  # the block's queries, and two stages of keys and of values
            memory = queries * row + 2 * STAGES * (keys * row + BARRIERS)
        own = keys if way else queries
        blocks, groups = ceil_div(rows, own), own // 64 + 1
        return kernels[f"{self.name}{way}"].launch(blocks, pairs, memory + BARRIERS, WIDTH=wide, GROUPS=groups)

    def block(self, way: str, width: int, rows: int) -> tuple[int, int, int]:
        """The width of tiles, 64 or 128, their queries and keys; a block has one tile of either, of so many rows."""
        wide = 64 if width <= 64 else 128
        own = 64 if wide == 64 and rows <= SHORT else KEYS
        return (wide, 64, own) if way else (wide, QUERIES[wide], KEYS)

    def given(self, way: str, *arrays: Array) -> Sequence[Any]:
        """Maps of tiles with 64 columns, 128 bytes."""
        if way not in self.ways:
            return arrays
        _, _, length, width = arrays[-1].shape  # of the keys, which are the rows of a block of gradients
        _, queries, keys = self.block(way, width, length)
        rows = [queries] * (len(arrays) - 2) + [keys] * 2
        return [
            TensorMap(x, (x.shape[0] * x.shape[1], *x.shape[2:]), (1, count, 64))
            for x, count in zip(arrays, rows, strict=True)
        ]

    def kernel(self, way: str) -> Kernel:
        return Kernel(
            f"attention/wgmma{FILES[way]}.cu",
            f"attention_{self.name}{way}",
            grid=("blocks", "pairs"),
            block=("128*GROUPS",),
            sizes="blocks pairs shared",
            shared="shared",
            WIDTH=(64, 128),
            GROUPS=(2, 3),
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
        HopperRung("wgmma_bf16", "bfloat16", 16),
    )
}
kernels = {f"{name}{way}": rung.kernel(way) for name, rung in RUNGS.items() for way in rung.ways}
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
        if selected or any(kernels[way[1:]] is kernels.get(f"{name}{way}") for way in WAYS[1:3]):
            if not rung.fits(q, k, v, mask, scale):
                raise LaunchError(
                    f"attention: {name} takes {rung.takes()}; q is {q.dtype} {q.shape}, scale {scale:.3g}, "
                    f"{'no' if mask is None else 'a'} mask. Without `using` attention finds a kernel itself."
                )
            return rung
    if not has_tensor_cores(q.device.arch):  # or has not the shared memory
        return None
    names = [PRECISIONS.get(precision, ""), "register_tile"]
    if is_bfloat16(q.dtype):
        names = ["wgmma_bf16"] * (q.device.arch == "sm_90a") + ["mma_bf16"]
    if min(q.shape[2], k.shape[2]) < FEW and precision == "3xtf32":
        names = names[1:]
    free = [RUNGS[name] for name in names if f"fast_{name}" in kernels]
    return next((rung for rung in free if rung.fits(q, k, v, mask, scale)), None)


def lengths(q: Array, k: Array, causal: bool) -> tuple[int, ...]:
    """The last arguments of the kernels."""
    return q.shape[1] // max(k.shape[1], 1), q.shape[2], k.shape[2], q.shape[3], int(causal)


def forward(
    kernels: Mapping[str, Kernel], rung: FlashRung, q: Array, k: Array, v: Array, y: Array, most: Array,
    inverse: Array, spoiled: Array | None, causal: bool, scale: float, heads: int,
) -> None:  # fmt: skip
    """Write y, and what gradients need. spoiled: a whole number, set to 1 if y is not finite."""
    run, more = rung.launch(kernels, "", q.shape[2], q.shape[0] * q.shape[1], q.shape[3]), (heads,) * rung.merges
    run(*rung.given("", q, k, v), y, most, inverse, spoiled, scale, *lengths(q, k, causal), *more)


def adds(kernels: Mapping[str, Kernel], rung: FlashRung | None, needs: tuple) -> bool:
    """True where one kernel makes all gradients: it adds to dq."""
    return rung is not None and f"all_{rung.name}" in kernels and needs[0] and (needs[1] or needs[2])


def gradients(
    kernels: Mapping[str, Kernel], rung: FlashRung, needs: tuple, dy: Array, q: Array, k: Array, v: Array,
    saved: tuple[Array, ...], sums: Array | None, spoiled: Array | None, causal: bool, scale: float,
) -> tuple[Array, ...]:  # fmt: skip
    """dq, dk and dv, of which the wanted ones are written. saved: most, inverse and dots.

    By a kernel for dq, and one for dk and dv, each of which makes the scores again; or by one kernel that adds dq to
    `sums`, float32, which begin as 0.
    """
    dk, dv = (Array.empty(x.device, x.shape, x.dtype) for x in (k, v))
    ends, width = (spoiled, scale, *lengths(q, k, causal)), q.shape[3]
    of_queries, of_keys = ((x.shape[2], x.shape[0] * x.shape[1], width) for x in (q, k))

    def launch(way: str, rows: tuple[int, ...], *outputs: Array) -> None:
        run = rung.launch(kernels, way, *rows)
        run(*rung.given(way, dy, q, k, v), *saved, *outputs, *ends)

    if sums:
        launch("_backward_all", of_keys, sums, dk, dv)
        return sums, dk, dv
    dq = Array.empty(q.device, q.shape, q.dtype)
    if needs[0]:
        launch("_backward_queries", of_queries, dq)
    if needs[1] or needs[2]:
        launch("_backward_keys", of_keys, dk, dv)
    return dq, dk, dv
