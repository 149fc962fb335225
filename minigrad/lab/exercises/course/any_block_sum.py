"""05: a tree of additions in shared memory whose number of leaves is no power of two."""

from minigrad.lab import show
from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import everything, reduced

any_block_sum = KernelExercise(
    "05",
    task="""
**A tree for any block.** One block adds up the whole array. Each thread has added up its share and put the result into
`sums`. Add the `BLOCK` numbers there as a tree: in each round the front half adds the back half to its own, until one
number is left.

On the page above `BLOCK` was a power of two. Here it may be 33, or 48, or 7. Of 7 numbers, which are added to which,
and which one waits for the next round? Draw the rounds for 7 before you write.

In the end `y[0]` is the sum, written by one thread. Before, it may hold any number: do not add to it.
""",
    solution="""
extern "C" __global__ void any_block_sum(const float* x, float* y, int n) {
    __shared__ float sums[BLOCK];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = t; i < n; i += BLOCK) {
        sum += x[i];
    }
    sums[t] = sum;
    //> // your code
    for (int left = BLOCK; left > 1;) {
        int half = (left + 1) / 2;
        __syncthreads();
        if (t + half < left) {
            sums[t] += sums[t + half];
        }
        left = half;
    }
    if (t == 0) {
        y[0] = sums[0];
    }
    //<
}
""",
    hints=[
        "keep the number of sums that are left. Of 7 the first 4 stay, and the last 3 are added to the first 3: "
        "sums[3] has no partner in this round. Then 4 are left.",
        "what a thread adds was written by another one in the round before. What has to stand before each round, and "
        "for which threads?",
        "half is the number of those that stay: round it up. Thread t has a partner where t + half is still one of "
        "those that were left.",
    ],
    wrong=[
        Wrong("        __syncthreads();\n", "", "race",
              "What is added here was written by another thread. A barrier, __syncthreads(), goes before each round."),
        Wrong("        __syncthreads();\n        if (t + half < left) {\n",
              "        if (t + half < left) {\n            __syncthreads();\n", "missed-barrier",
              "Only the threads with a partner come to this barrier. It is for all threads: put it before the if."),
        Wrong("sums[t] += ", "sums[t] = ", "value", "`=` forgets the front half. Add to it: `+=`."),
        Wrong("(left + 1) / 2", "left / 2", "race",
              "Of 7 numbers the larger half stays, 4. With left / 2 that is 3, and sums[3] is added to sums[0] in the "
              "same round in which it changes itself."),
        Wrong("left > 1", "left > 2", "value", "The round with two numbers left is missing."),
        Wrong("t + half < left", "t < half", "out-of-bounds",
              "Of 7 numbers 4 stay, and the fourth has no partner: its partner would be number 8."),
        Wrong("t + half < left", "t + half <= left", "out-of-bounds",
              "`left` numbers are sums[0] to sums[left - 1]: t + half has to be less than left."),
        Wrong("    if (t == 0) {\n        y[0] = sums[0];\n    }\n", "    y[0] = sums[0];\n", "race",
              "All threads write y[0], and most of them read sums[0] before it is complete. One thread is enough."),
        Wrong("y[0] = ", "y[0] += ", "uninitialised",
              "`+=` reads y[0] first, which may hold any number: the check puts nan there. One thread writes it: `=`."),
        Wrong("if (t == 0)", "if (t == BLOCK - 1)", "race",
              "Thread 0 writes sums[0] last. It may go on without a barrier, any other thread has to wait for it."),
        Wrong("int left = BLOCK; left > 1;) {\n        int half = (left + 1) / 2;\n        __syncthreads();\n"
              "        if (t + half < left) {\n            sums[t] += sums[t + half];\n        }\n"
              "        left = half;\n",
              "int s = 1; s < BLOCK; s *= 2) {\n        __syncthreads();\n"
              "        if (t % (2 * s) == 0 && t + s < BLOCK) {\n            sums[t] += sums[t + s];\n        }\n",
              "wasteful",
              "Every second, fourth, eighth lane adds, so each warp stays at work for a few lanes that are far apart, "
              "and the others idle. Where the front half adds the back half, whole warps are done after each round."),
        Wrong("int left = BLOCK; left > 1;) {\n        int half = (left + 1) / 2;\n        __syncthreads();\n"
              "        if (t + half < left) {\n            sums[t] += sums[t + half];\n        }\n"
              "        left = half;\n",
              "int s = 1; s < BLOCK; s *= 2) {\n        __syncthreads();\n        int at = 2 * s * t;\n"
              "        if (at + s < BLOCK) {\n            sums[at] += sums[at + s];\n        }\n", "wasteful",
              "The threads at work are neighbors, but their numbers lie 2 * s apart, in a few of the 32 banks. In the "
              "front half they lie next to each other."),
        Wrong("int left = BLOCK; left > 1;) {\n        int half = (left + 1) / 2;\n        __syncthreads();\n"
              "        if (t + half < left) {\n            sums[t] += sums[t + half];\n        }\n"
              "        left = half;\n",
              "int half = BLOCK / 2; half > 0; half /= 2) {\n        __syncthreads();\n        if (t < half) {\n"
              "            sums[t] += sums[t + half];\n        }\n", "value",
              "This is the tree of the page. Of 7 numbers, half = 3 leaves one out: sums[6] is added to none. Round "
              "half up, and ask which threads have a partner."),
    ],
    reference=lambda x: x.sum(keepdims=True),
    arguments=lambda x: {"y": (1,), "n": x.size, "blocks": 1},
    inputs=[(numbers(n),) for n in (3, 33, 1, 0, 1025)],
    grid=("blocks",),
    sizes="blocks",
    through=("sums",),
    show=lambda record: show.divergence(record, most=2),
    limits={"requests": 1.5, "wavefronts": 1.5},
    tunables={"BLOCK": (32, 1, 7, 33, 256)},
    op=AsOp("sum", unfit=everything, finish=reduced),
)  # fmt: skip
