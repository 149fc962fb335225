"""13: the numbers that a small GPT learns, predicted by part."""

from minigrad import nn
from minigrad.lab.exercises import Prediction, Wrong

WORDS, LENGTH, WIDTH = 10, 16, 32


def run() -> dict[str, int]:
    """The numbers of the parts of a model."""
    model = nn.gpt(words=WORDS, length=LENGTH, width=WIDTH, heads=4, layers=2, device="numpy")
    parts = {"table": model.wte, "attention": model.h.parts[0].attn, "mlp": model.h.parts[0].mlp}
    return {name: sum(p.size for p in part.parameters()) for name, part in parts.items()}


gpt_numbers = Prediction(
    "13",
    "gpt_numbers",
    task="""
**Count before you train.** A model with 10 words, a width of 32, 4 heads and 2 blocks. Predict how many numbers it
learns

1. in the table of words, `wte`;
2. in the attention of one block: `c_attn` makes queries, keys and values, `c_proj` mixes the heads. Both have a bias;
3. in the MLP of one block, which is four times as wide inside. Both layers have a bias.
""",
    solution="""
#> table = ...
table = 10 * 32
#<
#> attention = ...  # of one block
attention = 4 * 32 * 32 + 4 * 32
#<
#> mlp = ...  # of one block
mlp = 8 * 32 * 32 + 5 * 32
#<
""",
    hints=[
        "a row of `width` numbers for each word.",
        "c_attn is a matrix of 32 x 96 and a bias of 96, c_proj one of 32 x 32 and a bias of 32.",
        "the two matrices of the MLP are 32 x 128 and 128 x 32. Their biases have 128 and 32 numbers.",
    ],
    wrong=[
        Wrong("table = 10 * 32", "table = 16 * 32", "value", "16 is the length. The table of words has 10 rows."),
        Wrong("attention = 4 * 32 * 32 + 4 * 32", "attention = 3 * 32 * 32 + 3 * 32", "value",
              "That is c_attn alone. c_proj is a fourth matrix."),
        Wrong("attention = 4 * 32 * 32 + 4 * 32", "attention = 4 * 32 * 32", "value", "The biases are missing."),
        Wrong("attention = 4 * 32 * 32 + 4 * 32", "attention = 4 * (4 * 32 * 32 + 4 * 32)", "value",
              "The heads share the width: each works on 8 of the 32 numbers. Their count changes nothing."),
        Wrong("mlp = 8 * 32 * 32 + 5 * 32", "mlp = 8 * 32 * 32", "value", "The biases are missing: 128 + 32 numbers."),
        Wrong("mlp = 8 * 32 * 32 + 5 * 32", "mlp = 4 * 32 * 32 + 4 * 32", "value",
              "That is the first layer. The second one leads back from 128 to 32."),
    ],
    run=run,
    truth=lambda found: found,
    source="Counted",
)  # fmt: skip
