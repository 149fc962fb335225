"""08: a loop over the whole grid with the stride of one block: right values, written many times over."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

whole_stride = KernelExercise(
    "08",
    task="""
**More blocks, no faster.** This kernel is launched with a few blocks, and its threads go on until the array is done.
That is common: such a kernel takes arrays of any size. The author tested many sizes with three blocks, and every sum
was right. Then the author measured the time, and three blocks were no faster than one. Find the fault and mend it.
""",
    solution="""
extern "C" __global__ void whole_stride(const float* x, const float* y, float* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) {
        z[i] = x[i] + y[i];
        //> i += blockDim.x;
        i += gridDim.x * blockDim.x;
        //<
    }
}
""",
    hints=[
        "Let there be three blocks of 32 threads. Write down the elements that thread 0 of block 0 takes, and those of "
        "thread 0 of block 1.",
        "Thread 0 of block 0 takes 0, 32, 64, ... Which block takes element 32 as well? Both write the same sum there: "
        "it is right, but the work is done more than once. An atomicAdd would add the two sums. Let one thread own "
        "each element.",
        "All threads of the grid take one element each before any takes its second. How many threads is that? A kernel "
        "knows the number of blocks as gridDim.x.",
    ],
    wrong=[
        Wrong("i += gridDim.x * blockDim.x", "i += 3 * blockDim.x", "race",
              "That fits grids of three blocks. gridDim.x is the number of blocks of any grid."),
        Wrong("i += gridDim.x * blockDim.x", "i += gridDim.x", "race",
              "gridDim.x counts blocks. The stride is counted in elements: as many as the grid has threads."),
        Wrong("int i = blockIdx.x * blockDim.x + threadIdx.x", "int i = threadIdx.x", "race",
              "Every block starts at element 0 now, so every block takes the same elements. The start was right."),
        Wrong("i < n", "i <= n", "out-of-bounds", "The elements are 0 to n - 1: element n is past the end."),
        Wrong("i < n", "i < n - 1", "never-written", "The last element is n - 1, and it is left out."),
        Wrong("gridDim.x * blockDim.x", "(gridDim.x - 1) * blockDim.x", "race",
              "The stride is one block short: a block meets the elements of the block before it."),
        Wrong("gridDim.x * blockDim.x", "(gridDim.x + 1) * blockDim.x", "never-written",
              "The stride is one block too long: it leaves out as many elements as a block has threads."),
        Wrong("i += gridDim.x * blockDim.x", "i += n", "never-written",
              "A stride of n ends the loop after one turn. Where there are more elements than threads, the rest is "
              "left."),
        Wrong("blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x * gridDim.x + threadIdx.x", "race",
              "A block starts after the threads of the blocks before it: blockIdx.x * blockDim.x."),
        Wrong("gridDim.x * blockDim.x", "gridDim.x * blockDim.x + 1", "never-written",
              "One more than the threads of the grid: one element is left out at every turn."),
        Wrong("int i = blockIdx.x * blockDim.x + threadIdx.x", "int i = threadIdx.x * gridDim.x + blockIdx.x",
              "wasteful", "Every element has one thread now. But neighboring threads take elements that lie three "
              "apart, so a warp touches three times the sectors. The start was right: only the stride is wrong."),
    ],
    reference=lambda x, y: x + y,
    arguments=lambda x, y: {"z": x.shape, "n": x.size},
    inputs=[(numbers(n), numbers(n, seed=1)) for n in (1, 33, 96, 97, 257, 1025)],
    grid=("GRID",),
    tunables={"BLOCK": (32, 1, 33, 64), "GRID": (3, 4, 2)},
    limits={"sectors": 1.1},
    bug=True,
)  # fmt: skip
