"""14: how much faster a layer gets if only a part of its work is spread over CPU cores."""

import numpy as np

from minigrad.lab.exercises import Prediction, Wrong
from minigrad.operators import OPS

INPUTS, HIDDEN, STEPS, CORES = 256, 512, 100, 4


def measure() -> dict[str, int]:
    """The FLOPs of the products with x and with h of all steps, as the op counts them."""
    sizes = {"x": INPUTS, "h": HIDDEN}
    return {
        name: STEPS * OPS["matmul"].cost(np.empty((1, n), np.float32), np.empty((n, HIDDEN), np.float32))[0]
        for name, n in sizes.items()
    }


def truth(flops: dict[str, int]) -> dict[str, float]:
    share = flops["h"] / (flops["h"] + flops["x"])
    return {"share": share, "four": 1 / (share + (1 - share) / CORES), "most": 1 / share}


amdahl = Prediction(
    "14",
    "amdahl",
    task=r"""
**Only the product with x is spread.** An Elman layer has 256 inputs and 512 units, and reads one sequence of 100 steps.
Count the multiplications of its two products alone, and say that each takes the same time. The products with $x$ of
all steps are spread evenly over the CPU cores, and the products with $h$ stay on one of them, step by step. Predict

1. the share of the multiplications that is not spread;
2. how many times as fast the layer gets with 4 CPU cores;
3. the most that any number of CPU cores can give.
""",
    solution="""
#> share = ...  # of the multiplications, those with h
share = 512 / (256 + 512)
#<
#> four = ...  # times as fast with 4 CPU cores
four = 1 / (2 / 3 + 1 / 3 / 4)
#<
#> most = ...  # times as fast with as many as you like
most = 1 / (2 / 3)
#<
""",
    hints=[
        "a step multiplies a matrix of 512 x 256 by x, and one of 512 x 512 by h. The number of steps cancels.",
        "call the share s. With n CPU cores the time is s + (1 - s) / n of what it was.",
        "with very many CPU cores (1 - s) / n is next to nothing, and s is left of the time.",
    ],
    wrong=[
        Wrong("share = 512 / (256 + 512)", "share = 256 / (256 + 512)", "value",
              "That is the share of the products with x, which is spread. The share of h is the rest."),
        Wrong("share = 512 / (256 + 512)", "share = 1 / 2", "value",
              "The two matrices differ in size: W_ih has 256 columns, and W_hh has 512."),
        Wrong("share = 512 / (256 + 512)", "share = 512 * 512", "value",
              "That is a number of multiplications. Divide it by that of both products."),
        Wrong("four = 1 / (2 / 3 + 1 / 3 / 4)", "four = 4", "value",
              "All of the work would have to be spread for that. Two thirds of it stay on one CPU core."),
        Wrong("four = 1 / (2 / 3 + 1 / 3 / 4)", "four = 2 / 3 + 1 / 3 / 4", "value",
              "That is the time that is left. The speed-up is 1 divided by it."),
        Wrong("four = 1 / (2 / 3 + 1 / 3 / 4)", "four = 1 / (1 / 3 + 2 / 3 / 4)", "value",
              "The shares are exchanged: what is divided by 4 is the part that is spread, one third."),
        Wrong("most = 1 / (2 / 3)", "most = 3", "value",
              "1 / share: here the share that is not spread is two thirds, and not one."),
    ],
    run=measure,
    truth=truth,
    source="Counted",
)  # fmt: skip
