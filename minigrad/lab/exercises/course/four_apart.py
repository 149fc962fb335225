"""08: four elements a thread. Neighbors of a warp belong to neighboring threads, not to one thread."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

four_apart = KernelExercise(
    "08",
    task="""
**Four elements a thread, and a quarter of the sectors.** This kernel doubles `n` numbers. Each thread takes four of
them, so the GPU has to start only a quarter of the blocks. Every result is right. But at each turn of the loop, the
threads of a warp touch numbers that lie four apart, and so each request asks for four times the sectors it needs.

Keep four elements a thread, and share them out so that a warp touches 32 neighbors at each turn. The score counts the
sectors that all blocks ask for.
""",
    solution="""
extern "C" __global__ void four_apart(const float* x, float* y, int n) {
    //> int first = (blockIdx.x * BLOCK + threadIdx.x) * 4;
    int first = blockIdx.x * 4 * BLOCK + threadIdx.x;
    //<
    for (int k = 0; k < 4; ++k) {
        //> int i = first + k;
        int i = first + k * BLOCK;
        //<
        if (i < n) {
            y[i] = 2 * x[i];
        }
    }
}
""",
    hints=[
        "At turn k = 0, which elements do threads 0, 1 and 2 of block 0 touch? Write them down, and then those "
        "that you want.",
        "Thread t of a block starts at the block's element t. How far is it to the element of the next turn, if all "
        "BLOCK threads of the block have one in between?",
        "The block starts at blockIdx.x * 4 * BLOCK, its thread threadIdx.x further on, and each turn goes on by "
        "BLOCK elements.",
    ],
    wrong=[
        Wrong("k * BLOCK", "k", "race",
              "A thread that starts beside its neighbor and goes on by 1 arrives at the neighbor's element. Go on by "
              "as many elements as the block has threads."),
        Wrong("blockIdx.x * 4 * BLOCK", "blockIdx.x * BLOCK", "race",
              "The blocks overlap: a block owns 4 * BLOCK elements, so the next one starts that much further on."),
        Wrong("blockIdx.x * 4 * BLOCK + threadIdx.x", "(blockIdx.x * BLOCK + threadIdx.x) * 4", "never-written",
              "Turns of BLOCK elements go with threads that start beside each other. These start four apart, and leave "
              "out the places between."),
        Wrong("if (i < n)", "if (first < n)", "out-of-bounds",
              "Each turn has an element of its own. Ask whether this one exists, not whether the first one does."),
        Wrong("i < n", "i <= n", "out-of-bounds", "The elements are 0 to n - 1: element n is past the end."),
        Wrong("k < 4", "k < 3", "never-written", "A quarter of the elements is left out: k takes 0, 1, 2 and 3."),
        Wrong("2 * x[i]", "2 * x[first]", "value", "Each turn reads its own element, x[i], not the first one again."),
        Wrong("k * BLOCK", "k * 32", "never-written",
              "Turns of 32 elements fit blocks of 32 threads only. A block has BLOCK threads."),
        Wrong("k * BLOCK", "k * gridDim.x * BLOCK", "race",
              "That is the stride of a loop over the whole grid. The start has to fit it: blockIdx.x * BLOCK + "
              "threadIdx.x."),
        Wrong("4 * BLOCK", "3 * BLOCK", "race",
              "With four elements a thread, a block takes 4 * BLOCK of them. The last quarter is taken twice now."),
        Wrong("blockIdx.x * 4 * BLOCK + threadIdx.x;\n    for (int k = 0; k < 4; ++k) {\n"
              "        int i = first + k * BLOCK",
              "blockIdx.x * BLOCK + threadIdx.x;\n    {\n        int i = first", "never-written",
              "Without the loop a thread takes one element, and the grid has threads for a quarter of them only."),
        Wrong("4 * BLOCK + threadIdx.x;\n    for (int k = 0; k < 4; ++k) {\n        int i = first + k * BLOCK",
              "4 * BLOCK + 2 * threadIdx.x;\n    for (int k = 0; k < 4; ++k) {\n"
              "        int i = first + k / 2 * 2 * BLOCK + k % 2", "wasteful",
              "Pairs are better than fours, but a warp still touches twice as many sectors as it needs at each turn."),
    ],
    reference=lambda x: 2 * x,
    arguments=lambda x: {"y": x.shape, "n": x.size},
    inputs=[(numbers(n),) for n in (1, 2, 31, 33, 1023, 1025)] + [(np.zeros(0, np.float32),)],
    grid=("n/4*BLOCK",),
    score="sectors",
    limits={"sectors": 1.1},
)  # fmt: skip
