"""13: the FLOPs of a training step for each word, predicted from the number of weights."""

import numpy as np

from minigrad.lab.exercises import Prediction, Wrong
from minigrad.operators import OPS

PLACES, WIDTH, BATCH = 1024, 768, 4


def run() -> dict[str, float]:
    """FLOPs by the ops' own counts, of one layer and of the attention of a block."""
    x, w = np.empty((BATCH * PLACES, WIDTH), np.float32), np.empty((WIDTH, 4 * WIDTH), np.float32)
    flops, _ = OPS["matmul"].cost(x, w)
    heads = np.empty((BATCH, 12, PLACES, 64), np.float32)
    attention, _ = OPS["attention"].cost(heads, heads, heads)
    return {"forward": flops / (BATCH * PLACES), "attention": attention / flops}


step_flops = Prediction(
    "13",
    "step_flops",
    task="""
**Six FLOPs for each weight.** GPT-2 has a layer from 768 to 3072 numbers, `c_fc`, in every block. A batch has 4 texts
of 1024 words. A multiplication and an addition are two FLOPs. Predict

1. the FLOPs of this layer for one word, on the way forward;
2. the FLOPs of this layer for one word in a whole training step, as a multiple of those of the way forward;
3. the FLOPs of the attention of a block, the scores and the sums of values without a mask, as a multiple of those of
   this layer, both forward. An error of 5 % is allowed, so leave the softmax out.
""",
    solution="""
#> forward = ...  # FLOPs of a word
forward = 2 * 768 * 3072
#<
#> step = ...  # whole step / forward
step = 3
#<
#> attention = ...  # attention of a block / this layer
attention = 4 * 1024 * 768 / (2 * 768 * 3072)
#<
""",
    hints=[
        "each of 768 x 3072 weights is multiplied once for each word, and the product is added.",
        "on the way back there are two products of the same size: one for dx and one for dw.",
        "a query meets 1024 keys. With each of them it has a product over 64 numbers in each of 12 heads, and so it is "
        "for the values: 2 products, 2 FLOPs, 1024 keys, 768 numbers.",
    ],
    wrong=[
        Wrong("forward = 2 * 768 * 3072", "forward = 768 * 3072", "value",
              "A multiplication and an addition are two FLOPs."),
        Wrong("step = 3", "step = 2", "value", "The way back has two products, for dx and for dw: 1 + 2."),
        Wrong("step = 3", "step = 6", "value",
              "Six FLOPs for each weight are the whole step, and two of them are the way forward."),
        Wrong("attention = 4 * 1024 * 768 /", "attention = 2 * 1024 * 768 /", "value",
              "There are two products, q k and p v: as many FLOPs again."),
        Wrong("attention = 4 * 1024 * 768 /", "attention = 4 * 1024 * 64 /", "value",
              "64 is the width of one head. There are 12 of them."),
        Wrong("attention = 4 * 1024 * 768 /", "attention = 4 * 4 * 1024 * 768 /", "value",
              "A word attends to the 1024 words of its own text, and not to those of the other three."),
    ],
    run=run,
    truth=lambda found: {"forward": int(found["forward"]), "step": 3, "attention": found["attention"]},
    rtol=0.05,
    source="Counted",
)  # fmt: skip
