"""15: a kernel from somebody else's file, with a fault at the guard, at the ends and in the accumulator."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

REACH = 2


def reference(x: np.ndarray) -> np.ndarray:
    return np.array([x[max(i - REACH, 0) : i + REACH + 1].mean() for i in range(x.size)])


mean_around = KernelExercise(
    "15",
    task="""
**Three faults in somebody's file.** Each `y[i]` shall be the mean of the numbers of `x` that are at most `reach` away
from `x[i]`, itself included. Near both ends there are fewer of them. On its author's GPU this kernel seemed right. The
answer names one fault at a time. Mend them all.
""",
    solution="""
extern "C" __global__ void mean_around(const float* x, float* y, int n, int reach) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //> if (i <= n) {
    //>     float sum;
    //>     int count = 0;
    //>     for (int j = i - reach; j <= i + reach; ++j) {
    //>         sum += x[j];
    //>         ++count;
    //>     }
    //>     y[i] = sum / count;
    //> }
    if (i < n) {
        float sum = 0;
        int count = 0;
        for (int j = max(i - reach, 0); j <= min(i + reach, n - 1); ++j) {
            sum += x[j];
            ++count;
        }
        y[i] = sum / count;
    }
    //<
}
""",
    bug=True,
    hints=[
        "Which is the last thread that the condition lets through, and which elements does it touch?",
        "For i = 0 the loop begins at -reach. Which elements are there? And at the other end?",
        "A variable without a value holds whatever was there before: what does the first addition add to?",
    ],
    wrong=[
        Wrong("i < n", "i <= n", "out-of-bounds", "The elements are 0 to n - 1: thread n has none."),
        Wrong("float sum = 0", "float sum", "uninitialised", "The sum begins at 0, and somebody has to say so."),
        Wrong("int count = 0", "int count", "uninitialised", "The count begins at 0, and somebody has to say so."),
        Wrong("max(i - reach, 0)", "i - reach", "out-of-bounds", "Before x[0] there is nothing of x: begin at 0."),
        Wrong("min(i + reach, n - 1)", "i + reach", "out-of-bounds", "x ends at x[n - 1]: let the loop end there."),
        Wrong("min(i + reach, n - 1)", "min(i + reach, n)", "out-of-bounds", "The last element is x[n - 1]."),
        Wrong("j <= min", "j < min", "value", "x[i + reach] is at most `reach` away, too: <= and not <."),
        Wrong("max(i - reach, 0)", "max(i - reach, 1)", "value", "x[0] is an element like the others."),
        Wrong("max(i - reach, 0)", "i", "value", "The numbers before x[i] count as well."),
        Wrong("sum / count", "sum / (2 * reach + 1)", "value", "Near the ends there are fewer: divide by count."),
        Wrong("y[i] = ", "y[i] += ", "uninitialised", "y holds nothing yet: store with `=`."),
        Wrong("sum += x[j]", "sum += x[i]", "value", "The mean is of the numbers around: x[j]."),
        Wrong("sum += x[j]", "sum = x[j]", "value", "`=` forgets what was added before."),
    ],
    reference=reference,
    arguments=lambda x: {"y": x.shape, "n": x.size, "reach": REACH},
    inputs=[(numbers(n),) for n in (7, 1, 2, 33, 1025)],
)  # fmt: skip
