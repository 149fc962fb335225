"""05: running sums, a scan, by the threads of a block: read, wait, write."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

running_sum = KernelExercise(
    "05",
    task=r"""
**Running sums.** A bank account: `x` holds the payments, and `y` shall hold the balance after each of them.

$$y_i = x_0 + x_1 + \dots + x_i$$

That is called a *scan*. One block does it, in rounds. Before round 1 each thread has its own payment. In round 1 each
thread adds the number one place to its left, in round 2 the number two places to its left, then four, eight, ... After
round 1 it has the sum of two payments, after round 2 that of four, and so on; on paper, do it with 1, 2, 3, 4 before
you write.

There is a trap: in each round a thread changes a number that its neighbor still wants to read as it was.
""",
    solution="""
extern "C" __global__ void running_sum(const float* x, float* y, int n) {
    __shared__ float sums[BLOCK];
    int t = threadIdx.x;
    sums[t] = t < n ? x[t] : 0;
    //> // your code
    for (int step = 1; step < BLOCK; step *= 2) {
        __syncthreads();
        float left = t >= step ? sums[t - step] : 0;
        __syncthreads();
        sums[t] += left;
    }
    //<
    if (t < n) {
        y[t] = sums[t];
    }
}
""",
    hints=[
        "a loop over step: 1, 2, 4, ... as long as a thread has a number `step` places to its left.",
        "a round has two halves. First every thread reads; then every thread writes. What belongs between the two, and "
        "what between two rounds?",
        "keep the number from the left in a variable of your own, and wait before you add it. Threads with t < step "
        "have nothing to add, but they wait as well.",
    ],
    wrong=[
        Wrong("        __syncthreads();\n        float left", "        float left", "race",
              "What stands to the left was written by another thread in the round before: wait before you read it."),
        Wrong("        __syncthreads();\n        sums[t] += left", "        sums[t] += left", "race",
              "Your neighbor to the right may still want the number that you change here. Wait until all have read."),
        Wrong("        float left = t >= step ? sums[t - step] : 0;\n        __syncthreads();\n"
              "        sums[t] += left;\n",
              "        if (t >= step) {\n            sums[t] += sums[t - step];\n        }\n", "race",
              "`+=` reads and writes at once, and the neighbor may read before or after. Read into a variable, wait, "
              "then add."),
        Wrong("        float left = t >= step ? sums[t - step] : 0;\n        __syncthreads();\n"
              "        sums[t] += left;\n",
              "        if (t >= step) {\n            float left = sums[t - step];\n            __syncthreads();\n"
              "            sums[t] += left;\n        }\n", "barrier-divergence",
              "A barrier is for all threads of the block; those with t < step never come to this one."),
        Wrong("t >= step ? sums[t - step] : 0", "sums[t - step]", "out-of-bounds",
              "Thread 0 has nothing to its left: sums[-1] lies outside."),
        Wrong("t >= step", "t > step", "value", "Thread `step` has a number step places to its left: number 0."),
        Wrong("sums[t] += left", "sums[t] = left", "value", "`=` forgets what the thread had: `+=`."),
        Wrong("step *= 2", "step += 1", "value",
              "After round 1 each thread has two payments. The next ones to its left are two places away, then four."),
        Wrong("sums[t - step]", "sums[t - 1]", "value",
              "In every round the number comes from further to the left: step places."),
        Wrong("step < BLOCK", "step < BLOCK / 2", "value", "The last round, with half of the block, is left out."),
        Wrong("int step = 1;", "int step = 2;", "value", "The first round adds the neighbor, one place to the left."),
        Wrong("t - step", "t + step", "out-of-bounds",
              "That adds what comes later: a balance knows only earlier payments."),
        Wrong("    for (int step = 1; step < BLOCK; step *= 2) {\n        __syncthreads();\n"
              "        float left = t >= step ? sums[t - step] : 0;\n        __syncthreads();\n"
              "        sums[t] += left;\n",
              "    __syncthreads();\n    if (t == 0) {\n        for (int i = 1; i < BLOCK; ++i) {\n"
              "            sums[i] += sums[i - 1];\n        }\n", "race",
              "Thread 0 changes numbers of other threads, and they go on to write y: wait. And let them help."),
    ],
    reference=lambda x: x.cumsum(),
    arguments=lambda x: {"y": x.shape, "n": x.size, "blocks": 1},
    inputs=[(numbers(n),) for n in (4, 1, 2, 31, 33, 255, 256)],
    grid=("blocks",),
    sizes="blocks",
    through=("sums",),
    tunables={"BLOCK": (256, 512)},
)  # fmt: skip
