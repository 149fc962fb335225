"""Kernels for images with their channels last, of which a thread takes four at a time."""

from minigrad.devices.array import Array
from minigrad.devices.dtypes import copied
from minigrad.devices.layouts import in_layout
from minigrad.kernels.extents import next_power
from minigrad.kernels.kernel import Kernel

LANES, WARP = 4, 32  # channels of a thread; threads of a warp
TILE = 256  # threads of a block


def in_fours(x: Array) -> bool:
    """True for images with their channels last, in a number that fours make up, where loads of 16 bytes may begin."""
    return x.channels_last and x.shape[1] % LANES == 0 and not x.spec.offset


def laid_out(x: Array, last: bool) -> Array:
    """The array in this layout; with the channels last it begins at a multiple of 16 bytes."""
    return in_layout(copied(x) if last and x.spec.offset else x, last)


def per_tile(file: str, name: str) -> Kernel:
    """A kernel in which a block owns a tile of HIGH x WIDE pixels, in ACROSS fours of channels: see `pooling.cuh`."""

    def fit(lines: int, columns: int, fours: int) -> dict[str, int]:
        across = next_power(fours, WARP)
        pixels = TILE // across
        wide = next_power(columns, 1 << pixels.bit_length() // 2)
        return {"ACROSS": across, "WIDE": wide, "HIGH": next_power(lines, pixels // wide)}

    return Kernel(
        file,
        name,
        grid=("lines/HIGH", "columns/WIDE", "fours/ACROSS"),
        block=("ACROSS", "WIDE", "HIGH"),
        sizes="lines columns fours",
        fit=fit,
        ACROSS=(32, 1),
        WIDE=(4, 3),
        HIGH=(4, 1),
    )
