"""05: a stable softmax: no overflow and no 0 / 0."""

import numpy as np

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import rows_of_a_matrix


def reference(x: np.ndarray) -> np.ndarray:
    """In float64."""
    shifted = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


softmax_row = KernelExercise(
    "05",
    task=r"""
**Softmax of large numbers.** For each row of a matrix,

$$y_j = \frac{e^{x_j - M}}{\sum_l e^{x_l - M}}, \qquad M = \max_l x_l$$

$M$ cancels, but without it $e^{1000}$ is infinite, and infinite by infinite is `nan`. One thread takes a whole row, and
`x` and `y` already point to the beginning of its row. Find $M$, then the sum, then write `y[0]` to `y[cols - 1]`.
""",
    solution="""
extern "C" __global__ void softmax_row(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        x += row * cols;
        y += row * cols;
        //> // your code
        float most = x[0];
        for (int j = 1; j < cols; ++j) {
            most = fmaxf(most, x[j]);
        }
        float sum = 0;
        for (int j = 0; j < cols; ++j) {
            sum += expf(x[j] - most);
        }
        for (int j = 0; j < cols; ++j) {
            y[j] = expf(x[j] - most) / sum;
        }
        //<
    }
}
""",
    hints=[
        "three loops over j, one after another: the largest, the sum, the results.",
        "start the largest from x[0], and not from 0: all numbers of a row may be negative.",
        "sum += expf(x[j] - most), and in the last loop y[j] = expf(x[j] - most) / sum.",
    ],
    wrong=[
        Wrong("most = fmaxf(most, x[j]);", "most = 0;", "nan",
              "Without the largest taken off, expf overflows to infinity, and infinite by infinite is nan."),
        Wrong("float most = x[0]", "float most = 0", "nan",
              "Where all numbers are far below 0, every expf is 0, and 0 / 0 is nan. Start from x[0]."),
        Wrong("float most = x[0];\n        for (int j = 1", "float most = -1000;\n        for (int j = 0", "nan",
              "Whatever number stands here, a row may lie far below it, and then every expf is 0. Start from x[0]."),
        Wrong("float sum = 0", "float sum", "value",
              "A variable of your own begins with whatever lies in its place. Set it: float sum = 0."),
        Wrong("sum +=", "sum =", "value", "`=` keeps the last one alone. Every one is added: `+=`."),
        Wrong("int j = 0; j < cols; ++j) {\n            sum", "int j = 1; j < cols; ++j) {\n            sum", "value",
              "x[0] belongs to the sum, too."),
        Wrong("y[j] = expf(x[j] - most) / sum", "y[j] = expf(x[j]) / sum", "value",
              "The largest is taken off above and below the line, or it does not cancel."),
        Wrong(" / sum", "", "value", "A row of a softmax adds up to 1: divide by the sum."),
        Wrong("fmaxf", "fminf", "nan", "The largest is taken off, and not the smallest: that one overflows again."),
    ],
    reference=reference,
    arguments=lambda x: {"y": x.shape, "rows": x.shape[0], "cols": x.shape[1]},
    inputs=[(numbers(*shape),) for shape in ((1, 1), (2, 3), (33, 5), (0, 3), (3, 65))]
    + [(1000 * numbers(5, 4),), (numbers(33, 3) - 1000,), (numbers(2, 3) - 1e6,)],
    sizes="rows",
    tunables={"BLOCK": (32, 1, 33)},
    op=AsOp("softmax", unfit=rows_of_a_matrix),
)  # fmt: skip
