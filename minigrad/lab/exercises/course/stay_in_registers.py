"""03b: a right kernel that keeps its intermediate results in memory; registers make it move a third."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

stay_in_registers = KernelExercise(
    "03b",
    task=r"""
**Stay in registers.** This kernel is one launch, and it is right: $y = ((x + \tfrac12)^2 + 1) \cdot x$. But it is fused
by name only: as written, every line stores its result to `y`, and the next one reads it again. A compiler removes some
of these accesses, but not all, since `x` and `y` could be the same array. Change the kernel so that a thread reads one
number and writes one. The answer counts the accesses of the busiest thread.
""",
    solution="""
extern "C" __global__ void stay_in_registers(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //> y[i] = x[i] + 0.5f;
        //> y[i] = y[i] * y[i];
        //> y[i] = y[i] + 1;
        //> y[i] = y[i] * x[i];
        float own = x[i];
        float t = own + 0.5f;
        t = t * t + 1;
        y[i] = t * own;
        //<
    }
}
""",
    hints=[
        "a float that is declared in the kernel lies in a register. Which values need one?",
        "x[i] is needed at the beginning and at the end. Read it once, into a variable.",
        "one variable for x[i], one for what becomes of it, and a single store to y[i] in the last line.",
    ],
    wrong=[
        Wrong("y[i] = t * own;", "y[i] = t * x[i];", "wasteful",
              "x[i] is read a second time. Its number is in a variable already."),
        Wrong("float t = own + 0.5f;", "float t = x[i] + 0.5f;", "wasteful",
              "x[i] is read twice. Its number is in a variable already."),
        Wrong("t = t * t + 1;\n        y[i] = t * own;", "y[i] = t * t + 1;\n        y[i] = y[i] * own;", "wasteful",
              "y is still used in place of a register: it is stored, read and stored again."),
        Wrong("t = t * t + 1;", "y[i] = t * t;\n        t = y[i] + 1;", "wasteful",
              "The square makes a trip to memory and back. Keep it in the variable."),
        Wrong("t = t * t + 1;", "t = t * (t + 1);", "value", "First the square, then 1 is added: t * t + 1."),
        Wrong("t = t * t + 1;", "t = t * t;", "value", "The 1 is missing."),
        Wrong("y[i] = t * own;", "y[i] = t * t;", "value", "The last factor is x, and not the value before it."),
        Wrong("y[i] = t * own;", "y[i] = t;", "value", "The last product is missing: times x."),
        Wrong("own + 0.5f", "own + 1 / 2", "value", "1 / 2 is 0 in C++: whole numbers divide to a whole number."),
        Wrong("float t = own + 0.5f;", "int t = own + 0.5f;", "value",
              "An int drops what is behind the point: a float."),
        Wrong("float own = x[i];", "float own = y[i];", "uninitialised", "y holds nothing yet. The input is x."),
        Wrong("y[i] = t * own;", "t = t * own;", "never-written", "At the end the result has to go to y[i]."),
        Wrong("i < n", "i <= n", "out-of-bounds", "The last element is n - 1."),
    ],
    score="accesses",
    reference=lambda x: ((x + np.float32(0.5)) ** 2 + 1) * x,
    arguments=lambda x: {"y": x.shape, "n": x.size},
    inputs=[(numbers(n),) for n in (3, 1, 0, 33, 257)],
)  # fmt: skip
