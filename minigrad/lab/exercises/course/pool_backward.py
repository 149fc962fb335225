"""10: the gradient of a max pooling with windows that overlap, as a gather."""

import numpy as np

from minigrad.lab import show
from minigrad.lab.exercises import KernelExercise, Wrong, numbers
from minigrad.lab.exercises.course.image_gradient import image
from minigrad.microscope import Inspection


def taps(rows: int, columns: int) -> np.ndarray:
    """The places of the largest numbers in the windows over a random image."""
    like = np.zeros((rows, columns))
    height, width = image(like)
    x = np.full((2 * rows + 1, 2 * columns + 1), -np.inf)
    x[1 : height + 1, 1 : width + 1] = np.random.default_rng([rows, columns]).integers(0, 20, (height, width))
    under = np.lib.stride_tricks.sliding_window_view(x, (3, 3))[::2, ::2]
    return np.asarray(under.reshape(rows, columns, 9).argmax(axis=2).astype(np.int32))


def reference(dy: np.ndarray, taps: np.ndarray) -> np.ndarray:
    """Each dy is added where its window found the largest number, in an image with a border."""
    height, width = image(dy)
    dx = np.zeros((2 * dy.shape[0] + 1, 2 * dy.shape[1] + 1), np.float32)
    for p, q in np.ndindex(*dy.shape):
        r, s = divmod(int(taps[p, q]), 3)
        dx[2 * p + r, 2 * q + s] += dy[p, q]
    return dx[1 : height + 1, 1 : width + 1]


def picture(record: Inspection) -> object:
    """The outputs that pixel (3, 1) asks: it is in the first block, and the largest in one of four windows."""
    return show.terms(record, 3 * record.variables["dx"].shape[1] + 1)


pool_backward = KernelExercise(
    "10",
    task=r"""
**The gradient of max pooling.** Windows of 3 x 3 with `stride=2` and `padding=1`: neighbors overlap, so a pixel can be
the largest of several windows. The forward kernel has kept, for each output, the place of the largest number in its
window: `taps[p * out_width + q]` is `3 * r + s`.

Write the kernel for $dx$, one thread for each pixel: it adds up the `dy` of the outputs that were taken *from it*. No
atomics are needed.
""",
    solution="""
extern "C" __global__ void pool_backward(
    const float* dy, const int* taps, float* dx,
    int height, int width, int out_height, int out_width) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    int h = blockIdx.y * blockDim.y + threadIdx.y;
    //> // your code
    if (h < height && v < width) {
        float sum = 0;
        for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
                int p = (h + 1 - r) / 2, q = (v + 1 - s) / 2;
                bool even = (h + 1 - r) % 2 == 0 && (v + 1 - s) % 2 == 0;
                if (even && p < out_height && q < out_width) {
                    if (taps[p * out_width + q] == 3 * r + s) sum += dy[p * out_width + q];
                }
            }
        }
        dx[h * width + v] = sum;
    }
    //<
}
""",
    hints=[
        "the loops and the search for the output (p, q) are those of image_gradient. What takes the place of the "
        "product?",
        "an output that met the pixel at place (r, s) of its window took its number from there only if its tap is "
        "3 * r + s.",
        "where that is so, add dy[p * out_width + q] to a variable of your own. Store it once, after the loops, also "
        "where it is 0.",
    ],
    wrong=[
        Wrong("if (taps[p * out_width + q] == 3 * r + s) sum", "sum", "value",
              "Every window over the pixel gives its dy here. Only those that found their largest number in it do."),
        Wrong("== 3 * r + s", "== 3 * s + r", "value", "The place in the window is 3 * r + s: row r begins at 3 * r."),
        Wrong("== 3 * r + s", "== 8 - 3 * r - s", "value",
              "The window is not turned: p = (h + 1 - r) / 2 has turned the question round already."),
        Wrong("== 3 * r + s", "!= 3 * r + s", "value", "Those are the outputs that were taken from other pixels."),
        Wrong("sum += dy[p * out_width + q]", "sum = dy[p * out_width + q]", "value",
              "A pixel can be the largest of up to four windows: their dy are added, `+=`."),
        Wrong("sum += dy[p * out_width + q]", "sum += 1", "value",
              "That counts the windows. The gradient is the sum of their dy."),
        Wrong("p = (h + 1 - r) / 2, q = (v + 1 - s) / 2", "p = (h - r) / 2, q = (v - s) / 2", "value",
              "The padding is lost: h = 2 p - 1 + r, so 2 p = h + 1 - r."),
        Wrong("p = (h + 1 - r) / 2, q = (v + 1 - s) / 2", "p = (h + 1 - s) / 2, q = (v + 1 - r) / 2", "value",
              "r goes with the rows h and p, s with the columns v and q."),
        Wrong("(h + 1 - r) % 2 == 0 && (v + 1 - s) % 2 == 0", "true", "value",
              "Where h + 1 - r is odd, no window has this pixel at its row r."),
        Wrong("p < out_height && q < out_width", "q < out_width", "out-of-bounds",
              "Row out_height does not exist: ask for p < out_height."),
        Wrong("p < out_height && q < out_width", "p < out_height", "out-of-bounds",
              "Right of the last column begins the next row: ask for q < out_width."),
        Wrong("if (h < height && v < width) {", "if (v < width) {", "out-of-bounds",
              "The last blocks hang over the lower edge: ask for h < height, too."),
        Wrong("if (h < height && v < width) {", "if (h < height) {", "out-of-bounds",
              "Right of the last column begins the next row, which belongs to other threads: ask for v < width."),
        Wrong("        dx[h * width + v] = sum;\n", "        if (sum != 0) dx[h * width + v] = sum;\n", "never-written",
              "A pixel that no window chose has the gradient 0, and that must be stored as well."),
        Wrong("sum += dy[p * out_width + q];\n                }",
              "{\n                        atomicAdd(&dx[h * width + v], dy[p * out_width + q]);\n"
              "                    }\n                }", "uninitialised",
              "Add up in a variable of your own: one thread owns this pixel."),
    ],
    reference=reference,
    arguments=lambda dy, taps: {
        "dx": image(dy), "height": image(dy)[0], "width": image(dy)[1], "out_height": dy.shape[0],
        "out_width": dy.shape[1],
    },
    inputs=[(numbers(*shape, seed=2), taps(*shape)) for shape in ((2, 3), (1, 1), (3, 2), (4, 5), (5, 9), (1, 6))],
    grid=("width/TILE", "height/TILE"),
    block=("TILE", "TILE"),
    sizes="height width",
    tunables={"TILE": (8, 4)},
    show=picture,
)  # fmt: skip
