"""01: a kernel with three faults that one small test did not show."""

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

LINES = """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 0.5f * (a[i] + b[i]);"""


def broken(*changes: tuple[str, str]) -> str:
    """The lines with these faults together."""
    text = LINES
    for old, new in changes:
        text = text.replace(old, new)
    return text


SIZE, GUARD, HALF = ("blockDim.x", "256"), ("i < n", "i <= n"), ("0.5f", "1 / 2")

mean_of_two = KernelExercise(
    "01",
    task=r"""
**Find the bugs.** This kernel should take the mean of two arrays.

$$y_i = (a_i + b_i) / 2$$

It was tried once, on two arrays of 256 zeros, with one block of 256 threads, and the result was right. Each of its
three lines is wrong. The check names the first fault that it meets: mend that line, and run the cell again.
""",
    solution=f"""
extern "C" __global__ void mean_of_two(const float* a, const float* b, float* y, int n) {{
    //> int i = blockIdx.x * 256 + threadIdx.x;
    //> if (i <= n) {{
    //>     y[i] = 1 / 2 * (a[i] + b[i]);
{LINES}
    //<
    }}
}}
""",
    hints=[
        "256 was the size of the block in that one test. Who knows the size of the block in every launch?",
        "which elements does an array of n numbers have? Is there an element n?",
        "1 and 2 are whole numbers. What does C++ give for 1 / 2?",
        "blockDim.x in the first line, < in the second, and a number with a decimal point in the third: 0.5f.",
    ],
    wrong=[
        Wrong("blockDim.x", "256", "never-written",
              "256 is right for blocks of 256 threads alone. blockDim.x is the size of the block in every launch."),
        Wrong("i < n", "i <= n", "out-of-bounds", "Elements are counted from 0, so n is one past the last of them."),
        Wrong("0.5f", "1 / 2", "value",
              "1 and 2 are whole numbers, so 1 / 2 is 0. Write 0.5f, or divide a float by 2."),
        Wrong(LINES, broken(SIZE, GUARD), "out-of-bounds",
              "Elements are counted from 0, so n is one past the last of them. The line before is wrong, too."),
        Wrong(LINES, broken(SIZE, HALF), "value",
              "1 and 2 are whole numbers, so 1 / 2 is 0. One of the other lines is wrong as well."),
        Wrong(LINES, broken(GUARD, HALF), "out-of-bounds",
              "Elements are counted from 0, so n is one past the last of them. One other line is wrong as well."),
        Wrong("if (i < n) ", "", "out-of-bounds", "The last block has threads without an element. Send them home."),
        Wrong("blockIdx.x * blockDim.x + ", "", "race",
              "threadIdx.x starts from 0 in every block, so all blocks do the work of the first."),
        Wrong("blockDim.x", "gridDim.x", "race",
              "gridDim.x is the number of blocks. A block has blockDim.x threads."),
        Wrong("i < n", "i < n - 1", "never-written", "The last element is n - 1: this guard leaves it out."),
        Wrong("0.5f * (a[i] + b[i])", "a[i] + b[i] / 2", "value", "This halves b alone. The sum needs brackets."),
        Wrong("0.5f * (a[i] + b[i])", "0.5f * a[i] + b[i]", "value", "This halves a alone. The sum needs brackets."),
        Wrong("0.5f", "0", "value", "Half of the sum is wanted, and this is nothing of it."),
        Wrong("y[i] =", "y[i] +=", "uninitialised", "`+=` reads y first, and nothing has been written there yet."),
    ],
    reference=lambda a, b: (a + b) / 2,
    arguments=lambda a, b: {"y": a.shape, "n": a.size},
    inputs=[(numbers(n), numbers(n, seed=2)) for n in (1, 2, 3, 31, 32, 33, 1023, 1025)],
    limits={"sectors": 2},
    bug=True,
)  # fmt: skip
