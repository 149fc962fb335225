"""03: a thread for each element of a table: rows and columns from the two indices of a thread."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

outer_product = KernelExercise(
    "03",
    task=r"""
**A table of products.** A column $a$ of `rows` numbers times a row $b$ of `cols` numbers, by broadcasting:

$$y_{ij} = a_i \cdot b_j$$

Write the kernel with a thread for each element of the table. Blocks have 8 x 4 threads: `threadIdx.x` counts along a
row, `threadIdx.y` down the rows. The grid is just large enough, so at its edges there are threads without an element,
on two sides.
""",
    solution="""
extern "C" __global__ void outer_product(
    const float* a, const float* b, float* y, int rows, int cols) {
    //> // your code
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < rows && j < cols) {
        y[i * cols + j] = a[i] * b[j];
    }
    //<
}
""",
    hints=[
        "the first line is as in every kernel so far: the place of the thread across. Then the same with y in place of "
        "x: the place down.",
        "a thread needs an element in both directions: two questions in one guard, joined by &&.",
        "element (i, j) lies i whole rows and j elements from the start of y. How many elements has a row?",
    ],
    wrong=[
        Wrong("i * cols + j", "i * rows + j", "race", "A row of y has cols elements, so row i starts at i * cols."),
        Wrong("i * cols + j", "j * rows + i", "value",
              "This writes the table column by column. Here rows lie one after another: i * cols + j."),
        Wrong("i * cols + j", "i + j", "race", "Different elements land in one place. Row i starts at i * cols."),
        Wrong("i * cols + j", "i, j", "race",
              "C++ reads `y[i, j]` as `y[j]`: the comma drops what is before it. Write y[i * cols + j]."),
        Wrong("i < rows && j < cols", "i < rows", "out-of-bounds",
              "Threads right of the last column have no element of b. Ask about the column, too."),
        Wrong("i < rows && j < cols", "j < cols", "out-of-bounds",
              "Threads below the last row have no element of a. Ask about the row, too."),
        Wrong("if (i < rows && j < cols) ", "", "out-of-bounds", "Two edges have threads without an element: a guard."),
        Wrong("i < rows && j < cols", "i < rows || j < cols", "out-of-bounds",
              "`||` is or. A thread needs a row and a column: `&&`."),
        Wrong("i < rows && j < cols", "i < cols && j < rows", "out-of-bounds",
              "i counts rows, and j counts columns: the two limits are exchanged."),
        Wrong("i < rows && j < cols", "i * cols + j < rows * cols", "out-of-bounds",
              "A thread right of the last column has such a number, too, and it belongs to the next row."),
        Wrong("int j = blockIdx.x * blockDim.x + threadIdx.x;\n    int i = blockIdx.y * blockDim.y + threadIdx.y;",
              "int i = blockIdx.x * blockDim.x + threadIdx.x;\n    int j = blockIdx.y * blockDim.y + threadIdx.y;",
              "never-written", "x counts across and gives the column j; y counts down and gives the row i."),
        Wrong("blockIdx.y * blockDim.y", "blockIdx.y * blockDim.x", "never-written",
              "Down the rows a block is blockDim.y threads high: rows between the blocks are left out."),
        Wrong("blockIdx.y * blockDim.y + threadIdx.y", "threadIdx.y", "race",
              "Every block below the first one starts at row 0 again: add blockIdx.y * blockDim.y."),
        Wrong("a[i] * b[j]", "a[j] * b[i]", "out-of-bounds", "The column a has a number for each row: a[i]."),
        Wrong("a[i] * b[j]", "a[i] + b[j]", "value", "The table has products."),
    ],
    reference=lambda a, b: a[:, None] * b,
    arguments=lambda a, b: {"y": (a.size, b.size), "rows": a.size, "cols": b.size},
    inputs=[(numbers(m), numbers(n, seed=1)) for m, n in ((2, 3), (1, 1), (4, 8), (5, 9), (9, 5), (1, 33), (33, 2))],
    sizes="rows cols",
    grid=("cols/WIDE", "rows/HIGH"),
    block=("WIDE", "HIGH"),
    tunables={"WIDE": (8,), "HIGH": (4,)},
)  # fmt: skip
