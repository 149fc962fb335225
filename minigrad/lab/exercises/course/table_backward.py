"""05: the gradient of a gather of rows is a scatter: every read becomes an addition, atomic where rows are shared."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

ROWS = 5  # of the table


def places(n: int) -> np.ndarray:
    """The row of the table for each of n words; many share one, and every fourth is a gap."""
    index = np.random.default_rng(n).integers(0, ROWS, n).astype(np.int32)
    index[1::4] = -1
    return index


def reference(dy: np.ndarray, index: np.ndarray) -> np.ndarray:
    dx = np.zeros((ROWS, dy.shape[1]))
    np.add.at(dx, index[index >= 0], dy[index >= 0])
    return dx


table_backward = KernelExercise(
    "05",
    task=r"""
**The gradient of a table.** A language model looks words up: row `index[i]` of the table `x` becomes row $i$ of `y`.

```
int row = index[i];
y[i * cols + j] = row < 0 ? 0 : x[row * cols + j];
```

A gap in the text has the index -1, and its row of `y` is 0. So going back, row $r$ of `dx` collects the rows of `dy` at
all places where word $r$ stood:

$$dx_{rj} = \sum_{i:\, \text{index}_i = r} dy_{ij}$$

Write the kernel, one thread for each of the `n * cols` elements of `dy`. `dx` is full of zeros already. The result
alone does not tell whether it is right: the check also looks for threads that get in each other's way.
""",
    solution="""
extern "C" __global__ void table_backward(
    const float* dy, const int* index, float* dx, int n, int cols) {
    int element = blockIdx.x * blockDim.x + threadIdx.x;
    //> // your code
    if (element < n * cols) {
        int i = element / cols, j = element % cols;
        if (index[i] >= 0) {
            atomicAdd(&dx[index[i] * cols + j], dy[element]);
        }
    }
    //<
}
""",
    hints=[
        "which row i and which column j of dy is this element? dy has `cols` numbers in a row: / and % tell.",
        "two words may be the same, so two threads add to one element of dx. `dx[p] += v` reads, adds and writes: the "
        "other thread may write in between, and its share is lost.",
        "there are three questions before the addition: is there such an element, which row of dx is it for, and is it "
        "a gap?",
    ],
    wrong=[
        Wrong("atomicAdd(&dx[index[i] * cols + j], dy[element])", "dx[index[i] * cols + j] += dy[element]", "race",
              "Threads of the same word read, add and write at the same time, and shares get lost: use atomicAdd."),
        Wrong("atomicAdd(&dx[index[i] * cols + j], dy[element])", "dx[index[i] * cols + j] = dy[element]", "race",
              "Several threads write this element and one of them wins. All of them count: use atomicAdd."),
        Wrong("atomicAdd(&dx[index[i] * cols + j], dy[element])",
              "float old = atomicAdd(&dx[index[i] * cols + j], 0.0f);\n"
              "            atomicExch(&dx[index[i] * cols + j], old + dy[element])", "value",
              "Each of the two atomics is one step, but what another thread adds between them is overwritten."),
        Wrong("        if (index[i] >= 0) {\n            atomicAdd(&dx[index[i] * cols + j], dy[element]);\n        }",
              "        atomicAdd(&dx[index[i] * cols + j], dy[element]);", "out-of-bounds",
              "A gap has the index -1, which is no row of dx: nothing was read there, so nothing is added."),
        Wrong("index[i] >= 0", "index[i] > 0", "never-written", "Row 0 is a word like the others: only -1 is a gap."),
        Wrong("i = element / cols, j = element % cols", "i = element % n, j = element / n", "value",
              "The elements of a row lie next to each other: the row is element / cols, the column what is left over."),
        Wrong("index[i] * cols + j", "index[i] + j", "value",
              "Row r of dx starts at r * cols: without the factor, rows lie on top of each other."),
        Wrong("index[i] * cols + j", "index[element] * cols + j", "out-of-bounds",
              "There is one index for each row of dy, and not for each element: index[i]."),
        Wrong("element < n * cols", "element < n", "never-written",
              "There are n rows, and n * cols elements: this guard leaves most of them out."),
        Wrong("if (element < n * cols) ", "", "out-of-bounds",
              "The last block has threads without an element. Send them home."),
        Wrong("dy[element])", "1.0f)", "value", "This counts how often a word was read. Add the gradient."),
        Wrong("dy[element])", "dy[index[i] * cols + j])", "out-of-bounds",
              "index belongs to dx: row i of dy goes to the row that row i of y came from."),
    ],
    reference=reference,
    arguments=lambda dy, index: {"dx": (ROWS, dy.shape[1]), "n": dy.shape[0], "cols": dy.shape[1],
                                 "elements": dy.size},
    zeros=True,
    inputs=[(numbers(n, cols), places(n)) for n, cols in ((3, 2), (33, 3), (1, 1), (0, 3), (9, 33))],
    sizes="elements",
)  # fmt: skip
