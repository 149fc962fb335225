"""15: a scatter turned into a gather: each element of the gradient gets an owner, and the atomics go."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(dy: np.ndarray) -> np.ndarray:
    dx = np.zeros_like(dy)
    for i in range(1, len(dy) - 1):  # as the kernel runs: each y hands out three portions
        dx[i - 1 : i + 2] += np.array([0.25, 1, 0.5], np.float32) * dy[i]
    return dx


blend_backward = KernelExercise(
    "15",
    task="""
**Without a single atomic.** A kernel blends three neighbors, and leaves out the first and the last element of `y`:

```
if (i > 0 && i < n - 1) {
    y[i] = 0.25f * x[i - 1] + x[i] + 0.5f * x[i + 1];
}
```

The adjoint below is right: each thread takes one `dy[i]` and hands out three portions. Turn it around. Let thread `i`
own `dx[i]`, collect its three portions in a variable, and store the sum. The elements `dy[0]` and `dy[n - 1]` hold
numbers, but no `y` belongs to them. `dx` is full of zeros when the kernel starts.
""",
    solution="""
extern "C" __global__ void blend_backward(const float* dy, float* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //> if (i > 0 && i < n - 1) {
    //>     atomicAdd(&dx[i - 1], 0.25f * dy[i]);
    //>     atomicAdd(&dx[i], dy[i]);
    //>     atomicAdd(&dx[i + 1], 0.5f * dy[i]);
    //> }
    if (i < n) {
        float sum = 0;
        if (i > 1) sum += 0.5f * dy[i - 1];
        if (i > 0 && i < n - 1) sum += dy[i];
        if (i < n - 2) sum += 0.25f * dy[i + 1];
        dx[i] = sum;
    }
    //<
}
""",
    hints=[
        "Which threads of the forward kernel read x[5]? Each of them has a dy, and a weight.",
        "Thread 4 reads x[5] as its right neighbor, with weight 0.5. So dx[5] collects 0.5 times dy[4]: left and "
        "right change sides.",
        "Each of the three portions needs a guard of its own, since dy[0] and dy[n - 1] count for nothing: dy[i - 1] "
        "is good from i = 2 on, and dy[i + 1] up to i = n - 3. The threads 0 and n - 1 own an element, too.",
    ],
    score="atomics",
    wrong=[
        Wrong("i > 1", "i > 0", "value", "dy[0] belongs to no y: the portion of dy[i - 1] begins at i = 2."),
        Wrong("i > 1", "true", "out-of-bounds", "Thread 0 has no left neighbor: dy[i - 1] needs a guard, i > 1."),
        Wrong("i < n - 2", "i < n - 1", "value",
              "dy[n - 1] belongs to no y: the portion of dy[i + 1] ends at i = n - 3."),
        Wrong("i < n - 2", "true", "out-of-bounds",
              "Thread n - 1 has no right neighbor: dy[i + 1] needs a guard, i < n - 2."),
        Wrong("if (i > 0 && i < n - 1) sum", "sum", "value",
              "y[0] and y[n - 1] are not computed: in the middle portion, too, dy[0] and dy[n - 1] count for nothing."),
        Wrong("if (i < n) {", "if (i > 0 && i < n - 1) {", "never-written",
              "x[0] and x[n - 1] are read by a neighbor: their gradients need an owner as well."),
        Wrong("if (i > 1) sum += 0.5f * dy[i - 1];\n        if (i > 0 && i < n - 1) sum += dy[i];\n"
              "        if (i < n - 2) sum += 0.25f * dy[i + 1];",
              "if (i > 1) sum += 0.25f * dy[i - 1];\n        if (i > 0 && i < n - 1) sum += dy[i];\n"
              "        if (i < n - 2) sum += 0.5f * dy[i + 1];", "value",
              "The neighbors change sides: x[i] is the right neighbor of thread i - 1, with weight 0.5."),
        Wrong("sum += dy[i];", "sum = dy[i];", "value", "= throws away the portion collected before it: add it."),
        Wrong("if (i < n - 2) sum += 0.25f * dy[i + 1];", "", "value",
              "Thread i + 1 reads x[i] as well: its portion is missing."),
        Wrong("i < n) {", "i <= n) {", "out-of-bounds", "The last element is n - 1: the outer guard is i < n."),
        Wrong("float sum = 0", "float sum", "uninitialised",
              "sum starts with whatever lies in its place: set it to 0."),
        Wrong("if (i > 1) sum += 0.5f * dy[i - 1];\n        if (i > 0 && i < n - 1) sum += dy[i];\n"
              "        if (i < n - 2) sum += 0.25f * dy[i + 1];",
              "if (i > 0) sum += 0.5f * dy[i - 1];\n        sum += dy[i];\n"
              "        if (i < n - 1) sum += 0.25f * dy[i + 1];", "value",
              "dy[0] and dy[n - 1] belong to no y, and count for nothing: each portion needs a guard of its own."),
        Wrong("if (i < n) {\n        float sum = 0;\n        if (i > 1) sum += 0.5f * dy[i - 1];\n"
              "        if (i > 0 && i < n - 1) sum += dy[i];\n        if (i < n - 2) sum += 0.25f * dy[i + 1];",
              "if (i > 0 && i < n - 1) {\n        float sum = 0.5f * dy[i - 1] + dy[i] + 0.25f * dy[i + 1];",
              "never-written",
              "dy[0] and dy[n - 1] belong to no y, and the threads 0 and n - 1 own an element, too: the forward guard "
              "does not fit."),
        Wrong("dx[i] = sum;", "dx[i] += dx[(i + 1) % n] + sum;", "race",
              "Thread i owns dx[i] alone: another thread writes the neighbor's sum at the same time."),
    ],
    reference=reference,
    arguments=lambda dy: {"dx": dy.shape, "n": dy.size},
    zeros=True,
    inputs=[(numbers(n),) for n in (5, 33, 3, 2, 1, 1025)],
)  # fmt: skip
