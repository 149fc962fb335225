"""10b: the pixels of a tile with its halo, and how often the taps meet them, predicted before they are counted."""

import numpy as np

from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection, inspect
from minigrad.operators import OPS

SIDE, TILE = 32, 16  # of the image, and of the tile


def run() -> list[Inspection]:
    """The first block of the halo tile, whose pixels have four channels of 16 bytes, and the naive kernel."""
    x, w = np.ones((1, 4, SIDE, SIDE), np.float32), np.ones((4, 4, 3, 3), np.float32)
    tile = inspect(OPS["conv2d"]["halo_tile"], x, w, padding=1, TILE_WIDTH=TILE, blocks=1)
    return [tile, inspect(OPS["conv2d"]["naive"], x[:, :1], w[:1, :1], padding=1, BLOCK=256, blocks=SIDE * SIDE // 256)]


def truth(records: list[Inspection]) -> dict[str, int]:
    """A pixel has a number of 4 bytes in shared memory, its offset, and is read from memory by one access."""
    tile, naive = (record.traffic for record in records)
    kept = (tile["variable"] == "own") & (tile["kind"] == "write") & (tile["bytes"] == 4)
    p, q = np.divmod(naive["block"] * 256 + naive["thread"], SIDE)
    met = (naive["variable"] == "x") & (p < TILE) & (q < TILE)
    return {
        "places": int(np.count_nonzero(kept)),
        "read": int(np.count_nonzero(tile["variable"] == "x")),
        "met": int(np.count_nonzero(met)),
    }


halo_counts = Prediction(
    "10b",
    "halo_counts",
    task="""
**How large is the tile with its halo?** An image of 32 x 32 pixels, windows of 3 x 3, `padding=1`. A block makes 16 x
16 outputs. Take the first block, whose tile lies in the upper left corner of the image. Predict

1. the places for pixels in shared memory, the halo included;
2. the pixels that the block reads from the image: the others lie in the border of zeros;
3. how often a tap of an output meets a pixel of the image. So many pixels would be copied if each tap copied its own.
""",
    solution="""
#> places = ...  # in shared memory
places = 18 * 18
#<
#> read = ...  # pixels of the image
read = 17 * 17
#<
#> met = ...  # pairs of an output and a tap that meet a pixel
met = (3 * 16 - 1) ** 2
#<
""",
    run=run,
    truth=truth,
    source="Counted",
    hints=[
        "the window of an output at the edge of the tile reaches one pixel beyond it, on each of the four sides.",
        "in the corner of the image the halo lies in the border on two sides, above and at the left, and in the image "
        "on the other two.",
        "rows and columns can be counted apart. 16 rows of outputs with 3 rows of taps make 48 pairs. How many of "
        "these lie above the image? The number of columns is the same: multiply.",
    ],
    wrong=[
        Wrong("places = 18 * 18", "places = 16 * 16", "value", "That is the tile without its halo."),
        Wrong("places = 18 * 18", "places = 17 * 17", "value", "The halo lies on both sides: 16 + 2."),
        Wrong("places = 18 * 18", "places = 19 * 19", "value", "The window reaches one pixel on each side."),
        Wrong("places = 18 * 18", "places = 16 * 16 + 4 * 16", "value", "The halo has four corners, too."),
        Wrong("read = 17 * 17", "read = 18 * 18", "value",
              "The row above the image and the column left of it are zeros: they are nowhere in memory."),
        Wrong("read = 17 * 17", "read = 16 * 16", "value",
              "Below and at the right the halo lies in the image, and is read."),
        Wrong("met = (3 * 16 - 1) ** 2", "met = 9 * 16 * 16", "value",
              "Some taps of the first row and the first column of outputs meet the border."),
        Wrong("met = (3 * 16 - 1) ** 2", "met = (3 * 16 - 2) ** 2", "value",
              "The tile ends at two edges of the image, not at four."),
        Wrong("met = (3 * 16 - 1) ** 2", "met = 9 * 18 * 18", "value",
              "The outputs of the halo belong to other blocks: there are 16 x 16 outputs."),
        Wrong("met = (3 * 16 - 1) ** 2", "met = 9 * 17 * 17", "value",
              "A pixel at the edge of the tile is not met by all nine taps of this block."),
    ],
)  # fmt: skip
