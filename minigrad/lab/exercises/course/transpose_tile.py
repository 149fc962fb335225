"""04: a quarter turn through shared memory: a tile, a barrier, and indices that run the other way."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

transpose_tile = KernelExercise(
    "04",
    task=r"""
**A quarter turn through a tile.** A picture `x` of `rows` by `cols` numbers is turned clockwise: its first row becomes
the last column of `y`, read from the top.

$$y_{j,\ \text{rows} - 1 - i} = x_{ij}$$

So `y` has `cols` rows of `rows` numbers. A block of `TILE` x `TILE` threads has copied its tile of `x` to shared
memory. Write the second half. Neighboring threads (`threadIdx.x`) have to write neighbors in memory, so a thread does
not write the element that it has read. Which one? Draw a picture of 2 by 3 numbers and turn it before you write.
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
    int from_row = blockIdx.y * TILE + threadIdx.x;
    int from_col = blockIdx.x * TILE + threadIdx.y;
    if (from_row < rows && from_col < cols) {
        y[from_col * rows + rows - 1 - from_row] = tile[threadIdx.x][threadIdx.y];
    }
    //<
}
""",
    hints=[
        "a thread takes from the tile a number that another one put there. What has to happen first, for all threads "
        "of the block?",
        "the column of y comes from the row of x. So of the tile, threadIdx.x has to count rows.",
        "name the place in x that this thread takes care of now: its row starts from blockIdx.y * TILE, its column "
        "from blockIdx.x * TILE. Guard it, then write it to the place in the formula.",
    ],
    wrong=[
        Wrong("    __syncthreads();\n", "", "race",
              "A thread may write before another has filled its place in the tile. Wait for all: __syncthreads()."),
        Wrong("    }\n    __syncthreads();\n", "        __syncthreads();\n    }\n", "race",
              "Threads without an element never reach this barrier, and the others wait for ever. Put it outside."),
        Wrong("tile[threadIdx.x][threadIdx.y]", "tile[threadIdx.y][threadIdx.x]", "uninitialised",
              "The tile goes out as it came in. A row of the tile becomes a column: exchange the indices."),
        Wrong("rows - 1 - from_row", "from_row", "value",
              "This is a transpose: the first row becomes the first column. In a quarter turn it becomes the last."),
        Wrong("rows - 1 - from_row", "rows - from_row", "out-of-bounds",
              "Columns are counted from 0, so the last of them is rows - 1."),
        Wrong("from_col * rows + rows - 1 - from_row", "(cols - 1 - from_col) * rows + from_row", "value",
              "This turns the other way round: the last column of x has become the first row of y."),
        Wrong("from_col * rows + rows", "from_col * cols + rows", "out-of-bounds",
              "A row of y has as many elements as x has rows."),
        Wrong("from_row < rows && from_col < cols", "row < rows && col < cols", "out-of-bounds",
              "The guard asks for the element that the thread has read. It writes another one: ask for that."),
        Wrong("if (from_row < rows && from_col < cols) ", "", "out-of-bounds",
              "Tiles hang over the edges of x. Ask whether the element exists before it is written."),
        Wrong("from_row < rows && from_col < cols", "from_row < rows - 1 && from_col < cols", "never-written",
              "The last row of x is rows - 1: it is left out, and with it the first column of y."),
        Wrong("blockIdx.y * TILE + threadIdx.x;\n    int from_col = blockIdx.x * TILE + threadIdx.y;",
              "blockIdx.x * TILE + threadIdx.x;\n    int from_col = blockIdx.y * TILE + threadIdx.y;", "never-written",
              "The block's tile of x starts at row blockIdx.y * TILE, as it did when it was read."),
        Wrong("    __syncthreads();\n    int from_row = blockIdx.y * TILE + threadIdx.x;\n"
              "    int from_col = blockIdx.x * TILE + threadIdx.y;\n    if (from_row < rows && from_col < cols) {\n"
              "        y[from_col * rows + rows - 1 - from_row] = tile[threadIdx.x][threadIdx.y];\n",
              "    if (row < rows && col < cols) {\n"
              "        y[col * rows + rows - 1 - row] = tile[threadIdx.y][threadIdx.x];\n", "wasteful",
              "Each thread writes its own element: neighbors in x, but far apart in y. The tile is there so that "
              "another thread can write it."),
    ],
    reference=lambda x: np.rot90(x, -1),
    arguments=lambda x: {"y": x.shape[::-1], "rows": x.shape[0], "cols": x.shape[1]},
    inputs=[(numbers(*shape),) for shape in ((2, 3), (1, 1), (8, 8), (1, 33), (31, 33), (0, 3), (65, 3))],
    grid=("cols/TILE", "rows/TILE"),
    block=("TILE", "TILE"),
    sizes="rows cols",
    through=("tile",),
    tunables={"TILE": (8, 4, 32)},
)  # fmt: skip
