"""15: the adjoint of three lines by hand: backwards, and with every portion."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(a: np.ndarray, b: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """y = ((a + b) a)^2, differentiated as a formula."""
    outer = 2 * (a + b) * a * dy
    return outer * (2 * a + b), outer * a


three_lines_backward = KernelExercise(
    "15",
    task="""
**Three lines, backwards.** In each thread a kernel computes

```
float sum = a[i] + b[i];
float scaled = sum * a[i];
y[i] = scaled * scaled;
```

Write its adjoint: from `dy`, the gradients `da` and `db`. The values of `sum` and `scaled` are there already. Follow
the lines from the last one to the first, and do not look for a formula of the whole. `da` and `db` may hold anything
when the kernel starts.
""",
    solution="""
extern "C" __global__ void three_lines_backward(
    const float* a, const float* b, const float* dy, float* da, float* db, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = a[i] + b[i];
        float scaled = sum * a[i];
        //> // your code: d_scaled, then d_sum, then da[i] and db[i]
        float d_scaled = 2 * scaled * dy[i];
        float d_sum = a[i] * d_scaled;
        db[i] = d_sum;
        da[i] = sum * d_scaled + d_sum;
        //<
    }
}
""",
    hints=[
        "Begin with the last line. It reads scaled twice: how much of dy[i] does scaled get?",
        "The middle line is a product. Each factor gets the other one, times d_scaled: a[i] and sum.",
        "a[i] is read in two lines. One portion comes from the product, the other from the sum. A sum hands d_sum on "
        "as it is. Store both together.",
    ],
    wrong=[
        Wrong(" + d_sum", "", "value", "The first line reads a[i] as well: da[i] lacks the portion from the sum."),
        Wrong("sum * d_scaled", "a[i] * d_scaled", "value",
              "In sum * a[i] each factor gets the other one: a[i] gets sum * d_scaled."),
        Wrong("float d_sum = a[i] *", "float d_sum = sum *", "value",
              "In sum * a[i] each factor gets the other one: sum gets a[i] * d_scaled."),
        Wrong("2 * scaled", "scaled", "value", "scaled * scaled reads scaled twice, so it gets two portions."),
        Wrong("2 * scaled", "2 * sum", "value", "The last line multiplies scaled by itself, and not sum."),
        Wrong(" * dy[i]", "", "value", "What arrives is missing: the first portion is multiplied by dy[i]."),
        Wrong("db[i] = d_sum", "db[i] = d_scaled", "value",
              "b[i] is read by the sum alone. So it gets d_sum, and that takes the line in between."),
        Wrong("db[i] = d_sum", "db[i] = -d_sum", "value", "A sum hands its gradient to both terms as it is."),
        Wrong("db[i] = d_sum", "db[i] += d_sum", "uninitialised",
              "`db` may hold anything when the kernel starts: += adds to that. One thread owns the element, so store."),
        Wrong("db[i] = d_sum;", "", "never-written", "db[i] has no value yet: b[i] gets d_sum."),
        Wrong("i < n", "i <= n", "out-of-bounds", "The last element is n - 1: the guard is i < n."),
        Wrong("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", "race",
              "Every block does the elements of the first one: the index needs blockIdx.x * blockDim.x."),
    ],
    reference=reference,
    arguments=lambda a, b, dy: {"da": a.shape, "db": b.shape, "n": a.size},
    inputs=[(numbers(n), numbers(n, seed=1), numbers(n, seed=2)) for n in (3, 1, 33, 1025)],
)  # fmt: skip
