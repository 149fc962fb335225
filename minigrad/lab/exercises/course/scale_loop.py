"""01: a kernel as a Python function: two loops over blocks and threads, and the element of each thread."""

from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad.lab.check.answer import Refused
from minigrad.lab.exercises import PythonExercise, Wrong


class Written(np.ndarray):
    """An array that keeps the order in which its elements are written."""

    order: list[int]

    def __setitem__(self, i: Any, value: Any) -> None:
        super().__setitem__(i, value)
        self.order.append(int(i))


def scaled(function: Callable, n: int, grid: int, block: int) -> np.ndarray:
    """y after the reader's loops, from an array of zeros. Raises Refused where it is right, and block 0 has others."""
    x, y = np.arange(1.0, n + 1), np.zeros(n).view(Written)
    y.order = []
    function(x, y, 10.0, n, grid, block)
    if np.array_equal(y, truth(n, grid, block)) and y.order != sorted(y.order):
        first = ", ".join(map(str, y.order[:block]))
        raise Refused(f"all of y is right, but the first elements that are written are {first}", "order")
    return np.asarray(y)


def truth(n: int, grid: int, block: int) -> np.ndarray:
    """10 x, as far as the threads go."""
    return np.where(np.arange(n) < grid * block, 10.0 * np.arange(1, n + 1), 0.0)


scale_loop = PythonExercise(
    "01",
    task="""
**Which element is mine?** This function runs a launch as Python: `gridDim` blocks, and `blockDim` threads in each of
them. For every thread it does the same three lines. The first of them is missing: the number `i` of the element that
belongs to thread `threadIdx` of block `blockIdx`. Block 0 takes the first `blockDim` elements, block 1 the next ones,
and so on.
""",
    solution="""
def scale_loop(x, y, s, n, gridDim, blockDim):
    for blockIdx in range(gridDim):
        for threadIdx in range(blockDim):
            #> i = ...  # <- which element is mine?
            i = blockIdx * blockDim + threadIdx
            #<
            if i < n:
                y[i] = s * x[i]
""",
    hints=[
        "with blocks of 4 threads, block 0 has the elements 0 to 3, and block 1 has 4 to 7. Where does block 2 begin?",
        "a block begins at its own number times the size of a block. Its threads count on from there.",
    ],
    wrong=[
        Wrong("blockIdx * blockDim + threadIdx", "threadIdx", "value",
              "threadIdx starts from 0 in every block, so all blocks do the work of the first."),
        Wrong("blockIdx * blockDim + threadIdx", "blockIdx + threadIdx", "value",
              "Block 1 then begins at element 1, in the middle of block 0. It begins after all elements of block 0."),
        Wrong("blockIdx * blockDim + threadIdx", "blockIdx * gridDim + threadIdx", "value",
              "A block takes blockDim elements; gridDim is the number of blocks."),
        Wrong("blockIdx * blockDim + threadIdx", "blockIdx * blockDim + threadIdx + 1", "value",
              "Elements are counted from 0. Thread 0 of block 0 has element 0."),
        Wrong("blockIdx * blockDim + threadIdx", "(blockIdx + 1) * blockDim + threadIdx", "value",
              "Blocks are counted from 0: block 0 begins at element 0."),
        Wrong("blockIdx * blockDim + threadIdx", "threadIdx * blockDim + blockIdx", "value",
              "Thread and block are exchanged: a block begins at blockIdx * blockDim, and its threads count on."),
        Wrong("blockIdx * blockDim + threadIdx", "threadIdx * gridDim + blockIdx", "order",
              "Each element has a thread now, but block 0 has elements that lie gridDim apart. It should have the "
              "first blockDim elements, as neighbors."),
        Wrong("blockIdx * blockDim + threadIdx", "blockIdx * blockDim", "value",
              "All threads of a block then have the same element. Each has one of its own."),
    ],
    truth=truth,
    call=scaled,
    cases=[(10, 3, 4), (8, 2, 4), (10, 1, 4), (7, 4, 2), (1, 1, 32), (33, 2, 32)],
)  # fmt: skip
