"""10b: the taps of a window that meet the rows of one parity, where the window moves by more than one row."""

from minigrad.lab.exercises import PythonExercise, Wrong

CASES = [(0, 2, 1, 3), (1, 2, 1, 3), (0, 2, 0, 3), (1, 2, 3, 7), (0, 2, 3, 7), (0, 2, 0, 1), (1, 2, 0, 1), (2, 3, 1, 5),
         (0, 3, 2, 5), (0, 1, 1, 3)]  # fmt: skip


def truth(parity: int, stride: int, padding: int, rows: int) -> list[bool]:
    """By laying the window on many places, and asking for the rows that each of its taps meets."""
    met = [{p * stride - padding + r for p in range(rows, 4 * rows)} for r in range(rows)]
    image = set(range(parity, 9 * stride * rows, stride))
    return [bool(image & each) for each in met]


taps_of_parity = PythonExercise(
    "10b",
    task=r"""
**Which taps meet a parity?** A window of `rows` rows moves by `stride` rows at a time. With `padding` rows of zeros,
row $r$ of the window at place $p$ meets row

$$h = p \cdot \text{stride} - \text{padding} + r$$

of the image. Which $r$ meet the rows $h$ of one parity, that is those with `h % stride == parity`? Write a list of True
and False, one for each row of the window. For `stride=2`, `padding=1` and 3 rows, the odd rows of the image, of parity
1, meet the first and the last row of the window: [True, False, True].
""",
    solution="""
def taps_of_parity(parity, stride, padding, rows):
    #> return [True for r in range(rows)]  # <- your code: not all of them
    return [(r - padding) % stride == parity for r in range(rows)]
    #<
""",
    hints=[
        "p times stride leaves no remainder: only r - padding decides.",
        "the remainder of r - padding has to be the parity. In Python, -1 % 2 is 1, as it should be here.",
    ],
    wrong=[
        Wrong("(r - padding) % stride == parity", "r % stride == parity", "value",
              "The padding moves the window: without it row 0 of the window would meet row 0 of the image."),
        Wrong("(r - padding) % stride == parity", "(r + padding) % stride == parity", "value",
              "The padding is subtracted. With a stride of 2 the sign is of no account, with 3 it is."),
        Wrong("(r - padding) % stride == parity", "(r - padding) % 2 == parity", "value",
              "The stride may be 3: the remainder is that of a division by stride."),
        Wrong("(r - padding) % stride == parity", "(r - padding) % stride != parity", "value",
              "These are the rows of the window that meet all the others."),
        Wrong("(r - padding) % stride == parity", "(r - padding) == parity", "value",
              "Further rows, a stride apart, meet the same parity from other places of the window."),
    ],
    truth=truth,
    given=("parity", "stride", "padding", "rows"),
    cases=CASES,
)  # fmt: skip
