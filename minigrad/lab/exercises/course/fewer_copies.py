"""08b: a loop over launches that keeps its data on the device: the copies move out of the loop."""

from collections.abc import Callable

import numpy as np

from minigrad.kernels.source_kernel import kernel
from minigrad.lab.check.answer import Refused
from minigrad.lab.exercises import PythonExercise, Wrong, numbers
from minigrad.lab.exercises.host import require_freed, require_gpu
from minigrad.lab.runtime import Runtime

MEAN = kernel(
    """
extern "C" __global__ void neighbor_mean(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (x[(i + n - 1) % n] + x[(i + 1) % n]) / 2;
}
""",
    "neighbor_mean",
)


def truth(x: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        x = (np.roll(x, 1) + np.roll(x, -1)) / 2
    return x


def run(program: Callable, x: np.ndarray, steps: int) -> np.ndarray:
    """The program's result. Raises MemoryError where it leaves memory allocated; Refused where the result is right, but
    not made by the kernel, or x was copied too often.
    """
    cuda = Runtime()
    result = program(cuda, MEAN, x.copy(), steps)
    require_freed(cuda)
    if not np.allclose(result, truth(x, steps)):
        return result
    require_gpu(cuda, MEAN.name, x.size)
    moved, enough = cuda.copied(), 2 * x.nbytes
    if moved > enough:
        crossed = f"{moved} bytes crossed between host and device, where {enough} are enough"
        score = f"Your score: {moved / enough:.1f}; the best is 1.0"
        raise Refused(f"the result is right, but {crossed}. {score}", "wasteful")
    return result


fewer_copies = PythonExercise(
    "08b",
    task="""
**Stay on the device.** In each step every number becomes the mean of its two neighbors, on a ring. This program does
`steps` of them, and its result is right. But the numbers travel to the device and back in every step. Your score is the
number of bytes that cross between host and device, over the number that has to.
""",
    solution="""
def fewer_copies(cuda, neighbor_mean, x, steps):
    n, blocks = x.size, -(-x.size // 256)
    dx, dy = cuda.cudaMalloc(4 * n), cuda.cudaMalloc(4 * n)
    #> for _ in range(steps):
    #>     cuda.cudaMemcpy(dx, x, 4 * n, cuda.cudaMemcpyHostToDevice)
    #>     cuda.launch(neighbor_mean, blocks, 256, dx, dy, n)
    #>     cuda.cudaMemcpy(x, dy, 4 * n, cuda.cudaMemcpyDeviceToHost)
    cuda.cudaMemcpy(dx, x, 4 * n, cuda.cudaMemcpyHostToDevice)
    for _ in range(steps):
        cuda.launch(neighbor_mean, blocks, 256, dx, dy, n)
        dx, dy = dy, dx
    cuda.cudaMemcpy(x, dx, 4 * n, cuda.cudaMemcpyDeviceToHost)
    #<
    cuda.cudaFree(dx)
    cuda.cudaFree(dy)
    return x
""",
    hints=[
        "Only the first copy to the device and the last copy back are needed. What has to happen in between, so that "
        "the next step reads what this one has written?",
        "The two pointers can change their roles: in Python dx, dy = dy, dx. No number moves for that.",
        "After the exchange the newest numbers are in dx. That is what the copy after the loop has to bring back.",
    ],
    wrong=[
        Wrong("        dx, dy = dy, dx\n    cuda.cudaMemcpy(x, dx", "    cuda.cudaMemcpy(x, dy", "value",
              "Every step reads the first numbers again: what one step has written, the next one has to read."),
        Wrong("cudaMemcpy(x, dx", "cudaMemcpy(x, dy", "value",
              "After the exchange dy has the numbers of the step before. The newest are in dx."),
        Wrong("        dx, dy = dy, dx\n    cuda.cudaMemcpy(x, dx, 4 * n, cuda.cudaMemcpyDeviceToHost)",
              "        dx, dy = dy, dx\n        cuda.cudaMemcpy(x, dx, 4 * n, cuda.cudaMemcpyDeviceToHost)", "wasteful",
              "The host does not need the numbers between two steps: one copy back, after the loop, is enough."),
        Wrong("dx, dy = dy, dx", "dx = dy", "raised",
              "Both names hold one piece of memory now, and the other piece has none. Exchange them: dx, dy = dy, dx."),
        Wrong("        cuda.launch(neighbor_mean, blocks, 256, dx, dy, n)\n        dx, dy = dy, dx",
              "        x = (np.roll(x, 1) + np.roll(x, -1)) / 2\n    cuda.cudaMemcpy(dx, x, 4 * n, "
              "cuda.cudaMemcpyHostToDevice)", "unused", "That is NumPy, on the host. Let the kernel make every step."),
        Wrong("256, dx, dy, n)", "256, dx, dx, n)", "value",
              "In place, a thread reads neighbors that other threads have changed already: two arrays are needed."),
        Wrong("256, dx, dy, n)\n        dx, dy = dy, dx", "256, dx, dx, n)", "value",
              "In place, a thread reads neighbors that other threads have changed already: two arrays are needed."),
        Wrong("    cuda.cudaFree(dy)\n", "", "raised", "Memory that is never freed is missing to the next program."),
        Wrong("    cuda.cudaMemcpy(dx, x, 4 * n, cuda.cudaMemcpyHostToDevice)\n", "", "value",
              "The numbers have to arrive on the device once."),
        Wrong("4 * n, cuda.cudaMemcpyDeviceToHost", "n, cuda.cudaMemcpyDeviceToHost", "value",
              "The copy back counts bytes: 4 for each number."),
    ],
    truth=truth,
    cases=[(numbers(7), 3), (numbers(500), 10), (numbers(300), 1)],
    call=run,
    score="Your score: 1.0, the best there is.",
    bug=True,
)  # fmt: skip
