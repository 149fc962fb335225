"""03: a number that a whole column needs is read once, and kept in a register."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

bias_once = KernelExercise(
    "03",
    task=r"""
**Read it once.** The kernel adds a row $b$ to each row of a table, with one thread for each column:
$y_{ij} = x_{ij} + b_j$. It is right. But the thread asks memory for $b_j$ again at every row, although a register could
hold it. The compiler may not mend that: for all it knows, `y` and `b` could be the same array. Change the kernel so
that the busiest thread makes fewer accesses. The answer counts yours.
""",
    solution="""
extern "C" __global__ void bias_once(const float* x, const float* b, float* y, int rows, int cols) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < cols) {
        //>
        float own = b[j];
        //<
        for (int i = 0; i < rows; ++i) {
            //> y[i * cols + j] = x[i * cols + j] + b[j];
            y[i * cols + j] = x[i * cols + j] + own;
            //<
        }
    }
}
""",
    hints=[
        "which of the three arrays gives the same number in every turn of the loop?",
        "a variable of the thread's own lies in a register. Fill it before the loop starts.",
        "two lines: a float that is set to b[j] above the loop, and its name in place of b[j] inside.",
    ],
    wrong=[
        Wrong("x[i * cols + j] + own", "x[i * cols + j] + b[j]", "wasteful",
              "The loop still reads b[j] at every turn. Use the variable that you have filled before."),
        Wrong("        float own = b[j];\n        for (int i = 0; i < rows; ++i) {\n",
              "        for (int i = 0; i < rows; ++i) {\n            float own = b[j];\n", "wasteful",
              "b[j] is asked for at every turn again. Fill a variable with it once, above the loop."),
        Wrong("y[i * cols + j] = x[i * cols + j] + own;",
              "y[i * cols + j] = x[i * cols + j];\n            y[i * cols + j] += own;", "wasteful",
              "`+=` reads y, which was just written, and writes it again: add before you store."),
        Wrong("    if (j < cols) {\n        float own = b[j];\n", "    float own = b[j];\n    if (j < cols) {\n",
              "out-of-bounds", "Threads without a column read b, too: fill the variable behind the guard."),
        Wrong("float own = b[j];", "float own = b[0];", "value", "Each column has a number of its own: b[j]."),
        Wrong("float own = b[j];", "float own;", "value", "The variable is never filled: it needs the number b[j]."),
        Wrong("float own = b[j];", "int own = b[j];", "value", "An int drops what is behind the point: a float."),
        Wrong("x[i * cols + j] + own", "x[j] + own", "value", "x has rows, too: element (i, j) is x[i * cols + j]."),
        Wrong("x[i * cols + j] + own", "own", "value", "The table itself is missing: add x[i * cols + j]."),
        Wrong("y[i * cols + j] =", "y[j] =", "value", "Every row of y is written: y[i * cols + j]."),
        Wrong("y[i * cols + j] =", "y[i * cols + j] +=", "nan", "y holds nothing yet: store with `=`."),
        Wrong("i < rows", "i < rows - 1", "never-written", "The last row is rows - 1: this loop leaves it out."),
        Wrong("j < cols", "j <= cols", "out-of-bounds", "There is no column cols: the last one is cols - 1."),
    ],
    score="accesses",
    reference=lambda x, b: x + b,
    arguments=lambda x, b: {"y": x.shape, "rows": x.shape[0], "cols": x.shape[1]},
    inputs=[(numbers(m, n), numbers(n, seed=1)) for m, n in ((2, 3), (1, 1), (5, 33), (0, 3), (32, 64))],
    sizes="cols",
)  # fmt: skip
