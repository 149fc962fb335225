"""10b: the gradient of an image under a window of 1 x 1 that moves two pixels at a time: most are met by none."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def size(dy: np.ndarray) -> tuple[int, int]:
    """Rows and columns of an image with these outputs: an even number of rows, an odd one of columns."""
    return 2 * dy.shape[0], 2 * dy.shape[1] - 1


def reference(dy: np.ndarray, w: np.ndarray) -> np.ndarray:
    dx = np.zeros(size(dy))
    dx[::2, ::2] = w[0] * dy
    return dx


every_parity = KernelExercise(
    "10b",
    task="""
**Right on a fresh machine.** In a convolution of one channel, the window is a single weight, and it moves two pixels at
a time: `y[p, q] = w * x[2 * p, 2 * q]`. This kernel computes the gradient of the image from `dy`, with a thread for
each pixel (h, v). Its author tested it right after the start of the program, and all numbers were right. Later in the
same program the same test failed. A well-known library has had this bug. Mend it.
""",
    solution="""
extern "C" __global__ void every_parity(
    const float* dy, const float* w, float* dx, int height, int width) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    int h = blockIdx.y * blockDim.y + threadIdx.y;
    int columns = (width + 1) / 2;  // of dy
    if (h < height && v < width) {
        //> if (h % 2 == 0 && v % 2 == 0) {
        //>     dx[h * width + v] = w[0] * dy[h / 2 * columns + v / 2];
        //> }
        bool met = h % 2 == 0 && v % 2 == 0;
        dx[h * width + v] = met ? w[0] * dy[h / 2 * columns + v / 2] : 0;
        //<
    }
}
""",
    bug=True,
    hunt=True,
    hints=[
        "how many elements has `dx`, and how many of them does the kernel write?",
        "memory that a program has just got from the system is often full of zeros. Memory that it uses for the second "
        "time holds what was there before.",
        "a pixel that no window meets changes nothing: its gradient is 0, and somebody has to write this 0.",
    ],
    wrong=[
        Wrong("met ? w[0] * dy[h / 2 * columns + v / 2] : 0", "w[0] * dy[h / 2 * columns + v / 2]", "value",
              "Now every pixel gets a gradient. Those in an odd row or column are met by no window: theirs is 0."),
        Wrong("h % 2 == 0 && v % 2 == 0", "h % 2 == 0", "value",
              "The window moves two columns at a time as well: pixels in odd columns are not met."),
        Wrong("h % 2 == 0 && v % 2 == 0", "v % 2 == 0", "value",
              "The window moves two rows at a time as well: pixels in odd rows are not met."),
        Wrong("h % 2 == 0 && v % 2 == 0", "h % 2 == 0 || v % 2 == 0", "value",
              "A window meets a pixel if its row and its column are even: && and not ||."),
        Wrong("h % 2 == 0 && v % 2 == 0", "h % 2 == 1 && v % 2 == 1", "value",
              "The windows lie on the even rows and columns: these were right."),
        Wrong("w[0] * dy[", "dy[", "value", "The weight is a factor: that part was right."),
        Wrong("h / 2 * columns + v / 2", "v / 2 * columns + h / 2", "out-of-bounds",
              "h is the row and v the column: this index was right."),
        Wrong("h / 2 * columns + v / 2", "h * columns + v", "out-of-bounds",
              "`dy` has half as many rows and columns: pixel (h, v) comes from output (h / 2, v / 2)."),
        Wrong("h / 2 * columns + v / 2", "h / 2 * width + v / 2", "out-of-bounds",
              "A row of `dy` has `columns` elements: this index was right."),
        Wrong("    if (h < height && v < width) {", "    dx[h * width + v] = 0;\n    if (h < height && v < width) {",
              "out-of-bounds", "Only threads with a pixel may write: the 0 belongs inside of the condition."),
    ],
    reference=reference,
    arguments=lambda dy, w: {"dx": size(dy), "height": size(dy)[0], "width": size(dy)[1]},
    inputs=[(numbers(*shape), numbers(1, seed=1)) for shape in ((3, 4), (1, 1), (8, 5), (2, 17))],
    grid=("width/TILE", "height/TILE"),
    block=("TILE", "TILE"),
    sizes="height width",
    tunables={"TILE": (8, 4)},
)  # fmt: skip
