"""14: what an all-gather leaves in memory, taken for what one wants."""

from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.lab.exercises import PythonExercise, Wrong


def truth(pieces: np.ndarray) -> np.ndarray:
    """h, number by number, from the pieces of the ranks."""
    ranks, sequences, units = pieces.shape
    return np.array([[pieces[u // units, b, u % units] for u in range(ranks * units)] for b in range(sequences)])


def pieces(ranks: int, sequences: int, units: int) -> tuple[np.ndarray]:
    """The piece of each rank: 100 x rank + 10 x sequence + unit."""
    rank, sequence, unit = np.indices((ranks, sequences, units))
    return (100 * rank + 10 * sequence + unit,)


def call(gather_units: Callable, pieces: np.ndarray) -> Any:
    """The reader's h, of the memory of all pieces."""
    ranks, sequences, units = pieces.shape
    return gather_units(pieces.ravel(), ranks, sequences, ranks * units)


gather_units = PythonExercise(
    "14",
    task=r"""
**The pieces lie one behind the other.** Two ranks compute half of the units each, for all sequences. So the piece of a
rank has the shape (sequences, units of the rank). The all-gather puts the pieces into `memory` as they are: all numbers
of rank 0, then all of rank 1, and so on. This function makes `h` of them, of shape (sequences, hidden). It was tried
with one sequence, and was right. With two sequences the network forecasts nonsense, and no error is raised. Mend it.

In the check the numbers say where they belong: 100 x rank + 10 x sequence + unit.
""",
    solution="""
def gather_units(memory, ranks, sequences, hidden):
    #> return memory.reshape(sequences, hidden)
    pieces = memory.reshape(ranks, sequences, hidden // ranks)
    return pieces.transpose(1, 0, 2).reshape(sequences, hidden)
    #<
""",
    bug=True,
    hints=[
        "print memory for 2 ranks, 2 sequences and 2 units a rank. Which numbers should be in the first row of h?",
        "memory.reshape(ranks, sequences, hidden // ranks)[r] is the piece of rank r.",
        "a row of h has the units of rank 0 for that sequence, then those of rank 1. So the axis of sequences must "
        "come first: transpose, then reshape.",
    ],
    wrong=[
        Wrong("pieces.transpose(1, 0, 2).reshape(sequences, hidden)", "pieces.reshape(sequences, hidden)", "value",
              "A reshape moves nothing: the first row is still what lies first in memory, from rank 0 alone."),
        Wrong("pieces.transpose(1, 0, 2)", "pieces.transpose(1, 2, 0)", "value",
              "Now neighbors come from different ranks: the units of one rank belong next to each other."),
        Wrong("pieces.transpose(1, 0, 2)", "pieces.transpose(2, 0, 1)", "value",
              "The axis of sequences must come first; here it is that of the units."),
        Wrong("memory.reshape(ranks, sequences, hidden // ranks)", "memory.reshape(sequences, ranks, hidden // ranks)",
              "value", "The pieces lie rank by rank, so the axis of ranks is the first one in memory."),
        Wrong("pieces.transpose(1, 0, 2).reshape(sequences, hidden)", "pieces.transpose(1, 0, 2)", "shape",
              "h is a matrix: reshape what the transpose gives to (sequences, hidden)."),
        Wrong("    pieces = memory.reshape(ranks, sequences, hidden // ranks)\n"
              "    return pieces.transpose(1, 0, 2).reshape(sequences, hidden)\n",
              "    return memory.reshape(hidden, sequences).T\n", "value",
              "That is right where a piece is (units, sequences), as the course's ranks keep it. These are not."),
    ],
    truth=truth,
    call=call,
    given=("the pieces",),
    cases=[pieces(2, 1, 3), pieces(2, 2, 2), pieces(3, 2, 4), pieces(1, 3, 2), pieces(4, 3, 1)],
)  # fmt: skip
