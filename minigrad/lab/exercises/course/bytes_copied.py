"""08b: the traffic of a whole program, predicted: bytes to the device and back, and the blocks of its launch."""

import numpy as np

from minigrad.kernels.source_kernel import kernel
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.lab.runtime import Runtime

ADD = kernel(
    """
extern "C" __global__ void add(const float* x, const float* y, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
""",
    "add",
)


def program(n: int = 3000) -> Runtime:
    """z = x + y for n floats, in blocks of 256 threads."""
    cuda, nbytes = Runtime(), 4 * n
    x, y, z = np.arange(n, dtype=np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)
    dx, dy, dz = (cuda.cudaMalloc(nbytes) for _ in range(3))
    cuda.cudaMemcpy(dx, x, nbytes, cuda.cudaMemcpyHostToDevice)
    cuda.cudaMemcpy(dy, y, nbytes, cuda.cudaMemcpyHostToDevice)
    cuda.launch(ADD, -(-n // 256), 256, dx, dy, dz, n)
    cuda.cudaMemcpy(z, dz, nbytes, cuda.cudaMemcpyDeviceToHost)
    for pointer in (dx, dy, dz):
        cuda.cudaFree(pointer)
    return cuda


bytes_copied = Prediction(
    "08b",
    "bytes_copied",
    task="""
**What crosses the road?** A program adds two arrays of 3000 floats, `z = x + y`, with one thread for each element, in
blocks of 256 threads. It makes only the copies that it needs.

How many bytes go from the host to the device? How many come back? And how many blocks does it launch?
""",
    solution="""
#> there = ...  # bytes
there = 2 * 3000 * 4
#<
#> back = ...  # bytes
back = 3000 * 4
#<
#> blocks = ...
blocks = -(-3000 // 256)
#<
""",
    hints=[
        "Which arrays does the kernel read, and which one does it only write? A float has 4 bytes.",
        "z need not be copied to the device: the kernel writes all of it. The blocks are rounded up.",
    ],
    wrong=[
        Wrong("2 * 3000 * 4", "3 * 3000 * 4", "value",
              "z is only written: its memory on the device is needed, but not what was in it before."),
        Wrong("2 * 3000 * 4", "2 * 3000", "value", "cudaMemcpy counts bytes, and a float has 4 of them."),
        Wrong("2 * 3000 * 4", "3000 * 4", "value", "Both x and y have to be on the device."),
        Wrong("back = 3000 * 4", "back = 3 * 3000 * 4", "value",
              "x and y are on the host already, unchanged: only z comes back."),
        Wrong("back = 3000 * 4", "back = 3000", "value", "The way back is counted in bytes as well."),
        Wrong("-(-3000 // 256)", "3000 // 256", "value",
              "Rounded down, the last 184 elements have no thread. Round up."),
        Wrong("-(-3000 // 256)", "3000", "value", "That is the number of threads that have an element."),
    ],
    run=program,
    truth=lambda cuda: {
        "there": cuda.copied("cudaMemcpyHostToDevice"), "back": cuda.copied("cudaMemcpyDeviceToHost"),
        "blocks": cuda.launches[0][1],
    },
    show=lambda cuda: cuda,
)  # fmt: skip
