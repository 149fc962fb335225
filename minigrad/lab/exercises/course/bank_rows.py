"""04: the wavefronts that reading a column takes, from the length of a row."""

import numpy as np

from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection, inspect

KERNEL = """
extern "C" __global__ void columns(float* y) {
    __shared__ float rows_34[32][34], rows_36[32][36], rows_47[32][47], rows_48[32][48];
    int i = threadIdx.x;
    rows_34[i][0] = rows_36[i][0] = rows_47[i][0] = rows_48[i][0] = i;
    y[i] = rows_34[i][0] + rows_36[i][0] + rows_47[i][0] + rows_48[i][0];
}
"""
READS = KERNEL[: KERNEL.index("y[i] =")].count("\n") + 1  # the line of the four


def run() -> Inspection:
    """One warp reads column 0 of each array."""
    return inspect(KERNEL, np.zeros(32, np.float32), grid=1, block=32)


bank_rows = Prediction(
    "04",
    "bank_rows",
    task="""
**How much padding?** Four shared arrays of `float` have 32 rows of 34, 36, 47 and 48 numbers. Lane $i$ of a warp reads
the first number of row $i$. Replace the dots: how many wavefronts does it take in each array?
""",
    solution="""
#> rows_34 = ...
rows_34 = 2
#<
#> rows_36 = ...
rows_36 = 4
#<
#> rows_47 = ...
rows_47 = 1
#<
#> rows_48 = ...
rows_48 = 16
#<
""",
    run=run,
    truth=lambda record: {
        line.variable: int(line.wavefronts_per_request)
        for line in record.lines
        if line.kind == "read" and line.space == "shared"
    },
    show=lambda record: show.banks(record, READS),
    hints=[
        "row i begins at number i * 34, and number k lies in bank k % 32. Which banks do lanes 0, 1, 2, 3 want?",
        "print(np.arange(32) * 34 % 32) shows the bank of each lane. A bank serves as many times as it occurs: "
        "count the most frequent one.",
        "a row of 36 moves 4 banks on with each lane, so after 8 lanes it is back at bank 0: 32 lanes share 8 banks. "
        "The other three go in the same way.",
    ],
    wrong=[
        Wrong("rows_34 = 2", "rows_34 = 1", "value",
              "Two banks further with each lane: after 16 lanes it is bank 0 again, so two lanes share each bank."),
        Wrong("rows_34 = 2", "rows_34 = 16", "value",
              "16 banks are in use, and each of them serves two lanes: that takes two wavefronts."),
        Wrong("rows_36 = 4", "rows_36 = 1", "value",
              "Not every padding helps: 36 is a multiple of 4, so only the banks 0, 4, 8, ... are asked."),
        Wrong("rows_36 = 4", "rows_36 = 8", "value", "8 banks are in use, and each of them serves 32 / 8 lanes."),
        Wrong("rows_47 = 1", "rows_47 = 15", "value",
              "47 is odd. Fifteen banks further with each lane visits every bank once before bank 0 comes again."),
        Wrong("rows_47 = 1", "rows_47 = 2", "value",
              "47 is odd, so 16 lanes further it is bank 16 and not bank 0 again: no two lanes share a bank."),
        Wrong("rows_47 = 1", "rows_47 = 16", "value",
              "A row of 48 would do that: its banks are 0 and 16 alone. 47 is odd, so all 32 banks are in use."),
        Wrong("rows_48 = 16", "rows_48 = 1", "value",
              "48 is 32 + 16: the banks are 0, 16, 0, 16, ... More padding than one number can be worse."),
        Wrong("rows_48 = 16", "rows_48 = 2", "value", "2 banks are in use, and each of them serves 16 lanes."),
    ],
)  # fmt: skip
