"""08b: a host program with two mistakes of every beginner: elements for bytes, and blocks rounded down."""

from collections.abc import Callable

import numpy as np

from minigrad.kernels.source_kernel import kernel
from minigrad.lab.exercises import PythonExercise, Wrong, numbers
from minigrad.lab.exercises.host import require_freed, require_gpu
from minigrad.lab.runtime import Runtime

SQUARE = kernel(
    """
extern "C" __global__ void square(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}
""",
    "square",
)


def run(program: Callable, x: np.ndarray) -> np.ndarray:
    """The program's result. Raises MemoryError where it leaves memory allocated, Refused unless the GPU made it."""
    cuda = Runtime()
    result = program(cuda, SQUARE, x.copy())
    require_freed(cuda)
    if np.allclose(result, x * x):
        require_gpu(cuda, SQUARE.name, x.size)
    return result


wrong_program = PythonExercise(
    "08b",
    task="""
**Three quarters are missing.** This program squares `n` numbers. There is nothing wrong with its kernel, no call
complains, and the first quarter of the result is right. Find the two faults of the host, and mend them.
""",
    solution="""
def wrong_program(cuda, square, x):
    n = x.size
    result = np.zeros(n, np.float32)
    dx, dy = cuda.cudaMalloc(4 * n), cuda.cudaMalloc(4 * n)
    cuda.cudaMemcpy(dx, x, 4 * n, cuda.cudaMemcpyHostToDevice)
    #> cuda.launch(square, n // 256, 256, dx, dy, n)
    cuda.launch(square, -(-n // 256), 256, dx, dy, n)
    #<
    #> cuda.cudaMemcpy(result, dy, n, cuda.cudaMemcpyDeviceToHost)
    cuda.cudaMemcpy(result, dy, 4 * n, cuda.cudaMemcpyDeviceToHost)
    #<
    cuda.cudaFree(dx)
    cuda.cudaFree(dy)
    return result
""",
    hints=[
        "Go from call to call, and say aloud in which unit each number counts: bytes, elements, or blocks. "
        "Where one is divided, ask which way the division rounds.",
        "How much of the result comes back? The third number of cudaMemcpy counts bytes.",
        "With 1024 numbers all is right then, with 1000 it is not: how many blocks are 1000 // 256, and how many "
        "elements do they have?",
    ],
    wrong=[
        Wrong("result, dy, 4 * n", "result, dy, n", "value",
              "The copy back brings n bytes, a quarter of the n floats. The rest of result stays as it was."),
        Wrong("-(-n // 256)", "n // 256", "value",
              "The blocks are rounded down: the elements after the last full block have no thread."),
        Wrong("result, dy, 4 * n", "result, dx, 4 * n", "value", "The squares are in dy; dx holds the numbers."),
        Wrong("result, dy, 4 * n, cuda.cudaMemcpyDeviceToHost", "result, dy, 4 * n, cuda.cudaMemcpyHostToDevice",
              "raised", "The way back is from the device to the host."),
        Wrong("256, dx, dy, n)", "256, dy, dx, n)", "value",
              "The kernel reads its first array and writes its second: dx, then dy."),
        Wrong("256, dx, dy, n)", "256, dx, dy, 4 * n)", "raised",
              "A kernel counts elements: its n is the number of floats, and only the runtime's calls take bytes."),
        Wrong("-(-n // 256), 256", "1, n", "raised", "A block has at most 1024 threads: take more blocks."),
        Wrong("-(-n // 256)", "n // 256 + 1", "wasteful",
              "1024 elements fill four blocks, and this starts five. Rounded up is -(-n // 256)."),
        Wrong("    cuda.cudaFree(dy)\n", "", "raised", "Memory that is never freed is missing to the next program."),
        Wrong("-(-n // 256)", "n", "wasteful",
              "n is the number of elements, and a block of 256 threads has 256 of them."),
        Wrong("-(-n // 256), 256", "256, -(-n // 256)", "wasteful",
              "The number of blocks comes first, and then the threads of a block."),
        Wrong("    cuda.launch(square, -(-n // 256), 256, dx, dy, n)\n"
              "    cuda.cudaMemcpy(result, dy, 4 * n, cuda.cudaMemcpyDeviceToHost)", "    result = x * x", "unused",
              "That is NumPy, on the host. The calls are all there: mend two of their numbers."),
        Wrong("4 * n, cuda.cudaMemcpyHostToDevice", "n, cuda.cudaMemcpyHostToDevice", "value",
              "Now a quarter of x goes to the device. That copy was right: cudaMemcpy counts bytes."),
    ],
    truth=lambda x: x * x,
    cases=[(numbers(1024),), (numbers(1000),), (numbers(1300),)],
    call=run,
    bug=True,
)  # fmt: skip
