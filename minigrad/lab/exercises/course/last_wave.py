"""08: the waves of a tiled matrix product, predicted, and the blocks of the last one."""

from minigrad.lab.bench.record import newest
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.lab.tune.occupancy import Occupancy
from minigrad.ops.matmul import matmul


def product() -> Occupancy:
    """The tiled product of two 1500 x 1500 matrices with TILE=32 on an H200, with the registers that nvcc gave it."""
    record = newest("NVIDIA H200")
    assert record and record.chip
    registers, shared, _ = record.resources["matmul_tiled TILE=32"]
    launch = matmul["tiled"].launch(1500, 1500, 1500, TILE=32)
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2]
    return Occupancy("matmul_tiled", blocks, 32 * 32, registers, shared, record.chip)


last_wave = Prediction(
    "08",
    "last_wave",
    task="""
**What is left for the last wave?** Two matrices of 1500 x 1500 are multiplied by tiles of 32 x 32. Each block makes one
tile of the result. On the H200 each of the 132 multiprocessors holds 2 such blocks.

How many blocks does the grid have? How many waves must start until all of them are done, and how many blocks are left
for the last one?
""",
    solution="""
#> blocks = ...
blocks = 47 * 47
#<
#> waves = ...  # a whole number: started waves count
waves = -(-blocks // 264)
#<
#> last = ...  # blocks of the last wave
last = blocks % 264
#<
""",
    hints=[
        "A row of the result has 1500 numbers, and 32 of them are in a tile. The last tile of a row is not full, and "
        "it needs a block as well.",
        "A full wave is what all multiprocessors hold at once: 132 times 2 blocks.",
        "Round up to whole waves. All but the last one are full: what is left of the grid when they are done?",
    ],
    wrong=[
        Wrong("47 * 47", "46 * 46", "value",
              "1500 / 32 is 46.9: the tile at the edge is not full, but it needs a block."),
        Wrong("47 * 47", "1500 * 1500 // 1024", "value",
              "Tiles do not cross the edge of the matrix: round up along each side, then multiply."),
        Wrong("47 * 47", "47", "value", "That is one row of tiles. The result has as many rows of them as columns."),
        Wrong("-(-blocks // 264)", "blocks // 264", "value",
              "The blocks that are left start a wave of their own: round up."),
        Wrong("-(-blocks // 264)", "blocks / 264", "value", "A wave that has started counts as one: round up."),
        Wrong("-(-blocks // 264)", "-(-blocks // 132)", "value", "Each multiprocessor holds 2 blocks at once, not 1."),
        Wrong("blocks % 264", "blocks / 264 % 1", "value", "That is the part of a wave. How many blocks is it?"),
        Wrong("blocks % 264", "264 - blocks % 264", "value", "These are the places that the last wave leaves empty."),
        Wrong("blocks % 264", "264", "value",
              "That would be a full wave. Take away the blocks that the waves before have done."),
    ],
    run=product,
    truth=lambda seen: {
        "blocks": seen.grid, "waves": -int(-seen.waves // 1),
        "last": round(seen.tail * seen.chip.sms * seen.blocks),
    },
    show=lambda seen: seen,
    source="Calculated",
)  # fmt: skip
