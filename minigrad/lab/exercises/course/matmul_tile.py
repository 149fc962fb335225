"""06: a product of matrices through tiles in shared memory."""

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import two_matrices

SHAPES = ((1, 1, 1), (2, 3, 2), (8, 8, 8), (9, 7, 17), (3, 1, 33), (5, 33, 3), (2, 2, 0), (31, 33, 12))

matmul_tile = KernelExercise(
    "06",
    task=r"""
**The inside of a tiled product.** $c = a\,b$ with $a$ of shape $(m, k)$ and $b$ of shape $(k, n)$. A block makes a
tile of `TILE` x `TILE` elements of $c$ and walks along $k$ in steps of `TILE`. Write what happens in a step:

1. each thread copies one element of $a$ and one of $b$ to the tiles; where the matrix has no such element, 0;
2. wait for the others;
3. add the products of row `y` of `a_tile` and column `x` of `b_tile` to `sum`;
4. wait again: the next step overwrites the tiles.
""",
    solution="""
extern "C" __global__ void matmul_tile(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int start = 0; start < k; start += TILE) {
        //> // your code
        a_tile[y][x] = row < m && start + x < k ? a[row * k + start + x] : 0;
        b_tile[y][x] = start + y < k && column < n ? b[(start + y) * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) {
            sum += a_tile[y][i] * b_tile[i][x];
        }
        __syncthreads();  // before the next step
        //<
    }
    if (row < m && column < n) {
        c[row * n + column] = sum;
    }
}
""",
    hints=[
        "thread (x, y) copies element (row, start + x) of a and element (start + y, column) of b.",
        "element (i, j) of a is a[i * k + j], and of b it is b[i * n + j]. condition ? value : 0 gives the value, "
        "or 0 where the condition is false.",
        "sum += a_tile[y][i] * b_tile[i][x] for every i below TILE, and a __syncthreads() before and after it.",
    ],
    wrong=[
        Wrong("column] : 0;\n        __syncthreads();\n", "column] : 0;\n", "race",
              "The products use what other threads copy. Wait for them after the copying: __syncthreads()."),
        Wrong("}\n        __syncthreads();  // before the next step\n", "}\n", "race",
              "A fast thread would overwrite what slow ones still read: wait after the loop, too."),
        Wrong("a_tile[y][i] * b_tile[i][x]", "a_tile[i][y] * b_tile[i][x]", "value",
              "A row of a times a column of b: in a_tile the loop runs along row y, which is a_tile[y][i]."),
        Wrong("row < m && start + x < k ? a[row * k + start + x] : 0", "row < m ? a[row * k + start + x] : 0",
              "out-of-bounds", "The last tile hangs over the end of a row of a: ask for start + x < k as well."),
        Wrong("(start + y) * n", "(start + y) * k", "value", "A row of b has n elements."),
        Wrong("sum +=", "sum =", "value", "`=` keeps the last product alone. Every one is added: `+=`."),
        Wrong("i < TILE", "i < TILE - 1", "value", "The tiles have TILE columns and rows; the last is left out."),
    ],
    reference=lambda a, b: a @ b,
    arguments=lambda a, b: {"c": (a.shape[0], b.shape[1]), "m": a.shape[0], "n": b.shape[1], "k": a.shape[1]},
    inputs=[(numbers(m, k), numbers(k, n, seed=1)) for m, n, k in SHAPES],
    grid=("n/TILE", "m/TILE"),
    block=("TILE", "TILE"),
    sizes="m n",
    through=("a_tile", "b_tile"),
    tunables={"TILE": (8, 4, 16)},
    op=AsOp("matmul", unfit=two_matrices),
)  # fmt: skip
