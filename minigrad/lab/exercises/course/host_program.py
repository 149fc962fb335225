"""08b: the host's side of a kernel, with the calls of the CUDA runtime: memory, copies, launch, copy back, free."""

from collections.abc import Callable

import numpy as np

from minigrad.kernels.source_kernel import kernel
from minigrad.lab.exercises import PythonExercise, Wrong, numbers
from minigrad.lab.exercises.host import require_freed, require_gpu
from minigrad.lab.runtime import Runtime

AXPY = kernel(
    """
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
""",
    "axpy",
)


def run(program: Callable, a: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The program's result. Raises MemoryError where it leaves memory allocated, Refused unless the GPU made it."""
    cuda = Runtime()
    result = program(cuda, AXPY, a, x.copy(), y.copy())
    require_freed(cuda)
    if np.allclose(result, y + a * x):
        require_gpu(cuda, AXPY.name, x.size)
    return result


host_program = PythonExercise(
    "08b",
    task="""
**The host's side, by yourself.** The kernel `axpy(a, x, y, n)`, short for *a x plus y*, adds `a * x[i]` to `y[i]`,
with a thread for each element. Here are two arrays of the host, `x` and `y`. Write what the host has to do, so that
`result` is the new `y`, and give all memory back.

`cuda` has the calls of this page: `cuda.cudaMalloc(nbytes)`, `cuda.cudaMemcpy(to, source, nbytes, kind)`,
`cuda.launch(axpy, blocks, threads, ...)` and `cuda.cudaFree(pointer)`. The kinds are `cuda.cudaMemcpyHostToDevice` and
`cuda.cudaMemcpyDeviceToHost`. `x.nbytes` is the number of bytes of `x`.
""",
    solution="""
def host_program(cuda, axpy, a, x, y):
    n, nbytes = x.size, x.nbytes
    result = np.zeros(n, np.float32)
    #> # <- your code
    dx, dy = cuda.cudaMalloc(nbytes), cuda.cudaMalloc(nbytes)
    cuda.cudaMemcpy(dx, x, nbytes, cuda.cudaMemcpyHostToDevice)
    cuda.cudaMemcpy(dy, y, nbytes, cuda.cudaMemcpyHostToDevice)
    cuda.launch(axpy, -(-n // 256), 256, a, dx, dy, n)
    cuda.cudaMemcpy(result, dy, nbytes, cuda.cudaMemcpyDeviceToHost)
    cuda.cudaFree(dx)
    cuda.cudaFree(dy)
    #<
    return result
""",
    hints=[
        "Five steps, as on the page: memory on the device, copies to it, the launch, a copy back, the memory freed.",
        "The kernel reads y before it writes it: y has to be copied to the device, and not only x.",
        "The kernel's arguments are those of the device, dx and dy, and not the arrays of the host. The copy back goes "
        "to result, from dy.",
    ],
    wrong=[
        Wrong("cudaMemcpy(dy, y, nbytes, cuda.cudaMemcpyHostToDevice)", "cudaMemcpy(dy, x, nbytes, "
              "cuda.cudaMemcpyHostToDevice)", "value", "The kernel adds to the y that is on the device: copy y there."),
        Wrong("    cuda.cudaMemcpy(dy, y, nbytes, cuda.cudaMemcpyHostToDevice)\n", "", "value",
              "The kernel adds to y, and y was never copied to the device: it finds there what new memory holds."),
        Wrong("    cuda.cudaMemcpy(result, dy, nbytes, cuda.cudaMemcpyDeviceToHost)\n", "", "value",
              "The result is still on the device: copy it back to the host."),
        Wrong("cudaMemcpy(result, dy", "cudaMemcpy(result, dx", "value", "The kernel's result is in dy, not in dx."),
        Wrong("dx, dy = cuda.cudaMalloc(nbytes), cuda.cudaMalloc(nbytes)",
              "dx, dy = cuda.cudaMalloc(n), cuda.cudaMalloc(n)", "raised",
              "cudaMalloc counts bytes, and a float has 4 of them: x.nbytes, not x.size."),
        Wrong("-(-n // 256)", "n // 256", "raised",
              "Rounded down, the last elements have no thread, and a small array has no block at all."),
        Wrong("a, dx, dy, n", "a, x, y, n", "raised", "A kernel cannot reach the host's arrays: pass dx and dy."),
        Wrong("-(-n // 256), 256, a", "4, 256, a", "wasteful",
              "A fixed number of blocks fits one size only. Work it out from n, rounded up."),
        Wrong("-(-n // 256), 256, a", "256, -(-n // 256), a", "wasteful",
              "The number of blocks comes first, and then the threads of a block."),
        Wrong("-(-n // 256)", "n // 256 + 1", "wasteful",
              "For 512 elements that is one block more than they fill. Rounded up is -(-n // 256)."),
        Wrong("-(-n // 256), 256, a", "n, 1, a", "wasteful",
              "A block of one thread leaves 31 places of its warp empty."),
        Wrong("-(-n // 256), 256, a", "n, 256, a", "wasteful",
              "The grid counts blocks, and n is the number of threads."),
        Wrong("    cuda.launch(axpy, -(-n // 256), 256, a, dx, dy, n)\n"
              "    cuda.cudaMemcpy(result, dy, nbytes, cuda.cudaMemcpyDeviceToHost)",
              "    result = a * x + y", "unused",
              "That is NumPy, on the host. The kernel of the GPU should make the result."),
        Wrong("    cuda.cudaFree(dx)\n", "", "raised", "Memory that is never freed is missing to the next program."),
        Wrong("256, a, dx, dy, n", "256, dx, a, dy, n", "raised", "The order is that of the kernel: a, x, y, n."),
        Wrong("    cuda.cudaMemcpy(result, dy, nbytes, cuda.cudaMemcpyDeviceToHost)\n    cuda.cudaFree(dx)\n"
              "    cuda.cudaFree(dy)\n",
              "    cuda.cudaFree(dx)\n    cuda.cudaFree(dy)\n"
              "    cuda.cudaMemcpy(result, dy, nbytes, cuda.cudaMemcpyDeviceToHost)\n", "raised",
              "The memory of the result is given back before the result is fetched."),
        Wrong("cudaMemcpy(dx, x, nbytes", "cudaMemcpy(x, dx, nbytes", "raised",
              "First comes where to, then from where, as in an assignment."),
    ],
    truth=lambda a, x, y: y + np.float32(a) * x,
    cases=[(2.0, numbers(3), numbers(3, seed=1)), (0.5, numbers(1000), numbers(1000, seed=1)),
           (-1.0, numbers(512), numbers(512, seed=1)), (2.0, numbers(5000), numbers(5000, seed=1))],
    call=run,
)  # fmt: skip
