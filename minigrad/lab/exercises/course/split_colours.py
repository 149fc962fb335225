"""04: a picture's pixels split into three planes, with a third of the sectors to read."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

split_colours = KernelExercise(
    "04",
    score="sectors",
    task=r"""
**Split the colors.** A picture of `n` pixels lies in memory pixel by pixel: red, green, blue, red, green, blue, ... A
neural network wants three planes: all the reds, then all the greens, then all the blues.

$$y_{c\,n + i} = x_{3 i + c}, \qquad c = 0, 1, 2$$

The kernel below is right. Its lanes read numbers that are three apart. Make it move fewer sectors: let neighboring
threads read neighboring numbers into shared memory, whatever their color, and sort them out there. A block has
`BLOCK` threads, and `BLOCK` pixels have `3 * BLOCK` numbers.
""",
    solution="""
extern "C" __global__ void split_colours(const float* x, float* y, int n) {
    //> int i = blockIdx.x * BLOCK + threadIdx.x;
    //> if (i < n) {
    //>     for (int c = 0; c < 3; ++c) {
    //>         y[c * n + i] = x[3 * i + c];
    //>     }
    //> }
    __shared__ float pixels[3 * BLOCK];
    int first = 3 * blockIdx.x * BLOCK;
    for (int k = threadIdx.x; k < 3 * BLOCK; k += BLOCK) {
        if (first + k < 3 * n) {
            pixels[k] = x[first + k];
        }
    }
    __syncthreads();
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) {
        for (int c = 0; c < 3; ++c) {
            y[c * n + i] = pixels[3 * threadIdx.x + c];
        }
    }
    //<
}
""",
    hints=[
        "the block's numbers are neighbors in memory, from 3 * blockIdx.x * BLOCK on. Each thread fetches three of "
        "them; which three, so that in each step the lanes of a warp have neighbors?",
        "thread t takes the numbers t, t + BLOCK and t + 2 * BLOCK of the block, and puts each where it was: "
        "pixels[k] is number k of the block.",
        "after a barrier, the pixel of thread t is at pixels[3 * t], pixels[3 * t + 1] and pixels[3 * t + 2]. There "
        "are two guards: one for the numbers (3 * n of them), one for the pixels (n).",
    ],
    wrong=[
        Wrong("    __syncthreads();\n", "", "race",
              "Other threads have fetched the colors of this pixel: wait for them, __syncthreads()."),
        Wrong("        }\n    }\n    __syncthreads();\n", "        }\n        __syncthreads();\n    }\n",
              "wasteful", "One barrier is enough, after the loop: nothing is read before all is there."),
        Wrong("pixels[3 * threadIdx.x + c]", "pixels[c * BLOCK + threadIdx.x]", "uninitialised",
              "In shared memory the numbers lie as they did in x: the colors of a pixel are neighbors."),
        Wrong("y[c * n + i]", "y[3 * i + c]", "value", "Plane c of y begins at number c * n."),
        Wrong("first = 3 * blockIdx.x * BLOCK", "first = blockIdx.x * BLOCK", "value",
              "Each block before this one has three numbers for each of its pixels."),
        Wrong("x[first + k]", "x[k]", "value",
              "Every block fetches the first block's numbers. Its own begin at 3 * blockIdx.x * BLOCK."),
        Wrong("first + k < 3 * n", "first + k < n", "uninitialised", "There are three numbers for each of n pixels."),
        Wrong("        if (first + k < 3 * n) {\n            pixels[k] = x[first + k];\n        }\n",
              "        pixels[k] = x[first + k];\n", "out-of-bounds",
              "The last block may reach over the end of x: ask before you read."),
        Wrong("i < n", "first + i < 3 * n", "out-of-bounds",
              "This guard is for pixels, of which there are n, and i is the number of a pixel already."),
        Wrong("k < 3 * BLOCK", "k < BLOCK", "uninitialised", "A third has been fetched: there are 3 * BLOCK numbers."),
        Wrong("pixels[3 * BLOCK]", "pixels[BLOCK]", "out-of-bounds", "The array has room for a third of the numbers."),
        Wrong("int k = threadIdx.x; k < 3 * BLOCK; k += BLOCK", "int k = 3 * threadIdx.x; k < 3 * threadIdx.x + 3; ++k",
              "wasteful", "Each thread fetches its own pixel, so lanes are still three numbers apart."),
        Wrong("            pixels[k] = x[first + k];\n        }\n    }\n    __syncthreads();\n"
              "    int i = blockIdx.x * BLOCK + threadIdx.x;\n    if (i < n) {\n        for (int c = 0; c < 3; ++c) {\n"
              "            y[c * n + i] = pixels[3 * threadIdx.x + c];\n        }\n    }\n",
              "            y[(first + k) % 3 * n + (first + k) / 3] = x[first + k];\n        }\n    }\n", "wasteful",
              "Neighboring lanes read neighbors now, but they write to three planes at once. Sort the numbers in "
              "shared memory, and write one plane after the other."),
        Wrong("c * n + i", "c * BLOCK + i", "out-of-bounds",
              "A plane of y has n numbers; BLOCK is the size of this block."),
    ],
    reference=lambda x: x.reshape(-1, 3).T.ravel(),
    arguments=lambda x: {"y": (x.size,), "n": x.size // 3},
    inputs=[(numbers(3 * n),) for n in (3, 33, 1, 0, 64, 1023)],
    limits={"barriers": 1},
    tunables={"BLOCK": (32, 1, 33, 256)},
)  # fmt: skip
