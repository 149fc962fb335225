"""03b: a fused backward kernel by hand, in which a portion is lost and a sign is wrong."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

bell_backward = KernelExercise(
    "03b",
    task=r"""
**The rules in reverse.** The gradient of $y = x \cdot e^{-x^2}$ was fused by hand, in the manner of the kernel
above: first the values of the way forward, then the rules in reverse.

| forward | rule |
|---|---|
| `t1 = x * x` | `dx += dt1 * x`, twice |
| `t2 = -t1` | `dt1 = -dt2` |
| `t3 = exp(t2)` | `dt2 = dt3 * t3` |
| `y = x * t3` | `dx = dy * t3` and `dt3 = dy * x` |

Two lines of the kernel break a rule. Find them and mend them.
""",
    solution="""
extern "C" __global__ void bell_backward(const float* dy, const float* x, float* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float t1 = x[i] * x[i];
        float t2 = -t1;
        float t3 = expf(t2);
        float total = dy[i] * t3;
        float dt3 = dy[i] * x[i];
        float dt2 = dt3 * t3;
        //> float dt1 = dt2;
        float dt1 = -dt2;
        //<
        //> total = 2 * dt1 * x[i];
        total += 2 * dt1 * x[i];
        //<
        dx[i] = total;
    }
}
""",
    hints=[
        "go up the table from its last row, and hold each line of the kernel against its rule. Two lines differ, and "
        "the answer stays wrong until both are mended.",
        "x is used in two places, as a factor of y and in t1. What happens to the first of its portions?",
        "copies going forward are added up going back: `+=`. And the rule of a minus sign is a minus sign.",
    ],
    wrong=[
        Wrong("float dt1 = -dt2;", "float dt1 = dt2;", "value",
              "t2 is minus t1, so its gradient comes back with a minus."),
        Wrong("total += 2 * dt1", "total = 2 * dt1", "value",
              "The portion of the factor x is forgotten here. Portions are added up: `+=`."),
        Wrong("total += 2 * dt1", "total -= 2 * dt1", "value",
              "Portions are added. The minus sign belongs to the rule of t2 = -t1, and there alone."),
        Wrong("total += 2 * dt1 * x[i]", "total += dt1 * x[i]", "value",
              "x is used twice in x * x, so it gets two portions there: 2 * dt1 * x."),
        Wrong("total += 2 * dt1 * x[i]", "total += 2 * dt1", "value",
              "Each factor of x * x gets the other one: the portion has the factor x."),
        Wrong("float dt2 = dt3 * t3;", "float dt2 = dt3 * t2;", "value", "exp keeps its own result: the factor is t3."),
        Wrong("float dt2 = dt3 * t3;", "float dt2 = t3;", "value", "What arrives is missing: dt3."),
        Wrong("float dt3 = dy[i] * x[i];", "float dt3 = dy[i] * t3;", "value",
              "Each factor of x * t3 gets the other one: t3 gets x."),
        Wrong("float total = dy[i] * t3;", "float total = dy[i];", "value",
              "Each factor of x * t3 gets the other one: x gets t3."),
        Wrong("float total = dy[i] * t3;", "float total = 0;", "value",
              "The factor x of the product gets a portion, too."),
        Wrong("dx[i] = total;", "dx[i] += total;", "uninitialised", "dx holds nothing yet: store with `=`."),
        Wrong("float t2 = -t1;", "float t2 = t1;", "value", "The way forward was right: the exponent is minus x * x."),
    ],
    bug=True,
    reference=lambda dy, x: dy * (1 - 2 * x * x) * np.exp(-x * x),
    arguments=lambda dy, x: {"dx": x.shape, "n": x.size},
    inputs=[(numbers(n, seed=1), numbers(n) / 4) for n in (3, 1, 0, 33, 257)],
)  # fmt: skip
