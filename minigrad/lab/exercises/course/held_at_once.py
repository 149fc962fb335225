"""08: a block on a multiprocessor, predicted: the limit of each resource, the blocks held, the occupancy."""

from minigrad.lab.exercises import Prediction, Wrong
from minigrad.lab.exercises.course.blocks_held import H200
from minigrad.lab.tune.occupancy import Occupancy

held_at_once = Prediction(
    "08",
    "held_at_once",
    task="""
**How full is the multiprocessor?** A kernel has blocks of 192 threads, and each thread uses 40 registers. It uses no
shared memory. Take the table above.

How many blocks would fit if warps were the only limit? How many if registers were the only one? How many does the
multiprocessor hold, and what is the occupancy in percent?
""",
    solution="""
#> by_warps = ...
by_warps = 64 // 6
#<
#> by_registers = ...
by_registers = 65536 // (6 * 32 * 40)
#<
#> held = ...
held = min(by_warps, by_registers, 32)
#<
#> occupancy = ...  # percent
occupancy = 100 * held * 6 / 64
#<
""",
    hints=[
        "How many warps are 192 threads? That is what one block takes of the 64.",
        "The registers of a block: its threads times the registers of each. How many times does that fit into 65536?",
        "The smallest of all limits is held. The occupancy counts the warps that they bring, out of 64.",
    ],
    wrong=[
        Wrong("64 // 6", "64 / 6", "value", "Blocks are whole: a multiprocessor takes a block or it does not."),
        Wrong("64 // 6", "64", "value", "64 is the number of warps. A block of 192 threads has 6 of them."),
        Wrong("64 // 6", "round(64 / 6)", "value", "An eleventh block would lack two of its six warps: round down."),
        Wrong("65536 // (6 * 32 * 40)", "round(65536 / (6 * 32 * 40))", "value",
              "A ninth block would lack a part of its registers, and does not start: round down."),
        Wrong("65536 // (6 * 32 * 40)", "65536 // (6 * 32)", "value", "Each of the 192 threads takes 40 registers."),
        Wrong("65536 // (6 * 32 * 40)", "65536 // (6 * 40)", "value",
              "Registers belong to threads, and a warp has 32 of them."),
        Wrong("min(by_warps, by_registers, 32)", "max(by_warps, by_registers)", "value",
              "A block needs all that it needs: whatever runs out first is the limit."),
        Wrong("min(by_warps, by_registers, 32)", "32", "value",
              "32 blocks is the most in any case. Here warps or registers run out before."),
        Wrong("100 * held * 6 / 64", "held * 6 / 64", "value",
              "That is a part of 1. In percent it is 100 times that."),
        Wrong("100 * held * 6 / 64", "100 * held / 32", "value",
              "Occupancy counts warps, not blocks: those that are there, out of 64."),
    ],
    run=lambda: Occupancy("kernel", 1056, 192, 40, 0, H200),
    truth=lambda seen: {
        "by_warps": seen.limits["warps"], "by_registers": seen.limits["registers"], "held": seen.blocks,
        "occupancy": 100 * seen.share,
    },
    show=lambda seen: seen,
    source="Calculated",
)  # fmt: skip
