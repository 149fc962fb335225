"""07b: a tile in shared memory whose rows and columns are both read without bank conflicts, without a spare column."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

swizzle = KernelExercise(
    "07b",
    task=r"""
**Swizzle a tile.** Each block transposes one matrix of 32 x 32. Rows are written to shared memory, and columns are
read from it, so all 32 lanes of a request read one bank. Notebook 04 mended that with a spare column. The copy engine
has none: its rows are 128 bytes, and the next begins right after. It stores every number in its own row, and in
*another column* of that row, by a rule that the reader knows as well.

Choose a rule, for 32 numbers in a row and 32 banks. Change where the threads write, and where they read. Do not
change the size of the tile. `^` is the exclusive or: it changes the bits of its left side where the right side has
ones. For a given `b`, the numbers `0 ^ b`, `1 ^ b`, ..., `31 ^ b` are 0 to 31 in another order. The score counts
wavefronts.
""",
    solution="""
extern "C" __global__ void swizzle(const float* x, float* y) {
    __shared__ float tile[32][32];
    int row = threadIdx.y, column = threadIdx.x;
    x += blockIdx.x * 32 * 32;
    y += blockIdx.x * 32 * 32;
    //> tile[row][column] = x[row * 32 + column];
    //> __syncthreads();
    //> y[row * 32 + column] = tile[column][row];
    tile[row][column ^ row] = x[row * 32 + column];
    __syncthreads();
    y[row * 32 + column] = tile[column][row ^ column];
    //<
}
""",
    score="wavefronts",
    room="the copy engine has no spare column: keep tile[32][32]",
    hints=[
        "the 32 lanes of a read have one `row` and all values of `column`. They read tile[column][...]: 32 rows of "
        "the "
        "tile. What must the second index be, so that it is another one in each of these rows?",
        "an element keeps its row. Its column becomes a mix of both indices: column ^ row is another bank in every "
        "row.",
        "the writer puts element (r, s) at tile[r][s ^ r]. The reader wants element (column, row): put its indices "
        "in for "
        "r and s.",
    ],
    wrong=[
        Wrong("tile[row][column ^ row]", "tile[row][column]", "value",
              "The reader looks where the rule says, the writer has not written there: both need it."),
        Wrong("tile[column][row ^ column]", "tile[column][row]", "value",
              "The writer has moved the elements: the reader has to look where they are."),
        Wrong("tile[column][row ^ column]", "tile[row][column ^ row]", "value",
              "This reads the element that the thread has written: nothing is transposed."),
        Wrong("tile[row][column ^ row] = x[row * 32 + column];\n    __syncthreads();\n    y[row * 32 + column] = "
              "tile[column][row ^ column]", "tile[row][column ^ row % 8] = x[row * 32 + column];\n    "
              "__syncthreads();\n"
              "    y[row * 32 + column] = tile[column][row ^ column % 8]", "wasteful",
              "Right, and only 8 rows in 32 are told apart: rows 0, 8, 16 and 24 still share a bank."),
        Wrong("tile[row][column ^ row] = x[row * 32 + column];\n    __syncthreads();\n    y[row * 32 + column] = "
              "tile[column][row ^ column]", "tile[row][31 - column] = x[row * 32 + column];\n    __syncthreads();\n"
              "    y[row * 32 + column] = tile[column][31 - row]", "wasteful",
              "Right, and every row is moved in the same way: a column is still one bank."),
        Wrong("tile[32][32];", "tile[32][33];", "room", "A spare column works, too, but the copy engine leaves none."),
        Wrong("    __syncthreads();\n", "", "race", "Other threads write what this one reads: wait for them."),
        Wrong("tile[row][column ^ row]", "tile[row][column + row]", "out-of-bounds",
              "column + row runs over the end of the row, into the next one: take (column + row) % 32, or the "
              "exclusive or."),
        Wrong("tile[row][column ^ row]", "tile[row][column & row]", "race",
              "& makes the same place of several columns. ^ keeps them apart."),
        Wrong("tile[row][column ^ row]", "tile[row][column | row]", "race",
              "| makes the same place of several columns. ^ keeps them apart."),
        Wrong("y[row * 32 + column] = ", "y[column * 32 + row] = ", "value",
              "Turned twice: the element goes back to where it came from."),
    ],
    reference=lambda x: x.transpose(0, 2, 1).copy(),
    arguments=lambda x: {"y": x.shape, "n": x.shape[0]},
    inputs=[(numbers(2, 32, 32),), (np.arange(1024, dtype=np.float32).reshape(1, 32, 32),)],
    grid=("n",),
    block=("32", "32"),
    tunables={},
)  # fmt: skip
