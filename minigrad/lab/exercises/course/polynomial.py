"""01: intermediate results in a variable, and not in an array of global memory."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(x: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.polynomial.polynomial.polyval(x, c).astype(x.dtype)


polynomial = KernelExercise(
    "01",
    task=r"""
**Go to memory less often.**

$$y_i = c_0 + c_1 x_i + c_2 x_i^2 + c_3 x_i^3 = ((c_3 x_i + c_2) x_i + c_1) x_i + c_0$$

This kernel is right. But it keeps each intermediate result in `y[i]`, which lies in global memory. Your score counts
the reads and writes of the busiest thread, as written: each round of the loop reads `y[i]`, `x[i]` and `c[k]`, and
writes `y[i]`. A compiler leaves out a read where it surely has the value: that of `y[i]`, which the thread has just
written, but not that of `x[i]`, since `x` and `y` may be the same array. The solution has 6, and up to 9 pass.
""",
    solution="""
extern "C" __global__ void polynomial(const float* x, const float* c, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //> y[i] = 0;
        //> for (int k = 3; k >= 0; k--) {
        //>     y[i] = y[i] * x[i] + c[k];
        //> }
        float v = x[i];
        float sum = 0;
        for (int k = 3; k >= 0; k--) {
            sum = sum * v + c[k];
        }
        y[i] = sum;
        //<
    }
}
""",
    hints=[
        "which of the four numbers of a round does the thread have in hand already, from the round before?",
        "a variable, such as `float sum`, is kept in a register, and no other thread can change it.",
        "read x[i] into a variable before the loop, add up in another one, and write y[i] once, after the loop.",
    ],
    wrong=[
        Wrong("float sum = 0;", "float sum;", "uninitialised",
              "`float sum;` begins with whatever lies in its place. Set it to 0."),
        Wrong("float sum = 0", "int sum = 0", "value", "An int drops everything after the decimal point."),
        Wrong("float v", "int v", "value", "An int drops everything after the decimal point."),
        Wrong("int k = 3", "int k = 4", "out-of-bounds", "The four coefficients are c[0] to c[3]."),
        Wrong("int k = 3", "int k = 2", "value", "c[3] is left out."),
        Wrong("k >= 0", "k > 0", "value", "c[0] is left out."),
        Wrong("int k = 3; k >= 0; k--", "int k = 0; k < 4; k++", "value",
              "The round of c[3] comes first: its product is multiplied by x in every later round."),
        Wrong("sum * v + c[k]", "sum + v * c[k]", "value",
              "A round multiplies what is there by x, and then adds the next coefficient."),
        Wrong("sum * v + c[k]", "(sum + c[k]) * v", "value", "c[0] is not multiplied by x: multiply first, then add."),
        Wrong("sum = sum * v + c[k]", "sum += sum * v + c[k]", "value", "A round replaces the sum: =, and not +=."),
        Wrong("c[k]", "c[i]", "value", "There are four coefficients, and round k takes c[k]."),
        Wrong("        y[i] = sum;\n", "", "never-written", "The result has to reach memory once: y[i] = sum."),
        Wrong("i < n", "i <= n", "out-of-bounds", "Elements are counted from 0, so n is one past the last of them."),
        Wrong("blockIdx.x * blockDim.x + ", "", "race",
              "threadIdx.x starts from 0 in every block, so all blocks do the work of the first."),
    ],
    reference=reference,
    arguments=lambda x, c: {"y": x.shape, "n": x.size},
    inputs=[(numbers(n), numbers(4, seed=1)) for n in (3, 2, 31, 33, 257)],
    score="accesses",
    limits={"accesses": 1.5},  # x[i] read in each round is not held against the reader: a compiler reads it once
)  # fmt: skip
