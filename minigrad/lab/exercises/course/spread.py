"""05: the hunt for a bug: a shared array that is used twice, with one barrier too few."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(x: np.ndarray) -> np.ndarray:
    """In float64."""
    return np.array([x.astype(np.float64).var()])


spread = KernelExercise(
    "05",
    bug=True,
    hunt=True,
    task=r"""
**Sometimes wrong.** How far are $n$ numbers from their mean? One block finds the mean, and then the mean square of the
distances:

$$y_0 = \frac{1}{n} \sum_i (x_i - m)^2, \qquad m = \frac{1}{n} \sum_i x_i$$

Both sums go through the same shared array, `sums`, as a tree. On the GPU of the author the result was right a thousand
times, and then it was not. The answer to the unchanged cell gives a case that fails, and no reason. Find the reason,
fix it, and leave alone what is right: a barrier that nothing needs is time lost, and the answer counts them.
""",
    solution="""
extern "C" __global__ void spread(const float* x, float* y, int n) {
    __shared__ float sums[BLOCK];
    int t = threadIdx.x;
    float own = 0;
    for (int i = t; i < n; i += BLOCK) {
        own += x[i];
    }
    sums[t] = own;
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            sums[t] += sums[t + half];
        }
    }
    __syncthreads();
    float mean = sums[0] / n;
    own = 0;
    for (int i = t; i < n; i += BLOCK) {
        own += (x[i] - mean) * (x[i] - mean);
    }
    //>
    __syncthreads();
    //<
    sums[t] = own;
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            sums[t] += sums[t + half];
        }
    }
    if (t == 0) {
        y[0] = sums[0] / n;
    }
}
""",
    hints=[
        "it is a race. In line 16 all threads read sums[0], and in line 21 thread 0 writes it. Which barriers does a "
        "thread pass between the two?",
        "follow a fast thread and a slow one. The fast one is past the first tree and has its mean. How far can it go "
        "before it has to wait for the slow one?",
        "thread 0 overwrites sums[0] with its own part of the second sum. Another thread may only now be reading the "
        "first sum there. Something must keep thread 0 back until all have read.",
    ],
    wrong=[
        Wrong("    __syncthreads();\n    sums[t] = own;\n    for", "    sums[t] = own;\n    for", "race",
              "A fast thread overwrites sums[0] while a slow one still reads the mean from it: the second use of "
              "`sums` has to wait for the end of the first."),
        Wrong("    }\n    __syncthreads();\n    float mean", "    }\n    float mean", "race",
              "This barrier was right: the mean is complete only when thread 0 has made the last addition."),
        Wrong("    __syncthreads();\n    sums[t] = own;\n    for",
              "    sums[t] = own;\n    __syncthreads();\n    for", "race",
              "The barrier stands one line too late: sums[0] is overwritten before it."),
        Wrong("    __syncthreads();\n    sums[t] = own;\n    for",
              "    if (t == 0) {\n        __syncthreads();\n    }\n    sums[t] = own;\n    for", "barrier-divergence",
              "A barrier is for all threads of the block. Thread 0 alone waits there for ever."),
        Wrong("    __syncthreads();\n    sums[t] = own;\n    for",
              "    __threadfence_block();\n    sums[t] = own;\n    for", "race",
              "A fence orders what one thread does. It waits for no other thread: that is what a barrier is for."),
        Wrong("    __syncthreads();\n    sums[t] = own;\n    for",
              "    __syncwarp();\n    sums[t] = own;\n    for", "race",
              "__syncwarp waits for the lanes of one warp. The threads of the other warps read sums[0] as well."),
        Wrong("    float mean = sums[0] / n;\n    own = 0;", "    float mean = sums[0] / n;", "value",
              "The second sum begins at 0, too."),
        Wrong("float mean = sums[0] / n", "float mean = sums[0]", "value", "The mean is the sum, divided by n."),
        Wrong("(x[i] - mean) * (x[i] - mean)", "(x[i] - mean)", "value",
              "The distances are squared: without that they add up to 0."),
        Wrong("y[0] = sums[0] / n", "y[0] = sums[0]", "value", "The mean of the squares is wanted: divide by n."),
        Wrong("    if (t == 0) {\n        y[0] = sums[0] / n;\n    }\n", "    y[0] = sums[0] / n;\n", "race",
              "This was right: one thread writes the result, the one that has made the last addition."),
        Wrong("(x[i] - mean) * (x[i] - mean);\n    }\n    __syncthreads();\n",
              "(x[i] - mean) * (x[i] - mean);\n    }\n    __syncthreads();\n    __syncthreads();\n",
              "wasteful", "One barrier is enough between the reading and the writing."),
    ],
    reference=reference,
    arguments=lambda x: {"y": (1,), "n": x.size, "blocks": 1},
    inputs=[(numbers(n),) for n in (3, 33, 1, 256, 1025)],
    grid=("blocks",),
    sizes="blocks",
    limits={"barriers": 1},
    tunables={"BLOCK": (64, 1, 2, 256)},
)  # fmt: skip
