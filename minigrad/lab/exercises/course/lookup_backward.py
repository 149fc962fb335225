"""16: the adjoint of a look-up: whole numbers have no gradient, and many threads add to one point of a table."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def places(n: int) -> np.ndarray:
    """Sixteenths of intervals in an order without a rule, the first and the last point among them: sums are exact."""
    drawn = np.random.default_rng(n).integers(0, 65, n)
    drawn[:2] = [64, 0][:n]
    return (drawn / 16).astype(np.float32)


def reference(x: np.ndarray, table: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    j = np.minimum(np.floor(x).astype(int), table.size - 2)
    dtable = np.zeros_like(table)
    np.add.at(dtable, j, (1 - (x - j)) * dy)
    np.add.at(dtable, j + 1, (x - j) * dy)
    return (table[j + 1] - table[j]) * dy, dtable


lookup_backward = KernelExercise(
    "16",
    task=r"""
**Back through a table.** Thread $i$ looks `x[i]` up in a table of `points` numbers, and interpolates between two of
them:

```
int j = min((int)x[i], points - 2);
float f = x[i] - j;
y[i] = (1 - f) * table[j] + f * table[j + 1];
```

Write the adjoint. `dx[i]` is the gradient of the place, `dtable` that of the table, for all look-ups together. `dtable`
is full of zeros at the start, and so is `dx`.
""",
    solution="""
extern "C" __global__ void lookup_backward(
    const float* x, const float* table, const float* dy, float* dx, float* dtable,
    int n, int points) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //> // your code
        int j = min((int)x[i], points - 2);
        float f = x[i] - j;
        dx[i] = (table[j + 1] - table[j]) * dy[i];
        atomicAdd(&dtable[j], (1 - f) * dy[i]);
        atomicAdd(&dtable[j + 1], f * dy[i]);
        //<
    }
}
""",
    hints=[
        "The whole number j has no gradient: find it again, as the forward kernel does. What is left is a product and "
        "a sum.",
        "f grows as fast as x[i]. If f grows by a little, how much does (1 - f) * table[j] + f * table[j + 1] change?",
        "y[i] has the weight 1 - f for table[j] and the weight f for table[j + 1]. Which threads may add to one point "
        "of the table?",
        "dx[i] has one owner and is written with =. A point of the table is read by any number of threads, so both "
        "additions to dtable are atomic.",
    ],
    wrong=[
        Wrong("atomicAdd(&dtable[j], (1 - f) * dy[i])", "dtable[j] += (1 - f) * dy[i]", "race",
              "Many look-ups meet in one point of the table: additions to it have to be atomic."),
        Wrong("atomicAdd(&dtable[j + 1], f * dy[i])", "dtable[j + 1] += f * dy[i]", "race",
              "Many look-ups meet in one point of the table: additions to it have to be atomic."),
        Wrong("atomicAdd(&dtable[j], (1 - f) * dy[i]);\n        atomicAdd(&dtable[j + 1], f * dy[i])",
              "dtable[j] += (1 - f) * dy[i];\n        dtable[j + 1] += f * dy[i]", "race",
              "Many look-ups meet in one point of the table: both additions to it have to be atomic."),
        Wrong("(1 - f) * dy[i]);\n        atomicAdd(&dtable[j + 1], f * dy[i])",
              "f * dy[i]);\n        atomicAdd(&dtable[j + 1], (1 - f) * dy[i])", "value",
              "The weights are exchanged: y[i] has 1 - f of table[j], and f of table[j + 1]."),
        Wrong("dtable[j], (1 - f)", "dtable[j], f", "value",
              "The weights are exchanged or equal: y[i] has 1 - f of table[j], and f of table[j + 1]."),
        Wrong("dtable[j + 1], f * dy[i]", "dtable[j + 1], (1 - f) * dy[i]", "value",
              "The weights are exchanged or equal: y[i] has 1 - f of table[j], and f of table[j + 1]."),
        Wrong("table[j + 1] - table[j]", "table[j] - table[j + 1]", "value",
              "The sign is wrong: where the table rises, a larger x gives a larger y."),
        Wrong("(table[j + 1] - table[j]) * dy[i]", "table[j + 1] - table[j]", "value",
              "That is the slope. The gradient is the slope times dy[i], the gradient that arrives."),
        Wrong("(1 - f) * dy[i]", "1 - f", "value", "Each portion of the table is multiplied by dy[i] as well."),
        Wrong("min((int)x[i], points - 2)", "(int)x[i]", "out-of-bounds",
              "At the last point of the table there is no next one: the forward kernel takes the interval before it."),
        Wrong("atomicAdd(&dtable[j + 1], f * dy[i]);", "", "never-written",
              "y[i] reads two points of the table: the portion of the second one is missing."),
        Wrong("min((int)x[i], points - 2)", "min((int)(x[i] + 0.5f), points - 2)", "value",
              "(int) cuts off, as the forward kernel does. Rounding finds another interval."),
        Wrong("min((int)x[i], points - 2)", "min(i, points - 2)", "value",
              "Thread i does not look at point i: the data say where. Find j again from x[i]."),
        Wrong("dx[i] = (table[j + 1] - table[j]) * dy[i]", "atomicAdd(&dx[i], (table[j + 1] - table[j]) * dy[i])",
              "wasteful", "Only thread i comes to dx[i]: a plain = is enough there."),
    ],
    reference=reference,
    arguments=lambda x, table, dy: {"dx": x.shape, "dtable": table.shape, "n": x.size, "points": table.size},
    zeros=True,
    inputs=[(places(n), numbers(5), numbers(n, seed=1)) for n in (2, 1, 31, 33, 300)],
)  # fmt: skip
