"""04: the sectors of four requests, from the addresses of their lanes."""

import numpy as np

from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection, inspect

KERNEL = """
extern "C" __global__ void four_reads(const float* x, const double* z, float* y) {
    int i = threadIdx.x;
    float backwards = x[31 - i];
    float shifted = x[i + 1];
    float fourth = x[4 * i];
    double doubles = z[i];
    y[i] = backwards + shifted + fourth + doubles;
}
"""


def run() -> Inspection:
    """One warp."""
    x = np.arange(128, dtype=np.float32)
    return inspect(KERNEL, x, x[:32].astype(np.float64), np.zeros(32, np.float32), grid=1, block=32)


column_sectors = Prediction(
    "04",
    "column_sectors",
    task="""
**How many sectors?** A warp reads four times. `x` holds `float` numbers of 4 bytes and `z` holds `double` numbers of 8
bytes; both begin at the beginning of a sector. Lane $i$ has `threadIdx.x` $i$, from 0 to 31. Replace the dots: how many
sectors does each request touch?
""",
    solution="""
#> backwards = ...  # x[31 - i]
backwards = 4
#<
#> shifted = ...  # x[i + 1]
shifted = 5
#<
#> fourth = ...  # x[4 * i]
fourth = 16
#<
#> doubles = ...  # z[i]
doubles = 8
#<
""",
    run=run,
    show=lambda record: show.sectors(record),
    truth=lambda record: {
        name: int(line.sectors_per_request)
        for name, line in zip(("backwards", "shifted", "fourth", "doubles"), record.lines, strict=False)
    },
    hints=[
        "a sector is 32 bytes: 8 numbers of 4 bytes. Numbers 0 to 7 are in the first sector, 8 to 15 in the second.",
        "the order of the lanes does not matter. Write down the first and the last number that the warp asks for, and "
        "ask which sectors between them are touched.",
        "x[i + 1] asks for the numbers 1 to 32: seven of the first sector, and one of the fifth. x[4 * i] finds two of "
        "its numbers in each sector that it touches. How many doubles fill a sector?",
    ],
    wrong=[
        Wrong("backwards = 4", "backwards = 32", "value",
              "The lanes ask for the numbers 31 to 0: those fill 4 sectors, whichever lane asks for which."),
        Wrong("shifted = 5", "shifted = 4", "value",
              "32 numbers would fill 4 sectors if the first one began a sector. Number 1 is the second of its sector, "
              "so number 32 is in a fifth."),
        Wrong("fourth = 16", "fourth = 32", "value",
              "Numbers 0 and 4 lie in one sector, 8 and 12 in the next: two lanes share each sector."),
        Wrong("fourth = 16", "fourth = 4", "value",
              "The warp asks for 32 numbers, but they are spread over 125 places in memory."),
        Wrong("fourth = 16", "fourth = 8", "value",
              "A sector holds 8 numbers, and lanes are 4 numbers apart: two lanes share a sector."),
        Wrong("doubles = 8", "doubles = 4", "value", "A double takes 8 bytes, so only four of them fit in a sector."),
    ],
)  # fmt: skip
