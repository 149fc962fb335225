"""10: the size of an output, and the pixels and outputs that belong together, predicted before they are counted."""

import numpy as np

from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection, inspect
from minigrad.operators import OPS


def run() -> Inspection:
    x, w = np.ones((1, 1, 7, 10), np.float32), np.ones((1, 1, 3, 3), np.float32)
    return inspect(OPS["conv2d"]["naive"], x, w, stride=2, padding=1, blocks=9)


def truth(record: Inspection) -> dict[str, int]:
    reads = record.traffic[record.traffic["variable"] == "x"]
    rows, columns = record.variables["y"].shape[2:]
    corner, uses = np.sum(reads["thread"] == 0), np.sum(reads["element"] == 3 * 10 + 3)
    return {"rows": rows, "columns": columns, "corner": int(corner), "uses": int(uses)}


output_size = Prediction(
    "10",
    "output_size",
    task="""
**How large is the output?** An image of 7 rows and 10 columns, a window of 3 x 3, `stride=2`, `padding=1`. Predict

1. the rows and the columns of the output;
2. the pixels of the image that the output in the corner, $y_{00}$, reads;
3. the outputs that read pixel $x_{33}$, in row 3 and column 3 (both counted from 0).
""",
    solution="""
#> rows = ...  # of the output
rows = 4
#<
#> columns = ...
columns = 5
#<
#> corner = ...  # pixels that y[0,0] reads
corner = 4
#<
#> uses = ...  # outputs that read x[3,3]
uses = 4
#<
""",
    run=run,
    truth=truth,
    show=lambda record: show.terms(record),
    hints=[
        "with the border of zeros the image has 9 rows and 12 columns. The window begins in rows 0, 2, 4, ... of that, "
        "as long as all three of its rows fit.",
        "the window of y[0,0] begins one row above and one column left of the image. How many of its nine places are "
        "in the image?",
        "output p reads the rows 2 p - 1, 2 p and 2 p + 1 of the image. Which p read row 3? The columns are the same.",
    ],
    wrong=[
        Wrong("rows = 4", "rows = 3", "value", "Without the border of zeros it would be 3."),
        Wrong("rows = 4", "rows = 7", "value",
              "That is the size with stride=1: with 2, every second place is left out."),
        Wrong("columns = 5", "columns = 6", "value",
              "The padded image has 12 columns. A window that begins in column 10 of it would need column 12."),
        Wrong("columns = 5", "columns = 10", "value", "That is the size with stride=1."),
        Wrong("corner = 4", "corner = 9", "value", "Five places of the window lie in the border, and read nothing."),
        Wrong("corner = 4", "corner = 6", "value", "The window hangs over two edges at the corner, not over one."),
        Wrong("uses = 4", "uses = 9", "value", "So it would be with stride=1."),
        Wrong("uses = 4", "uses = 1", "value",
              "Pixels in even rows and columns are read once. Row 3 is in two windows."),
        Wrong("uses = 4", "uses = 2", "value", "Two rows of outputs read it, and two columns: multiply."),
    ],
)  # fmt: skip
