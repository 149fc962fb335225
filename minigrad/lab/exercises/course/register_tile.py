"""07: a thread that computes a column of elements, with the operand that they share in a register."""

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import two_matrices

SHAPES = ((1, 1, 1), (8, 8, 8), (5, 9, 3), (9, 7, 17), (3, 1, 33), (2, 2, 0), (31, 17, 12))

register_tile = KernelExercise(
    "07",
    task=r"""
**A register tile.** $c = a\,b$, where a thread makes `EACH` elements of $c$ that lie below each other. A block has
`EDGE` x `EDGE / EACH` threads and makes `EDGE` x `EDGE` elements. The tiles are loaded already. Write

1. the products: for each of the `EDGE` steps `i`, all elements of this thread need the same number of `b_tile`. Read it
   once, and keep it in a variable: that is a register. Then add its products to `sum[0]`, `sum[1]`, ...;
2. at the end the stores: `sum[y]` is the element in row `row + y`, where $c$ has one.

The score is the number of reads of shared memory: `EACH + 1` for `EACH` products. The picture of the answer has
`EDGE=16`: a warp spans two rows of threads, and the numbers of `a_tile` that they want lie in one bank. With `EDGE=32`
a warp is one row.
""",
    solution="""
extern "C" __global__ void register_tile(
    const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float a_tile[EDGE][EDGE], b_tile[EDGE][EDGE];
    int x = threadIdx.x, first = threadIdx.y * EACH;
    int row = blockIdx.y * EDGE + first, column = blockIdx.x * EDGE + x;
    float sum[EACH] = {};
    for (int start = 0; start < k; start += EDGE) {
        for (int y = 0; y < EACH; ++y) {
            a_tile[first + y][x] = row + y < m && start + x < k ? a[(row + y) * k + start + x] : 0;
            int i = start + first + y;
            b_tile[first + y][x] = i < k && column < n ? b[i * n + column] : 0;
        }
        __syncthreads();
        //> // your products
        for (int i = 0; i < EDGE; ++i) {
            float b_own = b_tile[i][x];
            for (int y = 0; y < EACH; ++y) {
                sum[y] += a_tile[first + y][i] * b_own;
            }
        }
        //<
        __syncthreads();
    }
    //> // your stores
    for (int y = 0; y < EACH; ++y) {
        if (row + y < m && column < n) {
            c[(row + y) * n + column] = sum[y];
        }
    }
    //<
}
""",
    hints=[
        "all elements of a thread lie in one column of c, and need the same number of b: b_tile[i][x].",
        "two loops, one over i and one over y. Which of them has to be the outer one, if a number of b_tile is to be "
        "read once and used EACH times?",
        "the element in row `first + y` of the tile needs a_tile[first + y][i]. At the end each row is asked for by "
        "itself: some may be inside of c, and others not.",
    ],
    wrong=[
        Wrong("sum[y] += a_tile[first + y][i]", "sum[y] += a_tile[first][i]", "value",
              "Each of the elements has a row of its own in a_tile: first + y."),
        Wrong("b_own = b_tile[i][x]", "b_own = b_tile[x][i]", "value",
              "The sum runs down a column of b: step i is row i of b_tile."),
        Wrong("row + y < m && column < n)", "row < m && column < n)", "out-of-bounds",
              "The first row of a thread may be inside and its last one not: ask for row + y."),
        Wrong("row + y < m && column < n)", "row + y < m)", "out-of-bounds",
              "A column beyond the last one of c is the beginning of its next row: ask for column < n as well."),
        Wrong("sum[y] += a_tile", "sum[y] = a_tile", "value", "Every product is added: `+=`."),
        Wrong("i < EDGE; ++i", "i < EACH; ++i", "value", "A tile is EDGE deep; EACH counts the elements of a thread."),
        Wrong("c[(row + y) * n + column] = sum[y]", "c[(row + y) * n + column] = sum[0]", "value",
              "Every element of the thread has a sum of its own: sum[y]."),
        Wrong("c[(row + y) * n + column] = sum[y]", "c[row * n + column] = sum[y]", "value",
              "All sums go to the first row, one over the other. They lie below each other: row + y."),
        Wrong("sum[y] += a_tile[first + y][i]", "sum[y] += a_tile[y][i]", "value",
              "The rows of a thread start at `first`: without it, all threads of a column make the rows of the first."),
        Wrong("            float b_own = b_tile[i][x];\n            for (int y = 0; y < EACH; ++y) {\n"
              "                sum[y] += a_tile[first + y][i] * b_own;\n",
              "            for (int y = 0; y < EACH; ++y) {\n"
              "                sum[y] += a_tile[first + y][i] * b_tile[i][x];\n", "wasteful",
              "Every product reads two numbers of shared memory, and that of b_tile is the same for all y. Read it "
              "before the inner loop into a variable."),
        Wrong("for (int i = 0; i < EDGE; ++i) {\n            float b_own = b_tile[i][x];\n"
              "            for (int y = 0; y < EACH; ++y) {\n",
              "for (int y = 0; y < EACH; ++y) {\n            for (int i = 0; i < EDGE; ++i) {\n"
              "                float b_own = b_tile[i][x];\n", "wasteful",
              "With y outside, the whole column of b_tile is read again for each y. Exchange the loops: i outside."),
    ],
    reference=lambda a, b: a @ b,
    arguments=lambda a, b: {"c": (a.shape[0], b.shape[1]), "m": a.shape[0], "n": b.shape[1], "k": a.shape[1]},
    inputs=[(numbers(m, k), numbers(k, n, seed=1)) for m, n, k in SHAPES],
    grid=("n/EDGE", "m/EDGE"),
    block=("EDGE", "EDGE/EACH"),
    sizes="m n",
    through=("a_tile", "b_tile"),
    score="shared_reads",
    tunables={"EDGE": (8, 16), "EACH": (4, 2)},
    op=AsOp("matmul", unfit=two_matrices),
)  # fmt: skip
