"""05: a dot product over many blocks, with one atomic addition for each block in place of one for each thread."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

dot_product = KernelExercise(
    "05",
    score="atomics",
    zeros=True,
    task=r"""
**A shorter queue.** The dot product of two arrays, by many blocks:

$$y_0 = \sum_i a_i\, b_i$$

The kernel below is right, and every thread queues at `y[0]`. Shorten the queue: let the threads of a block add up their
products first, and let one of them bring the result. `y[0]` is 0 at the start. `BLOCK` is a power of two.
The score counts atomic operations, also those on shared memory.
""",
    solution="""
extern "C" __global__ void dot_product(const float* a, const float* b, float* y, int n) {
    //> int i = blockIdx.x * BLOCK + threadIdx.x;
    //> if (i < n) {
    //>     atomicAdd(&y[0], a[i] * b[i]);
    //> }
    __shared__ float sums[BLOCK];
    int t = threadIdx.x, i = blockIdx.x * BLOCK + t;
    sums[t] = i < n ? a[i] * b[i] : 0;
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            sums[t] += sums[t + half];
        }
    }
    if (t == 0) {
        atomicAdd(&y[0], sums[0]);
    }
    //<
}
""",
    hints=[
        "in place of y[0], each thread puts its product into a shared array of BLOCK numbers. What does a thread put "
        "there that has no element?",
        "then the tree of this notebook: a barrier before each round, and the front half adds the back half.",
        "at the end thread 0 has the sum of the block. Other blocks bring theirs at the same time: it takes one atomic "
        "addition, by thread 0.",
    ],
    wrong=[
        Wrong("atomicAdd(&y[0], sums[0])", "y[0] += sums[0]", "race",
              "Every block does this, and blocks run at the same time: it is still an atomic addition."),
        Wrong("atomicAdd(&y[0], sums[0])", "y[0] = sums[0]", "race",
              "Each block overwrites the sum of the others. All of them count: atomicAdd."),
        Wrong("        __syncthreads();\n", "", "race",
              "What is added in a round was written by another thread in the round before: __syncthreads()."),
        Wrong("        __syncthreads();\n        if (t < half) {\n",
              "        if (t < half) {\n            __syncthreads();\n", "missed-barrier",
              "Only the front half comes to this barrier. It is for all threads: put it before the if."),
        Wrong("i < n ? a[i] * b[i] : 0", "a[i] * b[i]", "out-of-bounds",
              "The last block has threads without an element: they put 0 into the tree."),
        Wrong("    sums[t] = i < n ? a[i] * b[i] : 0;\n", "    if (i < n) {\n        sums[t] = a[i] * b[i];\n    }\n",
              "uninitialised",
              "Threads without an element leave their place unset, and the tree adds it: put 0 there."),
        Wrong("    if (t == 0) {\n        atomicAdd(&y[0], sums[0]);\n    }\n",
              "    atomicAdd(&y[0], sums[0]);\n", "race",
              "Every thread brings the sum of the block, and most of them before it is complete. One is enough."),
        Wrong("    if (t == 0) {\n        atomicAdd(&y[0], sums[0]);\n    }\n",
              "    if (i == 0) {\n        atomicAdd(&y[0], sums[0]);\n    }\n", "value",
              "Only the first block brings its sum: `i` counts over all blocks, and `t` within one."),
        Wrong("a[i] * b[i]", "a[t] * b[t]", "value", "All blocks multiply the numbers of the first: the element is i."),
        Wrong("half = BLOCK / 2", "half = BLOCK / 4", "value", "The first round adds the back half of the block."),
        Wrong("    for (int half = BLOCK / 2; half > 0; half /= 2) {\n        __syncthreads();\n"
              "        if (t < half) {\n            sums[t] += sums[t + half];\n        }\n    }\n"
              "    if (t == 0) {\n        atomicAdd(&y[0], sums[0]);\n    }\n",
              "    __syncthreads();\n    if (t % 32 == 0) {\n        float sum = 0;\n"
              "        for (int k = t; k < t + 32 && k < BLOCK; ++k) {\n            sum += sums[k];\n        }\n"
              "        atomicAdd(&y[0], sum);\n    }\n", "wasteful",
              "One addition for each warp is better than one for each thread. One for each block is enough."),
        Wrong("i = blockIdx.x * BLOCK + t", "i = blockIdx.x + t * gridDim.x", "wasteful",
              "The lanes of a warp read numbers that are a whole grid apart: neighbors should read neighbors."),
    ],
    reference=lambda a, b: np.array([a.astype(np.float64) @ b]),
    arguments=lambda a, b: {"y": (1,), "n": a.size},
    inputs=[(numbers(n), numbers(n, seed=1)) for n in (3, 33, 1, 0, 256, 1025)],
    limits={"sectors": 2},
    tunables={"BLOCK": (64, 1, 2, 256)},
)  # fmt: skip
