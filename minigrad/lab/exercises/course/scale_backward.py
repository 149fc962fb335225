"""03: the gradient of a column that was broadcast, with two mistakes that square tables of zeros would hide."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

scale_backward = KernelExercise(
    "03",
    task=r"""
**It worked for the square one.** Each row $i$ of a table was scaled by a number of its own:
$y_{ij} = s_i \cdot x_{ij}$. Going back, the portions of a whole row add up:

$$ds_i = \sum_j dy_{ij} \cdot x_{ij}$$

Here is the kernel, one thread for each row. Its author tried it once, on a 4 x 4 table, with luck, and found the right
numbers. Two lines are wrong. Find them and mend them.
""",
    solution="""
extern "C" __global__ void scale_backward(
    const float* dy, const float* x, float* ds, int rows, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows) {
        //> float sum;
        float sum = 0;
        //<
        for (int j = 0; j < cols; ++j) {
            //> sum += dy[i * rows + j] * x[i * rows + j];
            sum += dy[i * cols + j] * x[i * cols + j];
            //<
        }
        ds[i] = sum;
    }
}
""",
    hints=[
        "take a table of 2 rows and 3 columns, and write down which elements thread 1 reads.",
        "in a square table rows and cols are the same number. Where does row i start, if they are not?",
        "and what is in a variable of C++ before anything is stored in it?",
    ],
    wrong=[
        Wrong("float sum = 0;", "float sum;", "uninitialised",
              "`sum` begins with whatever lies in its place, which may be 0 by luck. Set it: float sum = 0."),
        Wrong("float sum = 0;", "int sum = 0;", "value", "An int drops what is behind the point. The sum is a float."),
        Wrong("dy[i * cols + j] * x[i * cols + j]", "dy[i * rows + j] * x[i * rows + j]", "value",
              "Row i starts after i whole rows, of cols elements each: i * cols."),
        Wrong("dy[i * cols + j] * x[i * cols + j]", "dy[i * cols + j] * x[i * rows + j]", "value",
              "Both arrays have rows of cols elements: mend both indices."),
        Wrong("dy[i * cols + j] * x[i * cols + j]", "dy[j * cols + i] * x[j * cols + i]", "value",
              "That is element (j, i): a walk down a column. Row i has the elements i * cols + j."),
        Wrong("dy[i * cols + j] * x[i * cols + j]", "dy[i * cols + j]", "value",
              "Each factor gets the other one: the portion is dy times x."),
        Wrong("dy[i * cols + j] * x[i * cols + j]", "dy[i * cols + j] + x[i * cols + j]", "value",
              "The portion is a product: dy times x."),
        Wrong("sum += dy", "sum = dy", "value", "`=` keeps the last product alone. Add them up: `+=`."),
        Wrong("float sum = 0;", "float sum = ds[i];", "uninitialised",
              "`ds` is not 0 when the kernel starts. The sum starts from 0."),
        Wrong("j < cols", "j <= cols", "out-of-bounds",
              "A row ends at cols - 1: `j <= cols` takes one element of the next row."),
        Wrong("j < cols", "j < rows", "value", "A row has as many elements as there are columns."),
        Wrong("int j = 0", "int j = 1", "value", "Column 0 belongs to the row, too."),
        Wrong("ds[i] = sum", "ds[i] += sum", "uninitialised",
              "`ds` is not 0 when the kernel starts: store the sum with `=`."),
    ],
    bug=True,
    reference=lambda dy, x: (dy * x).sum(axis=1),
    arguments=lambda dy, x: {"ds": dy.shape[:1], "rows": dy.shape[0], "cols": dy.shape[1]},
    inputs=[(numbers(*s), numbers(*s, seed=1)) for s in ((4, 4), (3, 5), (1, 1), (5, 3), (33, 2), (2, 33), (257, 3))],
    sizes="rows",
)  # fmt: skip
