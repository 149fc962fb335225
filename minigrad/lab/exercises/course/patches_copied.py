"""10: the numbers that im2col writes, and the zeros among them, predicted before they are counted."""

import numpy as np

from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection, inspect
from minigrad.operators import OPS


def run() -> Inspection:
    x, w = np.ones((1, 4, 12, 12), np.float32), np.ones((8, 4, 3, 3), np.float32)
    return inspect(OPS["conv2d"]["im2col"], x, w, padding=1, blocks=99)


def truth(record: Inspection) -> dict[str, int]:
    reads = int(np.count_nonzero(record.traffic["kind"] == "read"))
    written = int(np.count_nonzero(record.traffic["kind"] == "write"))
    return {"written": written, "zeros": written - reads}


patches_copied = Prediction(
    "10",
    "patches_copied",
    task="""
**How much does im2col write?** One image with 4 channels of 12 x 12, eight windows of 4 x 3 x 3, `padding=1`. So there
are 12 x 12 places of the window. Predict

1. the numbers that the kernel `im2col` writes;
2. how many of them are the zeros of the border. (Count them for one channel and one place of the window at a time:
   for the place in the middle there are none.)
""",
    solution="""
#> written = ...  # numbers in the matrix of patches
written = 4 * 9 * 144
#<
#> zeros = ...  # of them from the border
zeros = 4 * (9 * 144 - 34 * 34)
#<
""",
    run=run,
    truth=truth,
    hints=[
        "a row of the matrix for each number of a window, a column for each place of the window. The eight windows "
        "share the matrix.",
        "the place above the middle meets the border in the first row of places: 12 zeros. The places below, left and "
        "right of the middle are the same.",
        "a corner of the window meets the border along a row and along a column: 12 + 12 - 1 zeros. Add up over four "
        "corners, four sides and the middle, and multiply by the channels.",
    ],
    wrong=[
        Wrong("written = 4 * 9 * 144", "written = 4 * 144", "value",
              "That is the image itself: nearly every pixel is copied nine times."),
        Wrong("written = 4 * 9 * 144", "written = 9 * 144", "value", "There are 4 channels."),
        Wrong("written = 4 * 9 * 144", "written = 8 * 4 * 9 * 144", "value",
              "The eight windows use the same patches: they are written once."),
        Wrong("written = 4 * 9 * 144", "written = 4 * 9 * 100", "value",
              "With padding=1 there are as many places as pixels: 12 x 12."),
        Wrong("zeros = 4 * (9 * 144 - 34 * 34)", "zeros = 4 * (14 * 14 - 144)", "value",
              "That is the border itself. Most of its zeros are copied, too, more than once."),
        Wrong("zeros = 4 * (9 * 144 - 34 * 34)", "zeros = 9 * 144 - 34 * 34", "value",
              "So many for each of 4 channels."),
        Wrong("zeros = 4 * (9 * 144 - 34 * 34)", "zeros = 4 * 8 * 12", "value",
              "A corner of the window meets the border along a row and along a column."),
    ],
)  # fmt: skip
