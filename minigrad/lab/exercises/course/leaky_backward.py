"""03: the gradient of an elementwise function."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

leaky_backward = KernelExercise(
    "03",
    task=r"""
**The leaky relu.** `relu` forgets everything about negative numbers. Its *leaky* sister lets a little through:

$$y = x \text{ where } x > 0, \text{ else } 0.1\,x$$

Write the backward kernel: what is $dx$? (`condition ? a : b` is C++ for `a if condition else b`.)
""",
    solution="""
extern "C" __global__ void leaky_backward(const float* dy, const float* x, float* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //> dx[i] = 0;  // <- your rule
        dx[i] = x[i] > 0 ? dy[i] : 0.1f * dy[i];
        //<
    }
}
""",
    hints=[
        "the slope of y is 1 on one side and 0.1 on the other.",
        "a gradient is the slope times dy[i], the gradient that arrives.",
    ],
    wrong=[
        Wrong("? dy[i] : 0.1f * dy[i]", "? 1 : 0.1f", "value", "This is the slope alone. Multiply by dy[i]."),
        Wrong(": 0.1f * dy[i];", ": 0;", "value",
              "Below 0 this is 0, as in relu. The leaky one has a slope of 0.1: 0.1f, for 1/10 is 0 in C++."),
        Wrong("x[i] > 0", "dy[i] > 0", "value", "Which side it is, is asked of x, and not of the gradient."),
        Wrong("x[i] > 0", "x[i] >= 0", "value", "At 0 the formula says `else`, where the slope is 0.1."),
        Wrong("? dy[i] : 0.1f * dy[i]", "? x[i] : 0.1f * x[i]", "value",
              "This is the forward pass once more. The gradient is made from dy."),
        Wrong("x[i] > 0 ? dy[i] : 0.1f * dy[i]", "x[i] > 0 ? 0.1f * dy[i] : dy[i]", "value",
              "The sides are exchanged: above 0 the slope is 1."),
        Wrong("0.1f * dy[i]", "-0.1f * dy[i]", "value",
              "0.1 x falls with x where x falls: its slope is 0.1, on the left side of 0, too."),
        Wrong("0.1f * dy[i]", "dy[i] / 0.1f", "value", "A slope of 0.1 makes the gradient smaller: multiply by 0.1f."),
        Wrong("dx[i] = x[i] > 0 ? dy[i] : 0.1f * dy[i];", "if (x[i] > 0) {\n            dx[i] = dy[i];\n        }",
              "never-written", "Where x is not above 0, nothing is written. There dx is 0.1f * dy[i]."),
        Wrong("i < n", "i < n - 1", "never-written", "The last element is n - 1: this guard leaves it out."),
        Wrong("dx[i] =", "dx[i] +=", "uninitialised", "`+=` reads dx first, and nobody has written it yet."),
    ],
    reference=lambda dy, x: np.where(x > 0, dy, np.float32(0.1) * dy),
    arguments=lambda dy, x: {"dx": x.shape, "n": x.size},
    inputs=[(numbers(n), numbers(n, seed=1) // 3) for n in (0, 1, 2, 3, 31, 33, 1023, 1025)],
)  # fmt: skip
