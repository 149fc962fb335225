"""16: the adjoint of a stencil that looks upwind looks downwind: the index is mirrored."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(dy: np.ndarray, c: float) -> np.ndarray:
    return dy - c * (dy - np.roll(dy, -1))


upwind_backward = KernelExercise(
    "16",
    task=r"""
**The gradient walks against the wind.** Wind blows along a ring of `n` places from left to right. In one step of time,
each place takes the fraction $c$ from its left neighbor: $y_i = x_i - c\,(x_i - x_{i-1})$, where the left neighbor of
place 0 is place $n-1$.

A colleague has written the adjoint as a gather: thread $i$ fetches everything that belongs to `dx[i]`, so no atomics
are needed. The test with a gradient that is the same everywhere passed. Still, the result is wrong. Find the fault.
""",
    solution="""
extern "C" __global__ void upwind_backward(const float* dy, float* dx, float c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //> int left = (i + n - 1) % n;
        int right = (i + 1) % n;
        //<
        //> dx[i] = (1 - c) * dy[i] + c * dy[left];
        dx[i] = (1 - c) * dy[i] + c * dy[right];
        //<
    }
}
""",
    hints=[
        "Take place 5 of the ring. Which two results y contain x[5], and with which factors?",
        "x[5] is in y[5], with the factor 1 - c. It is also in the result of a neighbor, whose left "
        "neighbor it is.",
        "The forward step reads from the left, so the adjoint reads dy from the right: place i + 1, and place 0 after "
        "the last one.",
    ],
    wrong=[
        Wrong("(i + 1) % n", "(i + n - 1) % n", "value",
              "That is the index of the forward step, not mirrored: x[i] is in the result of its right neighbor."),
        Wrong("(i + 1) % n", "i + 1", "out-of-bounds",
              "The ring closes: after place n - 1 comes place 0."),
        Wrong("(i + 1) % n", "min(i + 1, n - 1)", "value",
              "The ring closes: the right neighbor of the last place is place 0, not the last place again."),
        Wrong("dx[i] = ", "dx[i] += ", "uninitialised", "dx is not 0 before the launch: a gather writes with =."),
        Wrong("+ c * dy[right]", "- c * dy[right]", "value",
              "The neighbor's result is (1 - c) times its own value plus c times this one: the sign is plus."),
        Wrong("(i + 1) % n;\n        dx[i] = (1 - c) * dy[i] + c * dy[right]",
              "(i + n - 1) % n;\n        dx[i] = (1 - c) * dy[i] - c * dy[right]", "value",
              "The sign was right: x[i] comes with +c into its neighbor's result. Which neighbor is that?"),
        Wrong("(1 - c)", "(1 + c)", "value", "A place gives the fraction c away and keeps 1 - c."),
        Wrong("(1 - c) * dy[i]", "dy[i]", "value",
              "x[i] is in y[i] twice: as x[i], and in -c * x[i]. Together that is 1 - c."),
        Wrong("c * dy[right]", "dy[right]", "value", "Only the fraction c of this place arrives at its neighbor."),
        Wrong("(1 - c) * dy[i] + c * dy[right]", "c * dy[i] + (1 - c) * dy[right]", "value",
              "The two factors are exchanged: a place keeps 1 - c, and its neighbor takes c."),
        Wrong("i < n", "i < n - 1", "never-written", "On a ring every place has a right neighbor, the last one too."),
        Wrong("dx[i] = (1 - c) * dy[i] + c * dy[right]",
              "dx[i] = (1 - c) * dy[i]; __syncthreads(); atomicAdd(&dx[right], c * dy[i])", "missed-barrier",
              "A gather needs no barrier and no atomics. And threads without a place never reach this barrier."),
    ],
    reference=lambda dy: reference(dy, 0.25),
    arguments=lambda dy: {"dx": dy.shape, "c": 0.25, "n": dy.size},
    inputs=[(numbers(n),) for n in (2, 3, 1, 31, 33, 1025)],
    bug=True,
)  # fmt: skip
