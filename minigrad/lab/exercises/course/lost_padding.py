"""10: the gradient of a window, with two faults that a test with y.sum() and without padding has let through."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

SHAPES = (((6, 6), 1), ((3, 4), 0), ((7, 5), 1), ((2, 5), 2), ((1, 1), 1), ((4, 9), 2))


def reference(x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """dw[r, s] = the sum of dy times the part of the padded image that met w[r, s]."""
    padded = np.pad(x, padding(x, dy))
    return np.asarray(
        [[(padded[r : r + dy.shape[0], s : s + dy.shape[1]] * dy).sum() for s in range(3)] for r in range(3)]
    )


def padding(x: np.ndarray, dy: np.ndarray) -> int:
    return (dy.shape[0] - x.shape[0] + 2) // 2


lost_padding = KernelExercise(
    "10",
    task=r"""
**It passed a test.** The gradient of a window of 3 x 3, one thread for each of its nine numbers, for stride 1 and any
padding:

$$dw_{rs} = \sum_{p,q} dy_{pq}\; x_{p - \text{padding} + r,\; q - \text{padding} + s}$$

It was compared with central differences, for an image of 8 x 8, without padding, and with `y.sum()` as the loss: all
nine numbers agreed. It has two faults. Find both. Where the window met the border of zeros, there is nothing to add.
""",
    solution="""
extern "C" __global__ void lost_padding(
    const float* x, const float* dy, float* dw,
    int height, int width, int out_height, int out_width, int padding) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 9) {
        int r = i / 3, s = i % 3;
        float sum = 0;
        for (int p = 0; p < out_height; ++p) {
            for (int q = 0; q < out_width; ++q) {
                //> int h = p + r, v = q + s;
                //> sum += x[h * width + v] * dy[q * out_width + p];
                int h = p - padding + r, v = q - padding + s;
                if (h >= 0 && h < height && v >= 0 && v < width) {
                    sum += x[h * width + v] * dy[p * out_width + q];
                }
                //<
            }
        }
        dw[i] = sum;
    }
}
""",
    bug=True,
    hunt=True,
    hints=[
        "With the loss y.sum() every number of dy is 1. Which index of the kernel could be wrong unnoticed?",
        "dy lies row after row, as y does: row p begins at p * out_width.",
        "the formula of the task has a padding, and the kernel has it only in its first line. With padding, h and v "
        "can lie outside of the image on all four sides: guard the addition.",
    ],
    wrong=[
        Wrong("dy[p * out_width + q]", "dy[q * out_width + p]", "value",
              "One fault is left: row p of dy begins at p * out_width. With y.sum() every dy is 1."),
        Wrong("h = p - padding + r, v = q - padding + s", "h = p + r, v = q + s", "value",
              "One fault is left: the padding is lost. Output (p, q) meets row p - padding + r."),
        Wrong("h = p - padding + r, v = q - padding + s", "h = p + padding + r, v = q + padding + s", "value",
              "The padding is subtracted: the window begins above and left of the image."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "h >= 0 && v >= 0", "out-of-bounds",
              "The window hangs over the right and the lower edge as well."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "h < height && v < width", "out-of-bounds",
              "The window hangs over the left and the upper edge as well."),
        Wrong("v >= 0 && v < width", "v < width", "out-of-bounds",
              "Left of the first column ends the row above: v >= 0."),
        Wrong("v >= 0 && v < width", "v >= 0", "out-of-bounds",
              "Right of the last column begins the next row: v < width."),
        Wrong("h >= 0 && h < height", "h < height", "out-of-bounds", "Above the first row there is no memory of x."),
        Wrong("h >= 0 && h < height", "h >= 0", "out-of-bounds", "Below the last row the memory of x ends."),
        Wrong("h = p - padding + r, v = q - padding + s", "h = p - padding + s, v = q - padding + r", "value",
              "r goes with the rows h and p, s with the columns v and q."),
        Wrong("dy[p * out_width + q]", "dy[p * width + q]", "value", "A row of dy has out_width numbers."),
        Wrong("h = p - padding + r, v = q - padding + s", "h = p - padding - r, v = q - padding - s", "value",
              "The window reaches down and to the right from its first number: + r and + s."),
        Wrong("h = p - padding + r, v = q - padding + s", "h = p - padding + r, v = q + s", "value",
              "The padding is on the left as well: q - padding + s."),
        Wrong("sum += x", "sum = x", "value", "The window meets many pixels, and all are added: `+=`."),
    ],
    reference=reference,
    arguments=lambda x, dy: {
        "dw": (3, 3), "height": x.shape[0], "width": x.shape[1], "out_height": dy.shape[0],
        "out_width": dy.shape[1], "padding": padding(x, dy), "n": 9,
    },
    inputs=[
        (numbers(*shape), numbers(*(n + 2 * border - 2 for n in shape), seed=1)) for shape, border in SHAPES
    ],
    tunables={"BLOCK": (32, 1)},
)  # fmt: skip
