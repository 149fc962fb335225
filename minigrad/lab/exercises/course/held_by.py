"""07b: which element of the result of a tensor core instruction a lane holds."""

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong

CASES = [(lane, i) for lane in (0, 1, 3, 4, 17, 31) for i in range(4)]


def truth(lane: int, i: int) -> tuple[int, int]:
    """By counting through the piece as the lanes hold it: 8 rows of 4 lanes with a pair each, then the rows below."""
    cells = [[(row % 8 * 4 + column // 2, row // 8 * 2 + column % 2) for column in range(8)] for row in range(16)]
    rows, columns = np.nonzero((np.array(cells) == (lane, i)).all(-1))
    return int(rows[0]), int(columns[0])


held_by = PythonExercise(
    "07b",
    task=r"""
**Who holds what?** The result of one `mma.sync` is a piece of $c$ with 16 rows and 8 columns: 128 numbers, 4 for each
of the 32 lanes. NVIDIA's manual says where they are:

* the upper 8 rows belong to the lanes in order, four lanes to a row, and each lane has two neighbors: numbers 0 and
  1;
* the lower 8 rows are the same again: numbers 2 and 3.

So lane 0 has row 0, columns 0 and 1, and row 8, columns 0 and 1. Lane 5 has row 1, columns 2 and 3, and row 9,
columns 2 and 3. Write the row and the column of number `i` of a lane.
""",
    solution="""
def held_by(lane, i):
    #> row, column = 0, 0  # <- your code
    row = lane // 4 + 8 * (i // 2)
    column = 2 * (lane % 4) + i % 2
    #<
    return row, column
""",
    hints=[
        "four lanes to a row: lanes 0 to 3 are row 0, lanes 4 to 7 row 1. Which operation makes 0, 0, 0, 0, 1, 1, 1, "
        "1 of "
        "0, 1, 2, ...?",
        "within a row the lanes 0 to 3 begin at the columns 0, 2, 4 and 6. i % 2 is the place in the pair, and i // "
        "2 is 0 "
        "for the upper rows and 1 for the lower ones.",
    ],
    wrong=[
        Wrong("8 * (i // 2)\n    column = 2 * (lane % 4) + i % 2", "8 * (i % 2)\n    column = 2 * (lane % 4) + i // 2",
              "value", "i % 2 and i // 2 have changed places: numbers 0 and 1 are neighbors in a row, 2 and 3 are "
              "8 rows below."),
        Wrong("lane // 4 +", "lane // 8 +", "value", "Four lanes to a row, with two numbers each: 8 columns."),
        Wrong("lane // 4 +", "lane % 4 +", "value", "lane % 4 is the place in the row; the row is lane // 4."),
        Wrong("8 * (i // 2)", "8 * (i % 2)", "value",
              "Numbers 0 and 1 are neighbors in a row; 2 and 3 are 8 rows below."),
        Wrong("8 * (i // 2)", "i // 2", "value", "The second pair is 8 rows below the first."),
        Wrong("2 * (lane % 4) +", "lane % 4 +", "value",
              "Each lane has two columns, so the next one begins 2 further on."),
        Wrong("return row, column", "return column, row", "value", "The row comes first: return row, column."),
        Wrong("+ i % 2", "+ i // 2", "value", "The place in the pair is i % 2."),
        Wrong(" + i % 2", "", "value", "The two numbers of a pair are neighbors: their columns differ."),
    ],
    truth=truth,
    given=("lane", "number"),
    parts=("row", "column"),
    cases=CASES,
)  # fmt: skip
