"""06: a product with a transpose through tiles: which element a thread copies, and which ones it multiplies."""

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import two_matrices

SHAPES = ((1, 1, 1), (8, 8, 8), (9, 7, 17), (3, 5, 16), (2, 2, 0), (17, 20, 33))

matmul_tile = KernelExercise(
    "06",
    task=r"""
**A tiled product with a transpose.** $c = a\,b^T$ with $a$ of shape $(m, k)$ and $b$ of shape $(n, k)$: both are read
along their rows, as in the gradient of $a$ above.

$$c_{ij} = \sum_p a_{ip}\, b_{jp}$$

A block makes a tile of `TILE` x `TILE` elements of $c$ and walks along $k$ in steps of `TILE`. Write a step: copy a
tile of $a$ and a tile of $b$, one element of each for a thread, and add the products. The sums must be right, and
neighboring threads (`threadIdx.x`) have to read neighbors in memory, from $a$ and from $b$. Where a matrix has no
such element, put 0 into the tile.
""",
    solution="""
extern "C" __global__ void matmul_tile(
    const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float a_tile[TILE][TILE + 1], b_tile[TILE][TILE + 1];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int start = 0; start < k; start += TILE) {
        //> // your code
        int b_row = blockIdx.x * TILE + y;
        a_tile[y][x] = row < m && start + x < k ? a[row * k + start + x] : 0;
        b_tile[y][x] = b_row < n && start + x < k ? b[b_row * k + start + x] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) {
            sum += a_tile[y][i] * b_tile[x][i];
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
        "the block needs the rows of b from blockIdx.x * TILE on, and of each the same columns as of a. A thread "
        "copies an element for others: it need not be of its own row.",
        "neighboring threads copy neighbors of a row of b, so threadIdx.x counts along k and threadIdx.y counts "
        "rows: the row of b that a thread copies is not its `column`.",
        "in the loop, element (row, column) of c needs row y of a_tile and row x of b_tile. Two barriers: one before "
        "the tiles are used, one before they are overwritten.",
    ],
    wrong=[
        Wrong("start + x] : 0;\n        __syncthreads();\n", "start + x] : 0;\n", "race",
              "The products use what other threads copy. Wait for them after the copying: __syncthreads()."),
        Wrong("}\n        __syncthreads();  // before the next step\n", "}\n", "race",
              "A fast thread would overwrite what slow ones still read: wait after the loop, too."),
        Wrong("a_tile[y][i] * b_tile[x][i]", "a_tile[y][i] * b_tile[i][x]", "value",
              "This is a row times a column. b comes transposed: its rows are those of b_tile, and x counts them."),
        Wrong("a_tile[y][i] * b_tile[x][i]", "a_tile[i][y] * b_tile[x][i]", "value",
              "A row of a times a row of b: in a_tile the loop runs along row y, which is a_tile[y][i]."),
        Wrong("a_tile[y][i] * b_tile[x][i]", "a_tile[x][i] * b_tile[y][i]", "value",
              "The rows of c are those of a, and threadIdx.y counts them: a_tile takes y, b_tile takes x."),
        Wrong("row < m && start + x < k ? a[row * k + start + x] : 0", "row < m ? a[row * k + start + x] : 0",
              "out-of-bounds", "The last tile hangs over the end of a row of a: ask for start + x < k as well."),
        Wrong("b_row < n && start + x < k", "column < n && start + x < k", "out-of-bounds",
              "The guard asks for `column`, and the thread copies another row of b: ask for that one."),
        Wrong("b_row * k + start + x", "b_row * n + start + x", "value", "A row of b has k elements."),
        Wrong("b_row = blockIdx.x * TILE + y", "b_row = row", "value",
              "`row` counts the rows of c. The rows of b are the columns of c, which start from blockIdx.x * TILE."),
        Wrong("        int b_row = blockIdx.x * TILE + y;\n", "        int b_row = column;\n", "value",
              "With row `column` and place start + x, threadIdx.x counts both, and the block copies a diagonal. One of "
              "the two has to be counted by threadIdx.y."),
        Wrong("sum +=", "sum =", "value", "`=` keeps the last product alone. Every one is added: `+=`."),
        Wrong("i < TILE", "i < TILE - 1", "value", "The tiles have TILE columns and rows; the last is left out."),
        Wrong("b_tile[y][x] = b_row < n && start + x < k ? b[b_row * k + start + x] : 0",
              "b_tile[x][y] = column < n && start + y < k ? b[column * k + start + y] : 0", "wasteful",
              "Each thread copies from its own row of b, and its neighbor from the next row, k numbers further on. "
              "Let threadIdx.x count along the row."),
    ],
    reference=lambda a, b: a @ b.T,
    arguments=lambda a, b: {"c": (a.shape[0], b.shape[0]), "m": a.shape[0], "n": b.shape[0], "k": a.shape[1]},
    inputs=[(numbers(m, k), numbers(n, k, seed=1)) for m, n, k in SHAPES],
    grid=("n/TILE", "m/TILE"),
    block=("TILE", "TILE"),
    sizes="m n",
    through=("a_tile", "b_tile"),
    limits={"sectors": 1.5},
    tunables={"TILE": (8, 4, 16)},
    op=AsOp("matmul", "a @ b^T", two_matrices),
)  # fmt: skip
