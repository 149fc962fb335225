"""03: the gradient of a broadcast row: copies going forward become sums going back."""

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import columns_of_a_matrix, reduced

bias_backward = KernelExercise(
    "03",
    task=r"""
**The gradient of a row that was broadcast.** Going forward, a row $b$ is added to every row of a matrix:
$y_{ij} = x_{ij} + b_j$. So going back, the whole column $j$ of $dy$ adds up to

$$db_j = \sum_i dy_{ij}$$

Write the kernel, one thread for each column. `dy` has `rows` rows of `cols` numbers, one row after another in memory:
element $(i, j)$ is `dy[i * cols + j]`.
""",
    solution="""
extern "C" __global__ void bias_backward(const float* dy, float* db, int rows, int cols) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    //> // your code
    if (j < cols) {
        float sum = 0;
        for (int i = 0; i < rows; ++i) {
            sum += dy[i * cols + j];
        }
        db[j] = sum;
    }
    //<
}
""",
    hints=[
        "the guard asks whether there is a column j.",
        "a thread walks down its column: a loop over i, with a sum that starts from 0.",
        "on the way down, j stays and i grows. How far apart in memory are element (i, j) and the one below it?",
        "db[j] is written once, after the loop, by the thread that has the sum.",
    ],
    wrong=[
        Wrong("sum +=", "sum =", "value", "`=` keeps the last row alone. Every row is added: `+=`."),
        Wrong("i * cols + j", "j * rows + i", "value", "Row i starts at i * cols, and j counts on from there."),
        Wrong("i * cols + j", "j * cols + i", "value",
              "dy[j * cols + i] is element (j, i), in row j: this adds up a row. Column j is made of the elements "
              "(0, j), (1, j), (2, j), ..., each a whole row further on."),
        Wrong("i * cols + j", "i * rows + j", "out-of-bounds", "A row has cols elements, so row i starts at i * cols."),
        Wrong("i * cols + j", "i, j", "value",
              "C++ reads `dy[i, j]` as `dy[j]`: the comma drops what is before it. Write dy[i * cols + j]."),
        Wrong("float sum = 0", "float sum", "uninitialised",
              "A variable of your own begins with whatever lies in its place. Set it: float sum = 0."),
        Wrong("float sum = 0", "int sum = 0", "value", "An int drops what is behind the point. The sum is a float."),
        Wrong("sum += dy[i * cols + j];\n        }\n        db[j] = sum;", "db[j] += dy[i * cols + j];\n        }",
              "uninitialised",
              "`db` is not 0 when the kernel starts. Add up in a variable of your own, and write it to db[j] once."),
        Wrong("int i = 0", "int i = 1", "value", "Row 0 belongs to the sum, too."),
        Wrong("i < rows", "i < cols", "value", "A column has as many elements as there are rows."),
        Wrong("db[j] = sum;", "db[j] = sum / rows;", "value", "This is the mean. Gradients are added up."),
        Wrong("if (j < cols) ", "", "out-of-bounds", "The last block has threads without a column. Send them home."),
        Wrong("j < cols", "j < cols - 1", "never-written", "The last column is cols - 1: this guard leaves it out."),
    ],
    reference=lambda dy: dy.sum(axis=0),
    arguments=lambda dy: {"db": dy.shape[1:], "rows": dy.shape[0], "cols": dy.shape[1]},
    inputs=[(numbers(*shape),) for shape in ((1, 1), (2, 1), (3, 2), (1, 33), (33, 31), (0, 3), (3, 0), (5, 1025))],
    sizes="cols",
    op=AsOp("sum", unfit=columns_of_a_matrix, finish=reduced),
)  # fmt: skip
