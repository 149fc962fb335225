"""06: a tiled product in which threads outside of the result leave before their block has loaded its tiles."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

SHAPES = ((8, 8, 8), (1, 1, 1), (16, 8, 24), (9, 7, 17), (3, 1, 33), (5, 33, 3), (31, 33, 12))

early_return = KernelExercise(
    "06",
    task=r"""
**Right for multiples of `TILE`.** This tiled product was tested with matrices of 16 x 16, 64 x 64 and 1024 x 1024. All
numbers were right. Then came a matrix of 9 x 17.

Its author wrote one guard at the top, as in an elementwise kernel, and left the others out. Find what goes wrong at the
edge of the matrix, and fix it. Run the cell as it is to see the first fault.
""",
    solution="""
extern "C" __global__ void early_return(
    const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    //> if (row >= m || column >= n) return;  // nothing to do here
    //<
    float sum = 0;
    for (int start = 0; start < k; start += TILE) {
        //> a_tile[y][x] = start + x < k ? a[row * k + start + x] : 0;
        //> b_tile[y][x] = start + y < k ? b[(start + y) * n + column] : 0;
        a_tile[y][x] = row < m && start + x < k ? a[row * k + start + x] : 0;
        b_tile[y][x] = start + y < k && column < n ? b[(start + y) * n + column] : 0;
        //<
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    //> c[row * n + column] = sum;
    if (row < m && column < n) c[row * n + column] = sum;
    //<
}
""",
    bug=True,
    hints=[
        "a thread that has no element of c may still have work: who loads the numbers that its neighbors need?",
        "a block of 8 x 8 on a matrix c of 9 x 7: in the second block one row of threads is inside. That row needs all "
        "rows of b_tile. Which threads load them?",
        "let all threads go through the loop, to load and to wait. Then each load asks for all that it needs, the row "
        "and the column, and the store asks for both, too.",
    ],
    wrong=[
        Wrong("row < m && start + x < k ? a[row * k + start + x] : 0;\n"
              "        b_tile[y][x] = start + y < k && column < n ? b",
              "start + x < k ? a[row * k + start + x] : 0;\n        b_tile[y][x] = start + y < k ? b", "out-of-bounds",
              "All threads load now, also those below the last row of a and right of the last column of b: each load "
              "needs a second condition, row < m or column < n."),
        Wrong("row < m && start + x < k ? a", "start + x < k ? a", "out-of-bounds",
              "All threads load now, also those below the last row of a: ask for row < m as well."),
        Wrong("row < m && start + x < k ? a", "row < m ? a", "out-of-bounds",
              "The last tile hangs over the right edge of a: ask for start + x < k as well."),
        Wrong("start + y < k && column < n ? b", "start + y < k ? b", "out-of-bounds",
              "All threads load now, also those right of the last column of b: ask for column < n as well."),
        Wrong("start + y < k && column < n ? b", "column < n ? b", "out-of-bounds",
              "The last tile hangs over the lower edge of b: ask for start + y < k as well."),
        Wrong("if (row < m && column < n) c[row", "c[row", "out-of-bounds",
              "Threads without an element of c load and wait, but they must not store."),
        Wrong("if (row < m && column < n) c[row", "if (row < m) c[row", "out-of-bounds",
              "Beyond the last column of c begins its next row, which belongs to others: ask for column < n as well."),
        Wrong("if (row < m && column < n) c[row", "if (column < n) c[row", "out-of-bounds",
              "Below the last row of c its memory ends: ask for row < m as well."),
        Wrong("    float sum = 0;", "    if (row >= m || column >= n) return;\n    float sum = 0;",
              "uninitialised", "Threads that return load nothing: that part of the tiles stays undefined for the others."),
        Wrong("a_tile[y][i] * b_tile[i][x]", "a_tile[i][y] * b_tile[i][x]", "value",
              "This line was right: a row of a_tile times a column of b_tile."),
        Wrong("__syncthreads();\n        for", "for", "race", "The products need numbers that other threads load: wait "
              "for them."),
        Wrong("b_tile[i][x];\n        __syncthreads();", "b_tile[i][x];", "race",
              "The next step overwrites the tiles: all threads must have read them first."),
    ],
    reference=lambda a, b: a @ b,
    arguments=lambda a, b: {"c": (a.shape[0], b.shape[1]), "m": a.shape[0], "n": b.shape[1], "k": a.shape[1]},
    inputs=[(numbers(m, k), numbers(k, n, seed=1)) for m, n, k in SHAPES],
    grid=("n/TILE", "m/TILE"),
    block=("TILE", "TILE"),
    sizes="m n",
    tunables={"TILE": (8, 4)},
)  # fmt: skip
