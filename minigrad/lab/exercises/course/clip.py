"""01: clip, and its result for NaN."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def with_nan(n: int) -> np.ndarray:
    """Numbers, the last of them NaN from a size of 3 on."""
    x = numbers(n)
    x[2:][-1:] = np.nan
    return x


clip = KernelExercise(
    "01",
    task=r"""
**Clip.** Keep every number between two limits.

$$y_i = \min(\max(x_i, \text{low}), \text{high})$$

A calculation that went wrong leaves `nan`, *not a number*, in an array. Clipping must not hide it: where $x_i$ is
`nan`, $y_i$ is `nan` as well, as in `np.clip`. (`fminf` and `fmaxf` of CUDA C++ would take the other number.)
""",
    solution="""
extern "C" __global__ void clip(const float* x, float* y, float low, float high, int n) {
    //> // your code
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        y[i] = v < low ? low : v > high ? high : v;
    }
    //<
}
""",
    hints=[
        "the line with i and the guard are those of every kernel with one thread for each element.",
        "condition ? a : b is C++ for `a if condition else b`. Every comparison with nan is false.",
        "read x[i] once, into a variable: float v = x[i];",
        "v < low ? low : ... takes care of the lower limit. What goes in place of the dots?",
    ],
    wrong=[
        Wrong("v < low ? low : v > high ? high : v", "fminf(fmaxf(v, low), high)", "value",
              "fmaxf and fminf take the other number where one is nan. A comparison lets nan through."),
        Wrong("v < low ? low : v", "v < low ? high : v", "value", "What is too small becomes `low`."),
        Wrong("v < low ? low : ", "", "value", "Only the upper limit is kept. There is a lower one."),
        Wrong("v < low ? low : v > high ? high : v", "low < v < high ? v : 0", "value",
              "C++ takes `low < x < high` as `(low < x) < high`, a comparison of 0 or 1. Ask two questions."),
        Wrong("> high ? high : v", "> high ? low : v", "value", "What is too large becomes `high`."),
        Wrong(" : v > high ? high : v", " : v", "value", "Only the lower limit is kept. There is an upper."),
        Wrong("? high : v", "? high : 0", "value", "What lies between the limits stays as it is."),
        Wrong("v > high", "v < high", "value", "What is *above* the upper limit is too large."),
        Wrong("y[i] = v < low ? low : v > high ? high : v;",
              "y[i] = v;\n        if (v < low) { y[i] = low; } else { y[i] = high; }", "value",
              "`else` is for all that is not below low, and most of that is not above high."),
        Wrong("i < n", "i < n - 1", "never-written", "The last element is n - 1: this guard leaves it out."),
        Wrong("if (i < n) ", "", "out-of-bounds", "The last block has threads without an element. Send them home."),
    ],
    reference=lambda x: np.clip(x, -1.0, 2.0),
    arguments=lambda x: {"y": x.shape, "low": -1.0, "high": 2.0, "n": x.size},
    limits={"sectors": 2},
    inputs=[(with_nan(n),) for n in (0, 1, 2, 3, 31, 33, 1023, 1025)],
)  # fmt: skip
