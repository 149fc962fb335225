"""05: a tree of additions in shared memory, with a barrier at each level."""

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import everything, reduced

block_sum = KernelExercise(
    "05",
    task="""
**Add up a block.** One block adds up the whole array. Each thread has added up its share and put the result into
`sums`. Add the `BLOCK` numbers there as a tree: in each round the front half adds the back half to its own, until one
number is left. `BLOCK` is a power of two.

In the end `y[0]` is the sum, written by one thread. Before, it may hold any number: do not add to it.
""",
    solution="""
extern "C" __global__ void block_sum(const float* x, float* y, int n) {
    __shared__ float sums[BLOCK];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = t; i < n; i += BLOCK) {
        sum += x[i];
    }
    sums[t] = sum;
    //> // your code
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            sums[t] += sums[t + half];
        }
    }
    if (t == 0) {
        y[0] = sums[0];
    }
    //<
}
""",
    hints=[
        "a loop over half: BLOCK / 2, BLOCK / 4, ..., 1. Thread t < half adds sums[t + half] to sums[t].",
        "what a thread adds was written by another one in the round before: __syncthreads() before each round.",
        "the barrier is for every thread, also for those that have nothing to add any more: outside of the if.",
    ],
    wrong=[
        Wrong("        __syncthreads();\n", "", "race",
              "What is added here was written by another thread. A barrier, __syncthreads(), goes before each round."),
        Wrong("        __syncthreads();\n        if (t < half) {\n",
              "        if (t < half) {\n            __syncthreads();\n", "barrier-divergence",
              "Only the front half comes to this barrier. It is for all threads: put it before the if."),
        Wrong("sums[t] += ", "sums[t] = ", "value", "`=` forgets the front half. Add to it: `+=`."),
        Wrong("half = BLOCK / 2", "half = BLOCK", "out-of-bounds",
              "sums has BLOCK places, so the first half is BLOCK / 2."),
        Wrong("half > 0", "half > 1", "value", "The round with half = 1 adds the last two numbers; it is left out."),
        Wrong("t < half", "t <= half", "out-of-bounds",
              "The front half are the threads 0 to half - 1; thread `half` finds its partner one past the end."),
        Wrong("    if (t == 0) {\n        y[0] = sums[0];\n    }\n", "    y[0] = sums[0];\n", "race",
              "All threads write y[0], and most of them read sums[0] before it is complete. One thread is enough."),
        Wrong("y[0] = ", "y[0] += ", "nan",
              "`+=` reads y[0] first, which may hold any number: the check puts nan there. One thread writes it: `=`."),
        Wrong("if (t == 0)", "if (t == BLOCK - 1)", "race",
              "Thread 0 writes sums[0] last. It may go on without a barrier, any other thread has to wait for it."),
    ],
    reference=lambda x: x.sum(keepdims=True),
    arguments=lambda x: {"y": (1,), "n": x.size, "blocks": 1},
    inputs=[(numbers(n),) for n in (3, 33, 1, 0, 1023, 1025)],
    grid=("blocks",),
    sizes="blocks",
    through=("sums",),
    tunables={"BLOCK": (32, 1, 2, 64, 256)},
    op=AsOp("sum", unfit=everything, finish=reduced),
)  # fmt: skip
