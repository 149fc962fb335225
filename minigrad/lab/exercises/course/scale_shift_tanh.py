"""03b: three operations of a network in one kernel, written by hand."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

scale_shift_tanh = KernelExercise(
    "03b",
    task=r"""
**Fuse by hand.** Networks often scale and shift each column of a table and then apply a function to it:

$$y_{ij} = \tanh(x_{ij} \cdot s_j + b_j)$$

One by one these are three kernels, and the table travels to memory and back three times. Write one kernel, with a
thread for each element of the table and `tanhf`, which is CUDA's tanh for a `float`. What lies in between stays in a
register: the busiest thread reads three numbers and writes one. The answer counts.
""",
    solution="""
extern "C" __global__ void scale_shift_tanh(
    const float* x, const float* s, const float* b, float* y, int rows, int cols) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    //> // your code
    if (i < rows && j < cols) {
        y[i * cols + j] = tanhf(x[i * cols + j] * s[j] + b[j]);
    }
    //<
}
""",
    hints=[
        "first the guard: a thread needs a row and a column.",
        "s and b have one number for each column. Which of i and j picks it?",
        "one statement is enough: the product and the sum inside the brackets of tanhf never get a name.",
    ],
    wrong=[
        Wrong("tanhf(x[i * cols + j] * s[j] + b[j])", "tanhf(x[i * cols + j] * s[i] + b[i])", "out-of-bounds",
              "s and b belong to the columns: they are read at j."),
        Wrong("tanhf(x[i * cols + j] * s[j] + b[j])", "tanhf(x[i * cols + j] * (s[j] + b[j]))", "value",
              "First the product, then the sum: x * s + b, without brackets around s + b."),
        Wrong("tanhf(x[i * cols + j] * s[j] + b[j])", "tanhf(x[i * cols + j] * s[j]) + b[j]", "value",
              "The shift belongs inside the brackets: tanh comes last."),
        Wrong("tanhf(x[i * cols + j] * s[j] + b[j])", "tanhf(x[i * cols + j]) * s[j] + b[j]", "value",
              "This scales and shifts the result of tanh: both belong inside the brackets."),
        Wrong("tanhf(x[i * cols + j] * s[j] + b[j])", "x[i * cols + j] * s[j] + b[j]", "value", "tanh is missing."),
        Wrong("x[i * cols + j] * s[j]", "x[i * cols + j]", "value", "The scale is missing."),
        Wrong("y[i * cols + j] = tanhf(x[i * cols + j] * s[j] + b[j]);",
              "y[i * cols + j] = x[i * cols + j] * s[j];\n        y[i * cols + j] += b[j];\n"
              "        y[i * cols + j] = tanhf(y[i * cols + j]);", "wasteful",
              "y takes the place of a register here: each step stores to memory, and the next one reads it again."),
        Wrong("i < rows && j < cols", "i < rows", "out-of-bounds",
              "Threads right of the last column have no element. Ask about the column, too."),
        Wrong("i < rows && j < cols", "j < cols", "out-of-bounds",
              "Threads below the last row have no element. Ask about the row, too."),
        Wrong("i < rows && j < cols", "i < rows - 1 && j < cols", "never-written", "The last row is left out."),
        Wrong("x[i * cols + j]", "x[i * rows + j]", "out-of-bounds",
              "A row of x has cols elements: row i starts at i * cols."),
        Wrong("x[i * cols + j]", "x[j * rows + i]", "value",
              "Rows lie one after another: element (i, j) is i * cols + j."),
        Wrong("y[i * cols + j] = tanhf", "y[j] = tanhf", "race",
              "All rows are written to the first one. Row i of y starts at i * cols."),
    ],
    limits={"accesses": 1.1},
    reference=lambda x, s, b: np.tanh(x * s + b),
    arguments=lambda x, s, b: {"y": x.shape, "rows": x.shape[0], "cols": x.shape[1]},
    inputs=[
        (numbers(m, n) / 4, numbers(n, seed=1), numbers(n, seed=2))
        for m, n in ((3, 2), (2, 3), (1, 1), (5, 9), (9, 5), (33, 2), (2, 33))
    ],
    sizes="rows cols",
    grid=("cols/WIDE", "rows/HIGH"),
    block=("WIDE", "HIGH"),
    tunables={"WIDE": (8,), "HIGH": (4,)},
)  # fmt: skip
