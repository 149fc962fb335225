"""15b: a kernel with a barrier reversed by hand: the barriers stay between those who write and those who read."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

EDGE = 32  # threads of a block


def reference(x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Block after block: an element is a factor of its own y and of the mirrored one."""
    width = -(-len(x) // EDGE) * EDGE
    s, d = (np.pad(array, (0, width - len(x))).reshape(-1, EDGE) for array in (x, dy))
    return (s[:, ::-1] * (d + d[:, ::-1])).ravel()[: len(x)]


mirror_backward = KernelExercise(
    "15b",
    task="""
**A barrier on the way back.** In each block of `EDGE` threads, a kernel multiplies every number by its mirror image:

```
s[t] = i < n ? x[i] : 0;
__syncthreads();
if (i < n) {
    y[i] = s[t] * s[mirror];
}
```

Write its adjoint by the rules: thread `t` hands one portion to `d_s[t]` and another one to `d_s[mirror]`, and `dx`
comes from `d_s`. No atomics are needed: at any moment, let each element of `d_s` belong to one thread. `d_s` and `dx`
may hold anything when the kernel starts.
""",
    solution="""
extern "C" __global__ void mirror_backward(const float* x, const float* dy, float* dx, int n) {
    __shared__ float s[EDGE], d_s[EDGE];
    int t = threadIdx.x, i = blockIdx.x * EDGE + t, mirror = EDGE - 1 - t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    //> // your code
    float d_y = i < n ? dy[i] : 0;
    d_s[t] = s[mirror] * d_y;
    __syncthreads();
    d_s[mirror] += s[t] * d_y;
    __syncthreads();
    if (i < n) {
        dx[i] = d_s[t];
    }
    //<
}
""",
    hints=[
        "The line y[i] = s[t] * s[mirror] gives each factor the other one times dy[i]. A thread without an element has "
        "a dy of 0, and goes on to the barriers like all others.",
        "Two steps: first all threads store their portion in d_s[t], with =. Then all add theirs to d_s[mirror]. What "
        "has to stand between the two?",
        "Rule 7: one barrier after d_s[t] = ..., since another thread adds to that element next. One more after the "
        "addition, since then thread t reads d_s[t] for dx[i].",
    ],
    wrong=[
        Wrong("d_s[t] = s[mirror] * d_y;\n    __syncthreads();", "d_s[t] = s[mirror] * d_y;", "race",
              "Thread t stores d_s[t], and its mirror image adds to it: the addition has to wait for the store."),
        Wrong("+= s[t] * d_y;\n    __syncthreads();", "+= s[t] * d_y;", "race",
              "dx[i] takes d_s[t], to which the mirror image still adds: wait before you read it."),
        Wrong("    __syncthreads();\n    d_s[mirror] += s[t] * d_y;\n    __syncthreads();\n    if (i < n) {",
              "    if (i < n) {\n        __syncthreads();\n        d_s[mirror] += s[t] * d_y;\n"
              "        __syncthreads();", "missed-barrier",
              "The threads past the end never reach these barriers: let every thread come to them, with a d_y of 0."),
        Wrong("d_s[t] = s[mirror]", "d_s[t] += s[mirror]", "uninitialised",
              "A shared array starts with anything in it. The first portion is stored with =."),
        Wrong("d_s[mirror] += s[t]", "d_s[mirror] = s[t]", "value",
              "This throws away the first portion of that element: the second one is added."),
        Wrong("d_s[t] = s[mirror] * d_y", "d_s[t] = s[t] * d_y", "value",
              "Each factor gets the *other* one: d_s[t] gets s[mirror] * d_y."),
        Wrong("d_s[mirror] += s[t] * d_y;", "", "value",
              "s[mirror] is a factor of y[i], too: its portion is missing."),
        Wrong("i < n ? dy[i] : 0", "dy[i]", "out-of-bounds", "The last block hangs over the end: guard dy[i]."),
        Wrong("    if (i < n) {\n        dx[i] = d_s[t];\n    }", "    dx[i] = d_s[t];", "out-of-bounds",
              "The last block hangs over the end: guard dx[i]."),
        Wrong("dx[i] = d_s[t]", "dx[i] = d_s[mirror]", "value",
              "s[t] was filled from x[i], so dx[i] takes d_s[t]."),
        Wrong("dx[i] = d_s[t]", "dx[i] += d_s[t]", "uninitialised",
              "dx may hold anything: one thread owns dx[i], and stores."),
        Wrong("d_s[t] = s[mirror] * d_y", "d_s[t] = s[mirror]", "value",
              "The gradient that arrives is missing: s[mirror] * d_y."),
        Wrong("    d_s[t] = s[mirror] * d_y;\n    __syncthreads();\n    d_s[mirror] += s[t] * d_y;\n",
              "    d_s[t] = 0;\n    __syncthreads();\n    atomicAdd(&d_s[t], s[mirror] * d_y);\n"
              "    atomicAdd(&d_s[mirror], s[t] * d_y);\n", "wasteful",
              "It is right. With a barrier between the two portions, each element has one owner at a time."),
        Wrong("d_s[mirror] += s[t] * d_y;", "atomicAdd(&d_s[mirror], s[t] * d_y);", "wasteful",
              "It is right. After the barrier, only thread t adds to d_s[mirror]: a plain += is enough."),
        Wrong("    float d_y = i < n ? dy[i] : 0;\n    d_s[t] = s[mirror] * d_y;\n    __syncthreads();\n"
              "    d_s[mirror] += s[t] * d_y;\n    __syncthreads();\n    if (i < n) {\n        dx[i] = d_s[t];",
              "    int other = blockIdx.x * EDGE + mirror;\n    if (i < n) {\n"
              "        dx[i] = s[mirror] * (dy[i] + (other < n ? dy[other] : 0));", "unused",
              "Well seen: as a gather it needs no barrier on the way back. Here, practise the rules: now with d_s."),
    ],
    reference=reference,
    arguments=lambda x, dy: {"dx": x.shape, "n": x.size},
    inputs=[(numbers(n), numbers(n, seed=1)) for n in (3, 1, 33, 64, 257)],
    grid=("n/EDGE",),
    block=("EDGE",),
    through=("s", "d_s"),
    tunables={"EDGE": (EDGE,)},
)  # fmt: skip
