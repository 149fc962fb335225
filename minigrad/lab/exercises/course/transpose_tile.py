"""04: a transpose through shared memory: a tile, a barrier, and the indices the other way round."""

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import swapped_axes

transpose_tile = KernelExercise(
    "04",
    task="""
**A transpose through a tile.** `x` has `rows` rows of `cols` numbers; `y` has them as columns: $y_{ji} = x_{ij}$.

A block of `TILE` x `TILE` threads has copied its tile of `x` to shared memory. Write the second half: the tile goes to
`y`, and neighbouring threads (`threadIdx.x`) write neighbours in memory. So the element that a thread writes is not the
one that it has read.
""",
    solution="""
extern "C" __global__ void transpose_tile(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    if (row < rows && col < cols) {
        tile[threadIdx.y][threadIdx.x] = x[row * cols + col];
    }
    //> // your code
    __syncthreads();
    int y_row = blockIdx.x * TILE + threadIdx.y;
    int y_col = blockIdx.y * TILE + threadIdx.x;
    if (y_row < cols && y_col < rows) {
        y[y_row * rows + y_col] = tile[threadIdx.x][threadIdx.y];
    }
    //<
}
""",
    hints=[
        "another thread has read what this one writes: wait for it with __syncthreads(), outside of any if.",
        "y has cols rows and rows columns. The block's tile of y starts at row blockIdx.x * TILE and at column "
        "blockIdx.y * TILE; within it threadIdx.x counts along a row.",
        "the element for y's row threadIdx.y and column threadIdx.x of the tile is tile[threadIdx.x][threadIdx.y].",
    ],
    wrong=[
        Wrong("    __syncthreads();\n", "", "race",
              "A thread may write before another has filled its place in the tile. Wait for all: __syncthreads()."),
        Wrong("tile[threadIdx.x][threadIdx.y]", "tile[threadIdx.y][threadIdx.x]", "uninitialised",
              "The tile goes out as it came in. Its rows become columns: exchange the indices."),
        Wrong("blockIdx.x * TILE + threadIdx.y;\n    int y_col = blockIdx.y",
              "blockIdx.y * TILE + threadIdx.y;\n    int y_col = blockIdx.x", "never-written",
              "The tile below the diagonal of x lies above that of y: blockIdx.x counts the rows of y."),
        Wrong("y_row * rows", "y_row * cols", "out-of-bounds", "A row of y has as many elements as x has rows."),
        Wrong("if (y_row < cols && y_col < rows) ", "", "out-of-bounds",
              "Tiles hang over the edges of y. Ask whether the element exists before it is written."),
        Wrong("y_row < cols && y_col < rows", "row < rows && col < cols", "race",
              "The guard asks for the element of x, but the one of y is another: it needs a guard of its own."),
        Wrong("y_col < rows", "y_col < rows - 1", "never-written", "The last column of y is rows - 1: it is left out."),
        Wrong("    }\n    __syncthreads();\n", "        __syncthreads();\n    }\n", "barrier-divergence",
              "Threads without an element never reach this barrier, and the others wait for ever. Put it outside."),
    ],
    reference=lambda x: x.T,
    arguments=lambda x: {"y": x.shape[::-1], "rows": x.shape[0], "cols": x.shape[1]},
    inputs=[(numbers(*shape),) for shape in ((1, 1), (2, 3), (8, 8), (1, 33), (31, 33), (0, 3), (1025, 3))],
    grid=("cols/TILE", "rows/TILE"),
    block=("TILE", "TILE"),
    sizes="rows cols",
    through=("tile",),
    tunables={"TILE": (8, 4, 16)},
    op=AsOp("transpose", unfit=swapped_axes),
)  # fmt: skip
