"""07: the loads of a register tile, which follow from its two sides."""

from typing import TYPE_CHECKING

from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong

if TYPE_CHECKING:
    from minigrad.lab.show.matmul_ladder import RungCounts

TILES = {"EDGE": 64, "EACH": 4}


def run() -> "RungCounts | None":
    from minigrad.lab.show.matmul_ladder import counted  # which imports matplotlib

    return counted("register_tile_2d", **TILES)


register_loads = Prediction(
    "07",
    "register_loads",
    task=r"""
**A smaller register tile.** `register_tile_2d` with `EDGE=64` and `EACH=4`: a thread makes 4 x 4 elements of $c$, and
a block makes 64 x 64. Predict

1. the loads from shared memory for each multiplication;
2. the FLOPs for each byte that the block's loads from global memory ask for, before the caches.
""",
    solution="""
#> loads = ...  # from shared memory, for each multiplication
loads = 8 / 16
#<
#> flops_per_byte = ...
flops_per_byte = 64 / 4
#<
""",
    run=run,
    truth=lambda counts: {"loads": counts.shared_loads, "flops_per_byte": counts.intensity},
    show=lambda counts: show.rung("register_tile_2d", **TILES),
    hints=[
        "for one step of the sum a thread takes one number of a for each of its rows, and one of b for each of its "
        "columns. How many are these, and how many products does it make of them?",
        "a tile that is E wide gives E / 4 FLOPs for each byte: the formula at the top of the page. Which E is it, "
        "that "
        "of the thread or that of the block?",
    ],
    wrong=[
        Wrong("loads = 8 / 16", "loads = 16 / 64", "value",
              "That is the tile of 8 x 8: 16 loads for 64 multiplications. Here there are 4 and 4 for 4 x 4."),
        Wrong("loads = 8 / 16", "loads = 2", "value", "Each number is used 4 times once it is in a register."),
        Wrong("loads = 8 / 16", "loads = 4 / 16", "value", "4 numbers of a, and 4 of b as well: 8 loads."),
        Wrong("loads = 8 / 16", "loads = 5 / 4", "value",
              "That is a column of 4 elements: 4 + 1 loads for 4 multiplications. A square uses those of a 4 times, "
              "too."),
        Wrong("loads = 8 / 16", "loads = 16 / 8", "value", "Loads for each multiplication: 8 over 16, not 16 over 8."),
        Wrong("flops_per_byte = 64 / 4", "flops_per_byte = 4 / 4", "value",
              "It is the block that asks global memory, and its tile is 64 wide."),
        Wrong("flops_per_byte = 64 / 4", "flops_per_byte = 64 / 8", "value",
              "E / 8 counts the multiplications alone. Each comes with an addition."),
        Wrong("flops_per_byte = 64 / 4", "flops_per_byte = 128 / 4", "value",
              "128 is the tile of the rung in the table."),
        Wrong("flops_per_byte = 64 / 4", "flops_per_byte = 64", "value",
              "A number is 4 bytes: E / 4. Of a tile of E x E, 2 E E FLOPs come from 2 E numbers."),
    ],
)  # fmt: skip
