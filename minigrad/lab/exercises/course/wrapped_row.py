"""10: a padded convolution that asks for the flat index alone, and so reads across the left and right edge."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    under = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1), w.shape)
    return np.asarray((under * w).sum(axis=(2, 3)))


wrapped_row = KernelExercise(
    "10",
    task="""
**It never leaves the image.** This kernel slides a window of 3 x 3 over an image with a border of zeros, `padding=1`.
Its author asks of each address whether it lies in the image, and the microscope agrees: no access is out of bounds.
On a photograph with a black frame all numbers were right. On other photographs the leftmost and the rightmost column
are wrong. Mend it.
""",
    solution="""
extern "C" __global__ void wrapped_row(
    const float* x, const float* w, float* y, int height, int width) {
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    int p = blockIdx.y * blockDim.y + threadIdx.y;
    if (p < height && q < width) {
        float sum = 0;
        for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
                int h = p - 1 + r, v = q - 1 + s;
                //> int at = h * width + v;
                //> if (at >= 0 && at < height * width) {
                //>     sum += x[at] * w[3 * r + s];
                //> }
                if (h >= 0 && h < height && v >= 0 && v < width) {
                    sum += x[h * width + v] * w[3 * r + s];
                }
                //<
            }
        }
        y[p * width + q] = sum;
    }
}
""",
    bug=True,
    hunt=True,
    hints=[
        "Take an image of 3 x 4. For the output in row 1 and column 0, the window reaches to column -1. Which address "
        "does the kernel compute there, and which pixel lies at it?",
        "h * width - 1 is the last pixel of the row above. An address inside of the image can belong to a pixel in "
        "another row.",
        "ask for the row and the column apart, each from both sides.",
    ],
    wrong=[
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "v >= 0 && h * width + v >= 0 && h < height",
              "out-of-bounds",
              "Right of the last column begins the next row: ask for v < width, too."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "v < width && h * width + v >= 0 && h < height", "value",
              "Left of the first column ends the row above: ask for v >= 0, too."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "v >= 0 && v < width", "out-of-bounds",
              "The window hangs over the upper and the lower edge as well: ask for h, too."),
        Wrong("h >= 0 && h < height", "h < height", "out-of-bounds", "Above the first row there is no memory of x."),
        Wrong("h >= 0 && h < height", "h >= 0", "out-of-bounds", "Below the last row the memory of x ends."),
        Wrong("v >= 0 && v < width", "v < width", "out-of-bounds",
              "Left of the first column ends the row above: ask for v >= 0, too."),
        Wrong("v >= 0 && v < width", "v >= 0", "out-of-bounds",
              "Right of the last column begins the next row: v < width."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "h > 0 && h < height && v > 0 && v < width", "value",
              "Row 0 and column 0 belong to the image: >= and not >."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "h >= 0 && h <= height && v >= 0 && v < width",
              "out-of-bounds", "Row `height` is the first below the image: < and not <=."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "h >= 0 && h < width && v >= 0 && v < height",
              "out-of-bounds",
              "h counts rows, of which there are `height`; v counts columns."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "h >= 0 || v >= 0", "out-of-bounds",
              "All four conditions must hold at once: && and not ||."),
        Wrong("h = p - 1 + r, v = q - 1 + s", "h = p + 1 + r, v = q + 1 + s", "value",
              "The padding is subtracted: the window begins one row above and one column left of (p, q)."),
        Wrong("h = p - 1 + r, v = q - 1 + s", "h = p + r, v = q + s", "value",
              "The padding is lost: the window begins one row above and one column left of (p, q)."),
        Wrong("w[3 * r + s]", "w[3 * s + r]", "value", "This index was right: row r of the window begins at 3 * r."),
    ],
    reference=reference,
    arguments=lambda x, w: {"y": x.shape, "height": x.shape[0], "width": x.shape[1]},
    inputs=[
        (numbers(*shape), numbers(3, 3, seed=1)) for shape in ((3, 4), (1, 1), (9, 7), (2, 17), (18, 5), (1, 6), (6, 1))
    ],
    grid=("width/TILE", "height/TILE"),
    block=("TILE", "TILE"),
    sizes="height width",
    tunables={"TILE": (8, 4)},
)  # fmt: skip
