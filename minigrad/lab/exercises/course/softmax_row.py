"""05: a stable softmax of a row by all threads of a block: two reductions through one shared array."""

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
**Softmax by a block.** For each row of a matrix,

$$y_j = \frac{e^{x_j - M}}{\sum_l e^{x_l - M}}, \qquad M = \max_l x_l$$

$M$ cancels, but without it $e^{1000}$ is infinite, and infinity divided by infinity is `nan`. A block takes a row, and
`x` and `y` already point to its beginning. All threads have found $M$ together: it is in `part[0]`. The tree of the sum
is there, too. Write what goes before it: each thread's share of the sum, in `part`. Then write the results. `part` is
the only shared array, and it is used twice: look who still reads it. `fmaxf` is the larger of two numbers, and
`-INFINITY` is below all of them. `BLOCK` is a power of two.
""",
    solution="""
extern "C" __global__ void softmax_row(const float* x, float* y, int rows, int cols) {
    __shared__ float part[BLOCK];
    int t = threadIdx.x;
    x += blockIdx.x * cols;
    y += blockIdx.x * cols;
    float most = -INFINITY;
    for (int j = t; j < cols; j += BLOCK) {
        most = fmaxf(most, x[j]);
    }
    part[t] = most;
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            part[t] = fmaxf(part[t], part[t + half]);
        }
    }
    __syncthreads();
    //> // the thread's share of the sum
    //> // your code
    most = part[0];
    float sum = 0;
    for (int j = t; j < cols; j += BLOCK) {
        sum += expf(x[j] - most);
    }
    __syncthreads();  // all have read the largest
    part[t] = sum;
    //<
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) {
            part[t] += part[t + half];
        }
    }
    //> // the results
    //> // your code
    __syncthreads();  // the sum is complete
    for (int j = t; j < cols; j += BLOCK) {
        y[j] = expf(x[j] - most) / part[0];
    }
    //<
}
""",
    hints=[
        "the first part has the shape of the loop at the top, with a sum in place of the largest. The second part is a "
        "loop that writes the thread's share of y.",
        "take M into a variable of your own before `part` gets other numbers. A fast thread may put its sum there "
        "while a slow one still reads M: what has to stand between the two?",
        "after the tree of the sum, every thread reads part[0], which thread 0 has written last. What has to stand "
        "between the two?",
    ],
    wrong=[
        Wrong("    for (int j = t; j < cols; j += BLOCK) {\n        sum += expf(x[j] - most);\n    }\n"
              "    __syncthreads();  // all have read the largest\n    part[t] = sum;\n"
              "    for (int half = BLOCK / 2; half > 0; half /= 2) {\n        __syncthreads();\n"
              "        if (t < half) {\n            part[t] += part[t + half];\n        }\n    }\n"
              "    __syncthreads();  // the sum is complete\n"
              "    for (int j = t; j < cols; j += BLOCK) {\n        y[j] = expf(x[j] - most) / part[0];",
              "    for (int j = 0; j < cols; ++j) {\n        sum += expf(x[j] - most);\n    }\n"
              "    __syncthreads();\n    part[t] = 0;\n"
              "    for (int half = BLOCK / 2; half > 0; half /= 2) {\n        __syncthreads();\n"
              "        if (t < half) {\n            part[t] += part[t + half];\n        }\n    }\n"
              "    for (int j = t; j < cols; j += BLOCK) {\n        y[j] = expf(x[j] - most) / sum;", "wasteful",
              "Every thread adds up the whole row by itself. Share the row out, and add up the shares as a tree."),
        Wrong("    __syncthreads();  // all have read the largest\n", "", "race",
              "A thread puts its sum into `part` while another still reads the largest there. Wait in between."),
        Wrong("    __syncthreads();  // the sum is complete\n", "", "race",
              "Thread 0 finishes the sum in the last round, and all others read it: wait before they do."),
        Wrong("    most = part[0];\n    float sum", "    float sum", "value",
              "`most` is still the largest of this thread's own share. That of the whole row is in part[0]."),
        Wrong("    most = part[0];\n", "    most = 0;\n", "nan",
              "Without the largest taken off, expf overflows to infinity, or all of a row are 0: infinity divided by "
              "infinity and 0 divided by 0 are both nan. M is in part[0]."),
        Wrong("float sum = 0", "float sum", "uninitialised",
              "A variable of your own begins with whatever lies in its place. Set it: float sum = 0."),
        Wrong("sum += expf(x[j] - most)", "sum += x[j] - most", "value",
              "What is added up are the exponentials: expf(x[j] - most)."),
        Wrong("y[j] = expf(x[j] - most) / part[0]", "y[j] = expf(x[j] - most) / sum", "value",
              "`sum` is the share of this thread. That of the whole row is in part[0] after the tree."),
        Wrong("y[j] = expf(x[j] - most) / part[0]", "y[j] = expf(x[j]) / part[0]", "value",
              "The largest is taken off above and below the line, or it does not cancel."),
        Wrong(" / part[0]", "", "value", "A row of a softmax adds up to 1: divide by the sum."),
        Wrong("for (int j = t; j < cols; j += BLOCK) {\n        y[j]", "for (int j = 0; j < cols; ++j) {\n        y[j]",
              "race", "Here every thread writes the whole row. Each writes its share: from t, in steps of BLOCK."),
        Wrong("for (int j = t; j < cols; j += BLOCK) {\n        y[j]", "int j = t;\n    if (j < cols) {\n        y[j]",
              "never-written", "A row may be longer than the block: a thread takes t, t + BLOCK, and so on."),
        Wrong("sum = 0;\n    for (int j = t; j < cols; j += BLOCK) {", "sum = 0;\n    for (int j = 0; j < cols; ++j) {",
              "value", "Here every thread adds up the whole row, and the tree counts it BLOCK times: take a share."),
    ],
    reference=reference,
    arguments=lambda x: {"y": x.shape, "rows": x.shape[0], "cols": x.shape[1]},
    inputs=[(numbers(*shape),) for shape in ((2, 3), (1, 1), (33, 5), (0, 3), (6, 600))]
    + [(1000 * numbers(5, 4),), (numbers(33, 3) - 1e6,)],
    grid=("rows",),
    sizes="rows",
    through=("part",),
    tunables={"BLOCK": (32, 1, 8)},
    op=AsOp("softmax", unfit=rows_of_a_matrix),
)  # fmt: skip
