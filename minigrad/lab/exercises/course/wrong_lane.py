"""07b: an index map of a tensor core's first factor in which two halves are exchanged."""

from minigrad.lab.exercises import PythonExercise, Wrong

CORNERS = ((0, 0), (8, 0), (0, 8), (8, 8))  # of the quarter that each register of a lane belongs to
CASES = [(lane, i) for lane in (0, 2, 5, 31) for i in range(8)]


def truth(lane: int, i: int) -> tuple[int, int]:
    """By quarters: register i / 2 is of one quarter, of which each lane has a pair in row lane / 4."""
    top, left = CORNERS[i // 2]
    row, column = divmod(2 * lane + i % 2, 8)
    return top + row, left + column


wrong_lane = PythonExercise(
    "07b",
    task=r"""
**Every element exactly once, and still wrong.** The first factor of `mma.sync` is a piece of $a$ with 16 rows and 16
columns of bfloat16: 8 numbers for each lane, two in each of 4 registers. Each register belongs to a quarter of 8 x 8.
In a quarter, four lanes share a row, with a pair of neighbors each. The registers follow each other *down first*:

| register | 0 | 1 | 2 | 3 |
|---|---|---|---|---|
| quarter | upper left | lower left | upper right | lower right |

The author of this map tested that all 256 elements occur, each exactly once. They do. The products were wrong. Mend
it.
""",
    solution="""
def wrong_lane(lane, i):
    group, pair = divmod(lane, 4)
    register, half = divmod(i, 2)
    #> lower, right = divmod(register, 2)
    right, lower = divmod(register, 2)
    #<
    return group + 8 * lower, 2 * pair + half + 8 * right
""",
    bug=True,
    hints=[
        "call it for lane 0 and i from 0 to 7, and write the eight elements on paper. In which quarter is each pair?",
        "numbers 2 and 3 are in register 1. The table says lower left: 8 rows further down, and no columns to the "
        "right.",
        "divmod(a, b) gives a // b and a % b. Down first: the register's last bit, register % 2, moves down, and the "
        "other one, register // 2, to the right.",
    ],
    wrong=[
        Wrong("8 * lower", "8 * right", "value",
              "Both halves follow the same bit now: registers 0 and 1 would be of one quarter."),
        Wrong("8 * right", "8 * lower", "value",
              "Both halves follow the same bit now: registers 0 and 2 would be of one quarter."),
        Wrong("divmod(lane, 4)", "divmod(lane, 8)", "value", "Four lanes share a row: that line was right."),
        Wrong("2 * pair + half", "pair + 4 * half", "value",
              "The numbers of a pair are neighbors: that part was right."),
        Wrong("8 * right", "4 * right", "value", "A quarter is 8 columns wide."),
        Wrong("register, half = divmod(i, 2)", "half, register = divmod(i, 4)", "value",
              "Numbers 0 and 1 are the two halves of register 0: that line was right."),
    ],
    truth=truth,
    given=("lane", "number"),
    parts=("row", "column"),
    cases=CASES,
)  # fmt: skip
