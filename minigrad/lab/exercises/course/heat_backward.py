"""16: the adjoint of a stencil as a gather. What thread i would scatter to neighbors, these fetch."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(k: np.ndarray, dy: np.ndarray) -> np.ndarray:
    flow, dx = k * dy, dy - 2 * k * dy
    dx[:-1] += flow[1:]
    dx[1:] += flow[:-1]
    dx[0] += flow[0]
    dx[-1] += flow[-1]
    return dx


heat_backward = KernelExercise(
    "16",
    task=r"""
**The same gradient without atomics.** Heat flows along a rod: each place moves toward the mean of its neighbors, by a
factor $k_i$ of its own: $y_i = x_i + k_i\,(x_{i-1} - 2 x_i + x_{i+1})$. At an end of the rod, the place
itself stands in for the missing neighbor.

Below is its adjoint, reversed line by line: thread $i$ takes `dy[i]` and scatters it to three places, three atomic
additions. It is right. Turn the ownership around: thread $i$ owns `dx[i]`, gathers what belongs there, and needs no
atomics at all. `dx` is full of zeros at the start.
""",
    solution="""
extern "C" __global__ void heat_backward(const float* k, const float* dy, float* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int left = max(i - 1, 0), right = min(i + 1, n - 1);
        //> atomicAdd(&dx[i], (1 - 2 * k[i]) * dy[i]);
        //> atomicAdd(&dx[left], k[i] * dy[i]);
        //> atomicAdd(&dx[right], k[i] * dy[i]);
        dx[i] = (1 - 2 * k[i]) * dy[i] + k[left] * dy[left] + k[right] * dy[right];
        //<
    }
}
""",
    hints=[
        "Which threads add to dx[5] in the kernel as it is? Write down the three terms, each with its index.",
        "Thread 4 adds to its right neighbor, thread 6 to its left one. What they add has their index, not 5: "
        "k[4] * dy[4] and k[6] * dy[6].",
        "At the end of the rod, place 0 is its own left neighbor. Put left = 0 into your sum: does it give the term "
        "that thread 0 adds to itself?",
    ],
    wrong=[
        Wrong("k[left] * dy[left] + k[right] * dy[right]", "k[i] * dy[left] + k[i] * dy[right]", "value",
              "The neighbor's factor counts: k[left] belongs to the result y[left], in which x[i] is."),
        Wrong("k[left] * dy[left] + k[right] * dy[right]", "k[left] * dy[i] + k[right] * dy[i]", "value",
              "The neighbors' gradients are missing: what comes from the left is dy[left]."),
        Wrong("dx[i] = ", "dx[left] = ", "race",
              "Thread i owns dx[i] and writes only there: two threads have the same left neighbor at the end."),
        Wrong("(1 - 2 * k[i]) * dy[i] + ", "", "value", "The place's own share is missing: (1 - 2 * k[i]) * dy[i]."),
        Wrong("1 - 2 * k[i]", "1 + 2 * k[i]", "value", "In y[i] the place itself has the factor 1 - 2 * k[i]."),
        Wrong("1 - 2 * k[i]", "1 - k[i]", "value", "In y[i] the place itself has the factor 1 - 2 * k[i]."),
        Wrong("max(i - 1, 0)", "i - 1", "out-of-bounds", "Place 0 has no place on its left: it is its own neighbor."),
        Wrong("min(i + 1, n - 1)", "i + 1", "out-of-bounds",
              "Place n - 1 has no place on its right: it is its own neighbor."),
        Wrong("max(i - 1, 0), right = min(i + 1, n - 1)", "(i + n - 1) % n, right = (i + 1) % n", "value",
              "A rod has two ends: at each of them the place itself counts again, not the one at the other end."),
        Wrong("dx[i] = (1 - 2 * k[i]) * dy[i] + k[left] * dy[left] + k[right] * dy[right];",
              "dx[i] = (1 - 2 * k[i]) * dy[i];\n        if (i > 0) dx[i] += k[left] * dy[left];\n"
              "        if (i < n - 1) dx[i] += k[right] * dy[right];", "value",
              "The terms at the ends are missing: place 0 is its own left neighbor, place n - 1 its own right one."),
        Wrong("+ k[right] * dy[right]", "", "value", "The right neighbor's share is missing."),
        Wrong("dx[i] = (1 - 2 * k[i]) * dy[i] + k[left] * dy[left] + k[right] * dy[right];",
              "dx[i] = (1 - 2 * k[i]) * dy[i];\n        atomicAdd(&dx[left], k[i] * dy[i]);\n"
              "        atomicAdd(&dx[right], k[i] * dy[i]);", "race",
              "A plain write and the atomic additions of the neighbors meet in one element, in any order."),
        Wrong("dx[i] = (1 - 2 * k[i]) * dy[i] +", "atomicAdd(&dx[i], (1 - 2 * k[i]) * dy[i]); dx[i] +=", "wasteful",
              "Only thread i comes to dx[i] now: add the three terms up, and write them with =."),
    ],
    reference=reference,
    arguments=lambda k, dy: {"dx": k.shape, "n": k.size},
    zeros=True,
    inputs=[(numbers(n), numbers(n, seed=1)) for n in (2, 3, 1, 31, 33, 1025)],
    score="atomics",
)  # fmt: skip
