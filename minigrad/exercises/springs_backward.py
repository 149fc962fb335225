"""15: the adjoint of a kernel by hand, where neighbours add to one place: the value alone does not show the mistake."""

import numpy as np

from minigrad.array import Array
from minigrad.kernel import Kernel
from minigrad.workbook import KernelExercise, Wrong, numbers


def launch(kernel: Kernel, x: Array, k: Array, dy: Array) -> Array:
    dx = Array.zeros(x.device, x.shape, x.dtype)
    kernel.launch(x.size)(x, k, dy, dx, x.size)
    return dx


def reference(x: np.ndarray, k: np.ndarray, dy: np.ndarray) -> np.ndarray:
    pull = k * np.diff(x) * dy
    return np.concatenate([[0.0], pull]) - np.concatenate([pull, [0.0]])


springs_backward = KernelExercise(
    "15",
    task=r"""
**The missing atomics.** A chain of $n$ weights at the places $x_0, x_1, \dots$, with a spring between neighbours.
Thread $i$ computes the energy of spring $i$:

```
if (i < n - 1) {
    float stretch = x[i + 1] - x[i];
    y[i] = 0.5f * k[i] * stretch * stretch;
}
```

Its adjoint with respect to `x` should add up the forces. Somebody has written it by the rules: the lines are reversed,
each read has become an addition. In a single test the values were right. Still there is a mistake in the marked line.
`dx` is full of zeros at the start. Mend it.
""",
    solution="""
extern "C" __global__ void springs_backward(const float* x, const float* k, const float* dy, float* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) {
        float stretch = x[i + 1] - x[i];
        float d_stretch = k[i] * stretch * dy[i];
        //> dx[i + 1] += d_stretch; dx[i] -= d_stretch;  // <- change this line
        atomicAdd(&dx[i + 1], d_stretch);
        atomicAdd(&dx[i], -d_stretch);
        //<
    }
}
""",
    hints=[
        "Which threads add to dx[5]? Write down what thread 4 and thread 5 do.",
        "`+=` reads, adds and writes. Between the reading and the writing of one thread, its neighbour may write.",
        "Thread 4 adds to dx[5] by the first of the two statements, thread 5 by the second: both need atomicAdd.",
        "atomicAdd(&dx[i], -d_stretch) takes away: there is no atomic subtraction for floats, and none is needed.",
    ],
    wrong=[
        Wrong("atomicAdd(&dx[i + 1], d_stretch)", "dx[i + 1] += d_stretch", "race",
              "The next thread adds to dx[i + 1] as well, by its other statement. An atomic on one side is no help: "
              "the plain += may still write back a sum that it read before."),
        Wrong("atomicAdd(&dx[i], -d_stretch)", "dx[i] -= d_stretch", "race",
              "The thread before adds to dx[i] as well, by its other statement. An atomic on one side is no help: "
              "the plain -= may still write back a sum that it read before."),
        Wrong("atomicAdd(&dx[i + 1], d_stretch);\n        atomicAdd(&dx[i], -d_stretch);",
              "dx[i + 1] += d_stretch;\n        __syncthreads();\n        dx[i] -= d_stretch;", "barrier-divergence",
              "Not all threads come to a barrier inside this if. And it would order the threads of one block only: the "
              "last thread of a block and the first of the next share an element, too."),
        Wrong("atomicAdd(&dx[i + 1], d_stretch);\n        atomicAdd(&dx[i], -d_stretch);",
              "dx[i + 1] = d_stretch;\n        atomicAdd(&dx[i], -d_stretch);", "race",
              "What is written with = wipes out the share of the neighbour. All shares count: atomicAdd."),
        Wrong("-d_stretch)", "d_stretch)", "value",
              "stretch is x[i + 1] minus x[i]: the share of x[i] has the other sign."),
        Wrong("k[i] * stretch * dy[i]", "2 * k[i] * stretch * dy[i]", "value",
              "The square gives a factor 2, and the 0.5 of the energy takes it away again."),
        Wrong("k[i] * stretch * dy[i]", "k[i] * stretch", "value",
              "What arrives from behind is missing: each share is multiplied by dy[i]."),
        Wrong("i < n - 1", "i < n", "out-of-bounds",
              "There is a spring less than there are weights: weight n - 1 has no neighbour behind it."),
    ],
    reference=reference,
    launch=launch,
    inputs=[(numbers(n), numbers(n - 1, seed=1), numbers(n - 1, seed=2)) for n in (3, 33, 2, 31, 1023, 1025)],
    grid=("n/BLOCK",),
    block=("BLOCK",),
    sizes="n",
    BLOCK=(32, 1, 33, 256),
)  # fmt: skip
