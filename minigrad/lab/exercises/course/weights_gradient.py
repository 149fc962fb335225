"""06: db = a^T dc with fewer sectors, by tiles of which one is used transposed."""

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import two_matrices

SHAPES = ((1, 1, 1), (8, 8, 8), (9, 7, 17), (3, 1, 33), (33, 5, 3), (16, 17, 12), (40, 16, 16))

weights_gradient = KernelExercise(
    "06",
    task=r"""
**Move fewer sectors.** The other gradient of a product, $db = a^T\,dc$, trains the weights of every layer in notebook
09. $a$ has the shape $(m, k)$, $dc$ $(m, n)$, $db$ $(k, n)$, and the sum runs *down* the columns of both:

$$db_{pj} = \sum_i a_{ip}\, dc_{ij}$$

The kernel in the cell is right. It fetches each number from global memory once for each thread that needs it. Let
the block fetch it once: a tile of $a$ and a tile of $dc$ for every `TILE` rows. Element $(p, j)$ of $db$ belongs to
thread `(x, y)` with `p` from `y` and `j` from `x`. The score counts sectors.
""",
    solution="""
extern "C" __global__ void weights_gradient(
    const float* a, const float* dc, float* db, int m, int n, int k) {
    int x = threadIdx.x, y = threadIdx.y;
    int p = blockIdx.y * TILE + y, j = blockIdx.x * TILE + x;
    //> float sum = 0;
    //> if (p < k && j < n) {
    //>     for (int i = 0; i < m; ++i) {
    //>         sum += a[i * k + p] * dc[i * n + j];
    //>     }
    //> }
    __shared__ float a_tile[TILE][TILE], dc_tile[TILE][TILE];
    int a_column = blockIdx.y * TILE + x;  // neighbors fetch neighbors
    float sum = 0;
    for (int start = 0; start < m; start += TILE) {
        a_tile[y][x] = start + y < m && a_column < k ? a[(start + y) * k + a_column] : 0;
        dc_tile[y][x] = start + y < m && j < n ? dc[(start + y) * n + j] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a_tile[i][y] * dc_tile[i][x];
        __syncthreads();  // before the next tiles
    }
    //<
    if (p < k && j < n) {
        db[p * n + j] = sum;
    }
}
""",
    score="sectors",
    hints=[
        "the loop is that of the tiled product, with one difference: both tiles have the rows `start` to "
        "`start + TILE - 1`, and the sum runs down their columns.",
        "the tile of a has the columns in which the block has its p: from blockIdx.y * TILE on. The thread that loads "
        "a number of it need not be the one that uses it: let x run along the row in memory.",
        "thread (x, y) loads row start + y of both tiles: of a the column blockIdx.y * TILE + x, of dc the column j. "
        "In the loop over i it reads column y of the one tile and column x of the other.",
    ],
    wrong=[
        Wrong("a_column < k ? a[(start + y) * k + a_column]", "p < k && start + x < m ? a[(start + x) * k + p]",
              "value", "This tile of a lies the other way round: then the sum runs along its row."),
        Wrong("a_tile[i][y]", "a_tile[y][i]", "value", "The sum runs down the columns of a: a_tile[i][y]."),
        Wrong("dc_tile[i][x]", "dc_tile[x][i]", "value", "The sum runs down the columns of dc: dc_tile[i][x]."),
        Wrong("a_column = blockIdx.y", "a_column = blockIdx.x", "value",
              "The columns of a that the block needs are those of its p, which come from blockIdx.y."),
        Wrong("start + y < m && a_column < k ?", "start + y < m ?", "out-of-bounds",
              "The tile hangs over the right edge of a: ask for a_column < k."),
        Wrong("start + y < m && j < n ?", "start + y < m ?", "out-of-bounds",
              "The tile hangs over the right edge of dc: ask for j < n."),
        Wrong("start + y < m && j < n ?", "j < n ?", "out-of-bounds",
              "The last tile hangs over the lower edge of dc: ask for start + y < m."),
        Wrong("(start + y) * k + a_column", "(start + y) * n + a_column", "value", "A row of a has k elements."),
        Wrong(": 0;\n        __syncthreads();", ": 0;", "race", "Wait until all threads have loaded their numbers."),
        Wrong("        __syncthreads();  // before the next tiles\n", "", "race",
              "The next step overwrites the tiles: wait until all threads have read them."),
        Wrong("sum += a_tile", "sum = a_tile", "value", "Every product is added: `+=`."),
        Wrong("p < k && j < n) {\n        db", "p < k) {\n        db", "out-of-bounds",
              "Beyond the last column of db begins its next row: ask for j < n."),
    ],
    reference=lambda a, dc: a.T @ dc,
    arguments=lambda a, dc: {"db": (a.shape[1], dc.shape[1]), "m": a.shape[0], "n": dc.shape[1], "k": a.shape[1]},
    inputs=[(numbers(m, k), numbers(m, n, seed=1)) for m, n, k in SHAPES],
    grid=("n/TILE", "k/TILE"),
    block=("TILE", "TILE"),
    sizes="k n",
    tunables={"TILE": (16, 4)},
    op=AsOp("matmul", "a^T @ b", two_matrices),
)  # fmt: skip
