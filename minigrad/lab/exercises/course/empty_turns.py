"""07b: how full the last turn of a kernel with one block on each multiprocessor is."""

from minigrad.lab.exercises import Prediction, Wrong
from minigrad.operators import OPS

SIDE, ROWS, COLUMNS = 3072, 128, 256


def run() -> list[int]:
    """The tiles of each block, which takes every tile that is a whole number of grids after its first one."""
    blocks = OPS["matmul"]["wgmma"].launch(SIDE, SIDE, SIDE, processors=132).grid[0]
    tiles = (SIDE // ROWS) * (SIDE // COLUMNS)
    return [len(range(block, tiles, blocks)) for block in range(blocks)]


empty_turns = Prediction(
    "07b",
    "empty_turns",
    task=r"""
**The last turn.** `matmul_wgmma` with `COLUMNS=256` multiplies two matrices of 3072 x 3072, in tiles of 128 x 256
elements of $c$. An H200 has 132 multiprocessors, with one block each. A block takes one tile after another: in each
*turn* every block makes a tile, as long as there are tiles left. Predict

1. the tiles of $c$;
2. the turns of the block that has the most tiles;
3. the share of all places for tiles, 132 in each turn, that are filled: a quotient, or three digits.
""",
    solution="""
#> tiles = ...
tiles = (3072 // 128) * (3072 // 256)
#<
#> turns = ...
turns = 3
#<
#> filled = ...  # between 0 and 1
filled = 288 / (3 * 132)
#<
""",
    run=run,
    truth=lambda taken: {"tiles": sum(taken), "turns": max(taken), "filled": sum(taken) / (max(taken) * len(taken))},
    hints=[
        "3072 / 128 tiles below each other, and 3072 / 256 side by side.",
        "in a turn 132 tiles are made. The last turn has the rest, and lasts as long as a full one.",
        "288 tiles: two turns make 264 of them, and a third one the other 24. The places are 3 times 132.",
    ],
    wrong=[
        Wrong("tiles = (3072 // 128) * (3072 // 256)", "tiles = (3072 // 128) * (3072 // 128)", "value",
              "A tile is 128 rows high and 256 columns wide."),
        Wrong("tiles = (3072 // 128) * (3072 // 256)", "tiles = 3072 // 128 + 3072 // 256", "value",
              "Rows of tiles times columns of tiles."),
        Wrong("turns = 3", "turns = 2", "value", "Two turns make 264 tiles. The other 24 take a turn of their own."),
        Wrong("turns = 3", "turns = 288 / 132", "value",
              "A block makes whole tiles. While some make their third, the others have nothing to do."),
        Wrong("turns = 3", "turns = 2.18", "value",
              "A block makes whole tiles. While some make their third, the others have nothing to do."),
        Wrong("turns = 3", "turns = 4", "value", "That is the number for 4096 x 4096, with 512 tiles."),
        Wrong("filled = 288 / (3 * 132)", "filled = 24 / 132", "value",
              "That is the last turn alone. The first two are full."),
        Wrong("filled = 288 / (3 * 132)", "filled = 512 / (4 * 132)", "value", "That is the share for 4096 x 4096."),
        Wrong("filled = 288 / (3 * 132)", "filled = 3 * 132 / 288", "value",
              "Filled places over all places: a number below 1."),
    ],
)  # fmt: skip
