"""01: the guard: every thread checks that its element exists."""

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers
from minigrad.lab.exercises.as_op import one_shape

add_bounds = KernelExercise(
    "01",
    task="""
**Add two arrays of any length.**

$$y_i = a_i + b_i$$

The grid has as many blocks as are needed, so the last block may hang over the end of the arrays. Find the element that
belongs to the thread, ask whether it exists, and add.
""",
    solution="""
extern "C" __global__ void add_bounds(const float* a, const float* b, float* y, int n) {
    //> // your code
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a[i] + b[i];
    }
    //<
}
""",
    hints=[
        "a thread's number in the whole grid is blockIdx.x * blockDim.x + threadIdx.x.",
        "the elements are 0 to n - 1. What does a thread with i = n have to do?",
        "if (i < n) { ... } around the line that adds.",
    ],
    wrong=[
        Wrong("i < n", "i < n - 1", "never-written", "The last element is n - 1: this guard leaves it out."),
        Wrong("i < n", "i <= n", "out-of-bounds", "Elements are counted from 0, so n is one past the last of them."),
        Wrong("if (i < n) ", "", "out-of-bounds", "The last block has threads without an element. Send them home."),
        Wrong("i < n", "i > 0 && i < n", "never-written", "Element 0 is an element, too."),
        Wrong("i < n", "i < n / blockDim.x * blockDim.x", "never-written",
              "This leaves out the last block, which is not full: with n = 1 nothing at all is written."),
        Wrong("blockIdx.x * blockDim.x + ", "", "race",
              "threadIdx.x starts from 0 in every block, so all blocks do the work of the first."),
        Wrong("int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) {", "for (int i = 0; i < n; ++i) {",
              "race", "Here every thread does the whole array. Drop the loop: each thread does one element, its own."),
        Wrong("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x * blockDim.x + blockIdx.x", "never-written",
              "Thread and block are exchanged: a block begins at blockIdx.x * blockDim.x, and its threads count on."),
        Wrong("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x * gridDim.x + blockIdx.x", "wasteful",
              "Every element has a thread, but neighboring threads have elements far apart: a block should take "
              "blockDim.x neighbors, beginning at blockIdx.x * blockDim.x."),
        Wrong("b[i]", "b[n - 1 - i]", "value", "Element i of y is made from element i of a and element i of b."),
        Wrong("y[i] =", "y[i] +=", "uninitialised", "`+=` reads y first, and nothing has been written there yet."),
    ],
    reference=lambda a, b: a + b,
    arguments=lambda a, b: {"y": a.shape, "n": a.size},
    inputs=[(numbers(n), numbers(n, seed=2)) for n in (0, 1, 2, 3, 31, 32, 33, 1023, 1025)],
    limits={"sectors": 2},
    op=AsOp("add", unfit=one_shape),
)  # fmt: skip
