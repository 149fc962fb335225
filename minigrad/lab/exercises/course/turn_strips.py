"""04: the hunt for a bug: a transpose with four rows of threads, tested where every tile is full."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

turn_strips = KernelExercise(
    "04",
    bug=True,
    task=r"""
**Right on Friday.** A tile of `TILE` x `TILE` numbers is turned by `TILE` x 4 threads, so each thread moves several
numbers, four rows apart. The kernel was tested with matrices of 64 x 64, 128 x 256 and 1024 x 1024, and every number
was right. On Monday it met one of 31 x 33. Find what is at fault, fix it, and leave alone what is right.
""",
    solution="""
extern "C" __global__ void turn_strips(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    for (int i = 0; i < TILE; i += 4) {
        if (row + i < rows && col < cols) {
            tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * cols + col];
        }
    }
    __syncthreads();
    row = blockIdx.y * TILE + threadIdx.x;
    col = blockIdx.x * TILE + threadIdx.y;
    for (int i = 0; i < TILE; i += 4) {
        //> if (row < rows && col < cols) {
        if (row < rows && col + i < cols) {
        //<
            y[(col + i) * rows + row] = tile[threadIdx.x][threadIdx.y + i];
        }
    }
}
""",
    hints=[
        "64 x 64 is full tiles only. What is different in the last row and the last column of blocks of 31 x 33?",
        "each of the two loops has a guard. Compare a guard with the element that is touched under it: are these the "
        "same row and the same column?",
        "in the second loop `row` belongs to threadIdx.x and `col` to threadIdx.y. The loop runs over one of the two.",
    ],
    wrong=[
        Wrong("row < rows && col + i < cols", "row + i < rows && col < cols", "never-written",
              "The guard asks for row + i and col, but under it stand row and col + i."),
        Wrong("row < rows && col + i < cols", "row < rows && col < cols", "out-of-bounds",
              "The loop goes on from col to col + i: the guard has to ask for that one."),
        Wrong("row < rows && col + i < cols", "row + i < rows && col + i < cols", "never-written",
              "row does not move in this loop. With row + i the guard leaves out numbers that exist."),
        Wrong("row < rows && col + i < cols", "row < rows", "out-of-bounds",
              "Half of a guard: the last tile may hang over both edges."),
        Wrong("row < rows && col + i < cols", "col + i < cols", "out-of-bounds",
              "Half of a guard: the last tile may hang over both edges."),
        Wrong("row < rows && col + i < cols", "row < cols && col + i < rows", "race",
              "`row` is a row of x, of which there are `rows`; y has them as columns, and the name stays."),
        Wrong("row < rows && col + i < cols", "row <= rows && col + i <= cols", "out-of-bounds",
              "Rows are counted from 0: the last one is rows - 1."),
        Wrong("row + i < rows && col < cols", "row < rows && col < cols", "out-of-bounds",
              "The guard of the first loop was right: it reads row + i."),
        Wrong("    __syncthreads();\n", "", "race",
              "The barrier was right: a thread writes what others have read."),
        Wrong("(col + i) * rows + row", "(col + i) * cols + row", "out-of-bounds",
              "This was right: a row of y has as many numbers as x has rows."),
        Wrong("tile[threadIdx.x][threadIdx.y + i]", "tile[threadIdx.y + i][threadIdx.x]", "value",
              "This was right: the exchanged indices turn the tile."),
        Wrong("(col + i) * rows + row", "col * rows + row + i", "race",
              "Four threads further is a row of y further, and not a column."),
    ],
    reference=lambda x: x.T,
    arguments=lambda x: {"y": x.shape[::-1], "rows": x.shape[0], "cols": x.shape[1]},
    inputs=[(numbers(*shape),) for shape in ((8, 8), (1, 1), (2, 3), (1, 33), (31, 33), (0, 3), (65, 6))],
    grid=("cols/TILE", "rows/TILE"),
    block=("TILE", "4"),
    sizes="rows cols",
    tunables={"TILE": (8, 4, 32)},
)  # fmt: skip
