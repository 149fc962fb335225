"""10: the gradient of a convolution with respect to its image, with a window that moves two pixels a step."""

import numpy as np

from minigrad.lab import show
from minigrad.lab.exercises import KernelExercise, Wrong, numbers
from minigrad.microscope import Inspection


def image(dy: np.ndarray) -> tuple[int, int]:
    """Height and width of an image that makes such an output: an even one of an even, else an odd one."""
    return 2 * dy.shape[0] - dy.shape[0] % 2, 2 * dy.shape[1] - dy.shape[1] % 2


def reference(dy: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Each dy is handed to the pixels under its window, in an image with a border, which is cut off in the end."""
    height, width = image(dy)
    dx = np.zeros((2 * dy.shape[0] + 1, 2 * dy.shape[1] + 1), np.float32)
    for p, q in np.ndindex(*dy.shape):
        dx[2 * p : 2 * p + 3, 2 * q : 2 * q + 3] += dy[p, q] * w
    return dx[1 : height + 1, 1 : width + 1]


def picture(record: Inspection) -> object:
    """The terms of pixel (3, 3), which the first block has."""
    return show.terms(record, 3 * record.variables["dx"].shape[1] + 3)


image_gradient = KernelExercise(
    "10",
    task=r"""
**The gradient of the image.** A convolution with a window of 3 x 3, `stride=2` and `padding=1`: output $(p, q)$ at
place $(r, s)$ of the window meets pixel $(2p - 1 + r,\; 2q - 1 + s)$. Write the kernel for $dx$, one thread for each
pixel. Turn the question round: at place $(r, s)$ of the window, *which output* met my pixel $(h, v)$? There is one only
if $h + 1 - r$ and $v + 1 - s$ are even, and only if it lies within $dy$. In CUDA C++ `%` gives the remainder of a
division (that of -1 by 2 is -1), and dividing two `int` drops it.
""",
    solution="""
extern "C" __global__ void image_gradient(
    const float* dy, const float* w, float* dx,
    int height, int width, int out_height, int out_width) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    int h = blockIdx.y * blockDim.y + threadIdx.y;
    if (h < height && v < width) {
        float sum = 0;
        for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
                //> // your code
                int p = (h + 1 - r) / 2, q = (v + 1 - s) / 2;
                bool even = (h + 1 - r) % 2 == 0 && (v + 1 - s) % 2 == 0;
                if (even && p < out_height && q < out_width) {
                    sum += dy[p * out_width + q] * w[3 * r + s];
                }
                //<
            }
        }
        dx[h * width + v] = sum;
    }
}
""",
    hints=[
        "h = 2 p - 1 + r. Solve it for p.",
        "2 p = h + 1 - r. Where the right side is odd there is no such p; where p is out_height or more there is no "
        "such output. The same for q, with v and s.",
        "where both exist, add dy[p * out_width + q] * w[3 * r + s]: the place in the window is that of the loops.",
    ],
    wrong=[
        Wrong("w[3 * r + s]", "w[3 * (2 - r) + 2 - s]", "value",
              "The window is turned twice: p = (h + 1 - r) / 2 already walks backward. Take the (r, s) of the loop."),
        Wrong("w[3 * r + s]", "w[3 * s + r]", "value", "Row r of the window begins at 3 * r."),
        Wrong("(h + 1 - r) / 2, q = (v + 1 - s) / 2", "(h + 1 - s) / 2, q = (v + 1 - r) / 2", "value",
              "r goes with the rows h and p, s with the columns v and q."),
        Wrong("p = (h + 1 - r) / 2, q = (v + 1 - s) / 2", "p = (h - 1 - r) / 2, q = (v - 1 - s) / 2", "out-of-bounds",
              "Forward the padding is subtracted, h = 2 p - 1 + r, so on the way back it is added: h + 1 - r."),
        Wrong("p = (h + 1 - r) / 2, q = (v + 1 - s) / 2", "p = (h - r) / 2, q = (v - s) / 2", "value",
              "The padding is lost: 2 p = h + 1 - r."),
        Wrong("p = (h + 1 - r) / 2, q = (v + 1 - s) / 2", "p = (h - 1 + r) / 2, q = (v - 1 + s) / 2", "value",
              "That is the way forward. Solve h = 2 p - 1 + r for p: then r has a minus."),
        Wrong("p = (h + 1 - r) / 2, q = (v + 1 - s) / 2", "p = h + 1 - r, q = v + 1 - s", "value",
              "The window moves 2 pixels a step, so 2 p = h + 1 - r."),
        Wrong("(h + 1 - r) % 2 == 0 && (v + 1 - s) % 2 == 0", "(h + 1 - r) % 2 == 0", "value",
              "The column must fit, too: v + 1 - s is even."),
        Wrong("(h + 1 - r) % 2 == 0 && (v + 1 - s) % 2 == 0", "true", "value",
              "Where h + 1 - r is odd, no output met this pixel at row r of the window."),
        Wrong("p < out_height && q < out_width", "q < out_width", "out-of-bounds",
              "Row out_height does not exist in dy: ask for p < out_height."),
        Wrong("p < out_height && q < out_width", "p < out_height", "out-of-bounds",
              "Right of the last column of dy begins its next row: ask for q < out_width."),
        Wrong("p < out_height && q < out_width", "p * out_width + q < out_height * out_width", "value",
              "An address within dy can belong to another row: ask for p and for q."),
        Wrong("dy[p * out_width + q]", "dy[q * out_width + p]", "out-of-bounds",
              "Row p of dy begins at p * out_width."),
        Wrong("dy[p * out_width + q]", "dy[p * width + q]", "out-of-bounds", "A row of dy has out_width numbers."),
        Wrong("sum += dy", "sum = dy", "value", "Several outputs used this pixel: their portions are added, `+=`."),
    ],
    reference=reference,
    arguments=lambda dy, w: {
        "dx": image(dy), "height": image(dy)[0], "width": image(dy)[1], "out_height": dy.shape[0],
        "out_width": dy.shape[1],
    },
    inputs=[(numbers(*shape, seed=1), numbers(3, 3)) for shape in ((2, 3), (1, 1), (3, 2), (4, 5), (5, 9), (1, 6))],
    grid=("width/TILE", "height/TILE"),
    block=("TILE", "TILE"),
    sizes="height width",
    tunables={"TILE": (8, 4)},
    show=picture,
)  # fmt: skip
