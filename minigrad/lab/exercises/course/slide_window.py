"""10: a convolution of one image with one window, a thread for each output."""

import numpy as np

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import as_images, one_image

SHAPES = (((1, 1), (1, 1)), ((3, 5), (3, 2)), ((9, 7), (2, 3)), ((4, 33), (1, 4)), ((12, 18), (5, 3)))


def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Every place of the window at once."""
    under = np.lib.stride_tricks.sliding_window_view(x, w.shape)
    return np.asarray((under * w).sum(axis=(2, 3)))


slide_window = KernelExercise(
    "10",
    task=r"""
**Slide a window.** The sum of the page above, for an image $x$ of `height` x `width` and a window $w$ of `rows` x
`columns`:

$$y_{pq} = \sum_{r,s} x_{p+r,\,q+s}\; w_{rs}$$

One thread makes one $y_{pq}$. All three arrays lie in memory row after row, and a row of each has its own length:
element $(h, v)$ of the image is `x[h * width + v]`.
""",
    solution="""
extern "C" __global__ void slide_window(
    const float* x, const float* w, float* y, int height, int width, int rows, int columns) {
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    int p = blockIdx.y * blockDim.y + threadIdx.y;
    int out_height = height - rows + 1, out_width = width - columns + 1;
    //> // your code
    if (p < out_height && q < out_width) {
        float sum = 0;
        for (int r = 0; r < rows; ++r) {
            for (int s = 0; s < columns; ++s) {
                sum += x[(p + r) * width + q + s] * w[r * columns + s];
            }
        }
        y[p * out_width + q] = sum;
    }
    //<
}
""",
    hints=[
        "the guard asks in both directions whether there is an output (p, q). Then two loops walk over the window, and "
        "a variable of your own adds up.",
        "at place (r, s) of the window the pixel is in row p + r and column q + s of the image.",
        "three rows, three lengths: width for x, columns for w, out_width for y.",
    ],
    wrong=[
        Wrong("w[r * columns + s]", "w[(rows - 1 - r) * columns + columns - 1 - s]", "value",
              "The window is turned by half a turn here. Mathematicians do that, networks do not: the first number of "
              "the window meets the first pixel under it."),
        Wrong("w[r * columns + s]", "w[s * rows + r]", "value",
              "Rows and columns of the window are swapped: row r begins at r * columns."),
        Wrong("w[r * columns + s]", "w[r * rows + s]", "out-of-bounds", "A row of the window has `columns` numbers."),
        Wrong("(p + r) * width + q + s", "(p + r) * out_width + q + s", "value",
              "A row of the image has `width` numbers; those of y are shorter."),
        Wrong("(p + r) * width + q + s", "(p + s) * width + q + r", "value",
              "r walks down the image and s across, as in the window."),
        Wrong("(p + r) * width + q + s", "p * width + q", "value",
              "Every number of the window meets the same pixel here: the pixel moves on by r and s."),
        Wrong("(p + r) * width + q + s", "(p - r) * width + q - s", "out-of-bounds",
              "The window begins at (p, q) and reaches down and to the right: p + r and q + s."),
        Wrong("y[p * out_width + q]", "y[p * width + q]", "out-of-bounds", "A row of y has out_width numbers."),
        Wrong("y[p * out_width + q]", "y[q * out_height + p]", "value",
              "y lies row after row, as all arrays: row p begins at p * out_width."),
        Wrong("p < out_height && q < out_width", "p < height && q < width", "out-of-bounds",
              "A window that begins in the last rows or columns hangs over the edge: there are only out_height x "
              "out_width outputs."),
        Wrong("p < out_height && q < out_width", "p * out_width + q < out_height * out_width", "race",
              "To the right of the last column begins the next row, and that belongs to other threads: ask for both "
              "directions."),
        Wrong("sum += x", "sum = x", "value", "`=` keeps the last product alone. Every product is added: `+=`."),
        Wrong("float sum = 0", "float sum", "uninitialised",
              "A variable of your own begins with whatever lies in its place. Set it: float sum = 0."),
        Wrong("r < rows", "r < columns", "value", "r counts the rows of the window, s its columns."),
        Wrong("        y[p * out_width + q] = sum;\n", "", "never-written", "The sum has to be stored in y."),
    ],
    reference=reference,
    arguments=lambda x, w: {
        "y": (x.shape[-2] - w.shape[-2] + 1, x.shape[-1] - w.shape[-1] + 1),
        "height": x.shape[-2], "width": x.shape[-1], "rows": w.shape[-2], "columns": w.shape[-1],
        "down": x.shape[-2] - w.shape[-2] + 1, "across": x.shape[-1] - w.shape[-1] + 1,
    },
    inputs=[(numbers(*image), numbers(*window, seed=1)) for image, window in SHAPES],
    grid=("across/TILE", "down/TILE"),
    block=("TILE", "TILE"),
    sizes="down across",
    tunables={"TILE": (8, 4, 16)},
    op=AsOp("conv2d", "forward", one_image, as_images),
)  # fmt: skip
