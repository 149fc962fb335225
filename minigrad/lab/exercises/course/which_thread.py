"""01: the block, the thread and the idle threads of a launch, predicted and then written down by the threads."""

from typing import NamedTuple

import numpy as np

from minigrad.create import zeros
from minigrad.kernels.source_kernel import kernel
from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.op import OPS

SIGNED = """
extern "C" __global__ void signed_by(int* block, int* thread, int* busy, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    busy[i] = i < n;
    if (i < n) {
        block[i] = blockIdx.x;
        thread[i] = threadIdx.x;
    }
}
"""
N, BLOCK, GRID, ELEMENT = 1000, 256, 4, 700


class Signatures(NamedTuple):
    """For each element its block and thread, and for each thread a 1 if it has an element."""

    block: np.ndarray
    thread: np.ndarray
    busy: np.ndarray


def signatures() -> Signatures:
    """The launch, in which every thread writes down who it is."""
    arrays = [zeros(size, device="sim", dtype="int32") for size in (N, N, GRID * BLOCK)]
    kernel(SIGNED, "signed_by")(*arrays, N, grid=GRID, block=BLOCK)
    return Signatures(*(array.numpy() for array in arrays))


which_thread = Prediction(
    "01",
    "which_thread",
    task="""
**Which thread, and how many have none?** A launch covers 1000 elements with blocks of 256 threads. Write down your
numbers before you run the cell. Then the launch runs, and every thread says who it is.
""",
    solution="""
#> block = ...  # the block that has element 700
block = 2
#<
#> thread = ...  # the number of its thread in that block
thread = 188
#<
#> idle = ...  # threads of the launch without an element
idle = 24
#<
""",
    hints=[
        "the first element of block b is b * 256. Which blocks begin before element 700?",
        "the thread is what is left: 700 minus the first element of its block.",
        "4 blocks are needed. How many threads are that, and how many elements are there?",
    ],
    wrong=[
        Wrong("block = 2", "block = 3", "value", "It is the third block, and blocks are counted from 0."),
        Wrong("thread = 188", "thread = 700", "value", "700 is the number in the whole grid: i. threadIdx.x starts "
              "from 0 in every block."),
        Wrong("thread = 188", "thread = 187", "value", "700 - 512 is 188, and both are counted from 0."),
        Wrong("thread = 188", "thread = 189", "value", "700 - 512 is 188, and both are counted from 0."),
        Wrong("idle = 24", "idle = 0", "value", "256 does not divide 1000: the last block is not full."),
        Wrong("idle = 24", "idle = 232", "value", "232 threads of the last block are busy. The rest are idle."),
        Wrong("idle = 24", "idle = 25", "value", "The last element is number 999, so 1000 threads are busy."),
    ],
    run=signatures,
    truth=lambda found: {
        "block": int(found.block[ELEMENT]), "thread": int(found.thread[ELEMENT]), "idle": int((found.busy == 0).sum())
    },
    show=lambda found: show.threads(OPS["relu"].kernels["forward"].launch(N, BLOCK=BLOCK)),
)  # fmt: skip
