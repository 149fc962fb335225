"""05: the gradient of a gather is a scatter: every read becomes an addition, atomic where threads share a target."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

ROWS = 10  # elements of x and dx


def places(n: int) -> np.ndarray:
    """The source of each of n gathered elements; many share one."""
    return np.random.default_rng(n).integers(0, ROWS, n).astype(np.int32)


gather_backward = KernelExercise(
    "05",
    task=r"""
**Gather, and its gradient.** Going forward, element $i$ is fetched from some place: `y[i] = x[index[i]]`. Several
threads may read the same element of `x`. So going back, several threads add to the same element of `dx`:

$$dx_p = \sum_{i:\, \text{index}_i = p} dy_i$$

Write the kernel, one thread for each element of `dy`. `dx` is full of zeros already. The result alone does not tell
whether it is right: the check also looks for threads that get in each other's way.
""",
    solution="""
extern "C" __global__ void gather_backward(const float* dy, const int* index, float* dx, int n) {
    //> // your code
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&dx[index[i]], dy[i]);
    }
    //<
}
""",
    hints=[
        "i counts the elements of dy. The place in dx is index[i].",
        "`dx[p] += v` reads, adds and writes: another thread may write in between, and its part is lost.",
        "atomicAdd(&dx[p], v) does the three steps as one.",
    ],
    wrong=[
        Wrong("atomicAdd(&dx[index[i]], dy[i])", "dx[index[i]] += dy[i]", "race",
              "Threads with the same index read, add and write at the same time, and parts get lost: use atomicAdd."),
        Wrong("atomicAdd(&dx[index[i]], dy[i])", "dx[index[i]] = dy[i]", "race",
              "Several threads write this element and one of them wins. All of them count: use atomicAdd."),
        Wrong("atomicAdd(&dx[index[i]], dy[i])",
              "atomicExch(&dx[index[i]], atomicAdd(&dx[index[i]], 0.0f) + dy[i])", "value",
              "Each of the two atomics is one step, but what another thread adds between them is overwritten."),
        Wrong("atomicAdd(&dx[index[i]], dy[i])", "atomicAdd(&dx[i], dy[index[i]])", "out-of-bounds",
              "index belongs to dx: dy[i] goes to the place that y[i] came from."),
        Wrong("dy[i])", "1.0f)", "value", "This counts how often an element was read. Add dy[i]."),
        Wrong("i < n", "i < n - 1", "never-written", "The last element is n - 1: this guard leaves it out."),
        Wrong("if (i < n) ", "", "out-of-bounds", "The last block has threads without an element. Send them home."),
        Wrong("blockIdx.x * blockDim.x + ", "", "value",
              "threadIdx.x starts from 0 in every block, so all blocks do the work of the first."),
    ],
    reference=lambda dy, index: np.bincount(index, dy, ROWS),
    arguments=lambda dy, index: {"dx": (ROWS,), "n": dy.size},
    zeros=True,
    inputs=[(numbers(n), places(n)) for n in (3, 33, 1, 0, 31, 1023, 1025)],
)  # fmt: skip
