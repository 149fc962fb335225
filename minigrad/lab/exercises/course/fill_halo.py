"""10b: a tile of an image with its halo, copied to shared memory by fewer threads than it has pixels."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

SHAPES = ((8, 8), (3, 4), (9, 7), (1, 1), (17, 18), (2, 20), (16, 24))


def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    under = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1), w.shape)
    return np.asarray((under * w).sum(axis=(2, 3)))


fill_halo = KernelExercise(
    "10b",
    task="""
**Fill the tile with its halo.** A convolution with a window of 3 x 3 and a border of zeros. A block has 8 x 8 threads
for 8 x 8 outputs, and they need 10 x 10 pixels: the tile with its halo. Pixel (0, 0) of `tile` is the one above and
left of the block's first output.

The 64 threads of the block, of which `me` is the number of this one, fill all 100 places. A place outside of the image
gets a zero. The last lines, which use the tile, are right.
""",
    solution="""
extern "C" __global__ void fill_halo(
    const float* x, const float* w, float* y, int height, int width) {
    __shared__ float tile[10][10];
    int me = threadIdx.y * 8 + threadIdx.x;
    int top = blockIdx.y * 8, left = blockIdx.x * 8;
    //> // your code
    for (int i = me; i < 100; i += 64) {
        int h = top - 1 + i / 10, v = left - 1 + i % 10;
        bool inside = h >= 0 && h < height && v >= 0 && v < width;
        tile[i / 10][i % 10] = inside ? x[h * width + v] : 0;
    }
    __syncthreads();
    //<
    int p = top + threadIdx.y, q = left + threadIdx.x;
    if (p < height && q < width) {
        float sum = 0;
        for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
                sum += tile[threadIdx.y + r][threadIdx.x + s] * w[3 * r + s];
            }
        }
        y[p * width + q] = sum;
    }
}
""",
    hints=[
        "number the places from 0 to 99. Thread `me` takes the places me and me + 64, as far as there are any: a loop.",
        "place i lies in row i / 10 and column i % 10 of the tile. Row 0 of the tile is row top - 1 of the image.",
        "the products use what other threads have copied: wait for them.",
    ],
    wrong=[
        Wrong("    __syncthreads();\n", "", "race",
              "The products use what other threads copy. Wait for them after the copying: __syncthreads()."),
        Wrong("for (int i = me; i < 100; i += 64) {\n        int h", "{\n        int i = me;\n        int h",
              "uninitialised", "64 threads have filled 64 places, and there are 100: go on with i += 64."),
        Wrong("i < 100", "i < 64", "uninitialised", "The tile with its halo has 100 places."),
        Wrong("top - 1 + i / 10, v = left - 1 + i % 10", "top + i / 10, v = left + i % 10", "value",
              "The tile begins with its halo: one row above and one column left of the first output."),
        Wrong("left - 1 + i % 10", "left + i % 10", "value", "The halo begins one column left of the first output."),
        Wrong("top - 1 + i / 10", "top + i / 10", "value", "The halo begins one row above the first output."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "h >= 0 && v >= 0", "out-of-bounds",
              "The tile hangs over the lower and the right edge as well."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "h < height && v < width", "out-of-bounds",
              "The halo of the first blocks lies above and left of the image."),
        Wrong("h >= 0 && h < height && v >= 0 && v < width", "h >= 0 && h < height", "out-of-bounds",
              "Left of the first column ends the row above: ask for v, too."),
        Wrong("x[h * width + v]", "x[v * width + h]", "value", "Row h of the image begins at h * width."),
    ],
    reference=reference,
    arguments=lambda x, w: {"y": x.shape, "height": x.shape[0], "width": x.shape[1]},
    inputs=[(numbers(*shape), numbers(3, 3, seed=1)) for shape in SHAPES],
    grid=("width/8", "height/8"),
    block=("8", "8"),
    sizes="height width",
    through=("tile",),
    tunables={},
)  # fmt: skip
