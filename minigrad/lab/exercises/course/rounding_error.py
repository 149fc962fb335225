"""07b: the largest error of rounding to TF32 and to bfloat16."""

import numpy as np

from minigrad.lab.exercises import Prediction, Wrong
from minigrad.rounding import rounded


def run() -> dict[str, float]:
    """The largest error of each kind, relative to the number, over many numbers from 1 to 2."""
    x = np.linspace(1, 2, 1 << 20, dtype=np.float32)
    exact = x.astype(np.float64)
    return {kind: float((abs(rounded(x, kind) - exact) / exact).max()) for kind in ("tf32", "bf16")}


rounding_error = Prediction(
    "07b",
    "rounding_error",
    task=r"""
**How wrong can it be?** TF32 keeps 10 bits after the point, and bfloat16 keeps 7. A number is rounded to the *nearest*
one that is left. How large is the error at most, as a part of the number? Numbers from 1 to 2 are tried, a million of
them. Write a power of two: `2**-5` is 1/32. It is right within one part in a hundred.
""",
    solution="""
#> tf32 = ...  # the largest |rounded - x| / x
tf32 = 2**-11
#<
#> bf16 = ...
bf16 = 2**-8
#<
""",
    run=run,
    truth=lambda errors: {"tf32": errors["tf32"], "bf16": errors["bf16"]},
    rtol=0.01,
    hints=[
        "between 1 and 2, numbers with 2 bits after the point are 1/4 apart: 1, 1.25, 1.5, 1.75, 2. How far from the "
        "nearest of them can a number be?",
        "with 10 bits they are 2**-10 apart, and the nearest one is at most half of that away.",
    ],
    wrong=[
        Wrong("tf32 = 2**-11", "tf32 = 2**-10", "value",
              "That is how far apart the numbers are. The nearest of them is at most half as far away."),
        Wrong("tf32 = 2**-11", "tf32 = 2**-13", "value", "13 bits are cut off; it is the 10 that remain that count."),
        Wrong("tf32 = 2**-11", "tf32 = 2**-24", "value", "That is the error of float32, with 23 bits."),
        Wrong("tf32 = 2**-11", "tf32 = 10 / 23", "value", "Each bit halves the distance: a power of two."),
        Wrong("bf16 = 2**-8", "bf16 = 2**-7", "value",
              "That is how far apart the numbers are. The nearest of them is at most half as far away."),
        Wrong("bf16 = 2**-8", "bf16 = 2**-16", "value", "16 bits are cut off; it is the 7 that remain that count."),
        Wrong("bf16 = 2**-8", "bf16 = 2**-11", "value",
              "bfloat16 has three bits less than TF32: an error 8 times as large."),
    ],
)  # fmt: skip
