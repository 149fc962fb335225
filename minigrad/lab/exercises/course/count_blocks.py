"""01: the number of blocks. Mistakes show at the smallest sizes."""

from collections.abc import Callable

from minigrad.lab.exercises import PythonExercise, Wrong


def whole(function: Callable, n: int, BLOCK: int) -> int:
    """The reader's number of blocks. Raises TypeError for a float, which no launch accepts."""
    blocks = function(n, BLOCK)
    if isinstance(blocks, float):
        raise TypeError(f"{blocks} is a float; a grid takes a whole number of blocks, an int")
    return blocks


count_blocks = PythonExercise(
    "01",
    task="""
**How many blocks?** As few blocks of `BLOCK` threads as cover `n` elements. For `n = 0` the answer is 0.

This is Python: it runs before the kernel does, and says how large the grid is.
""",
    solution="""
def count_blocks(n, BLOCK):
    #> return None  # <- your code
    return -(-n // BLOCK)
    #<
""",
    hints=[
        "n // BLOCK counts the full blocks. When is one more needed?",
        "rounding up is rounding down from the other side: what are -7 // 4 and -8 // 4?",
    ],
    wrong=[
        Wrong("-(-n // BLOCK)", "n // BLOCK", "value",
              "// rounds down: a block that is not full is left out, and one element alone gets no block at all."),
        Wrong("-(-n // BLOCK)", "n // BLOCK + 1", "value", "Where BLOCK divides n, this is one block too many."),
        Wrong("-(-n // BLOCK)", "round(n / BLOCK)", "value", "round goes to the nearest number, which may be below."),
        Wrong("-(-n // BLOCK)", "n / BLOCK", "raised", "`/` gives a fraction of a block, where `//` rounds."),
        Wrong("-(-n // BLOCK)", "np.ceil(n / BLOCK)", "raised", "np.ceil gives a float: int(...) makes it whole."),
        Wrong("-(-n // BLOCK)", "max(1, -(-n // BLOCK))", "value", "No element needs no block: for n = 0 it is 0."),
        Wrong("-(-n // BLOCK)", "n", "value", "This is one block for each element; a block has BLOCK threads."),
    ],
    truth=lambda n, BLOCK: next(blocks for blocks in range(n + 1) if blocks * BLOCK >= n),
    call=whole,
    cases=[(200, 256), (1, 256), (0, 256), (256, 256), (257, 256), (1023, 32), (1025, 32), (33, 1)],
)  # fmt: skip
