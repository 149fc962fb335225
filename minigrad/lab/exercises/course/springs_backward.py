"""15: the adjoint of a kernel by hand, where neighbours add to one element: a race that values may not show."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(x: np.ndarray, k: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    stretch = np.diff(x)
    pull = k * stretch * dy
    return np.concatenate([[0.0], pull]) - np.concatenate([pull, [0.0]]), stretch * stretch * dy / 2


springs_backward = KernelExercise(
    "15",
    task=r"""
**Tested once.** A chain of $n$ weights at the places $x_0, x_1, \dots$, with a spring of strength $k_i$ between weight
$i$ and the next. Thread $i$ computes the energy of spring $i$:

```
if (i < n - 1) {
    float stretch = x[i + 1] - x[i];
    y[i] = 0.5f * k[i] * stretch * stretch;
}
```

Here is its adjoint, for the places and for the strengths. The lines are reversed, each read has become an addition, and
in a test all values were right. Still one rule is broken. Find where, mend it, and leave alone what is right: an atomic
where one thread alone adds is time lost. `dx` and `dk` are full of zeros at the start.
""",
    solution="""
extern "C" __global__ void springs_backward(
    const float* x, const float* k, const float* dy, float* dx, float* dk, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) {
        float stretch = x[i + 1] - x[i];
        //> // <- change what is at fault in these three lines
        //<
        dk[i] += 0.5f * stretch * stretch * dy[i];
        //> dx[i + 1] += k[i] * stretch * dy[i];
        atomicAdd(&dx[i + 1], k[i] * stretch * dy[i]);
        //<
        //> dx[i] -= k[i] * stretch * dy[i];
        atomicAdd(&dx[i], -k[i] * stretch * dy[i]);
        //<
    }
}
""",
    hints=[
        "Which threads add to dk[5], and which to dx[5]? Write down what thread 4 and thread 5 do.",
        "`+=` reads, adds and writes. Between the reading and the writing of one thread, its neighbour may write.",
        "Make a table: a row for each element of dx and dk, and in it the threads that add to it. Where there are two "
        "threads in a row, how do they add without losing a portion?",
        "There is no atomic subtraction for floats, and none is needed: to take away is to add the negative.",
    ],
    wrong=[
        Wrong("atomicAdd(&dx[i + 1], k[i] * stretch * dy[i])", "dx[i + 1] += k[i] * stretch * dy[i]", "race",
              "The next thread adds to dx[i + 1] as well, by its other statement. Both have to be atomic: a plain += "
              "may write back a sum that it read before."),
        Wrong("atomicAdd(&dx[i], -k[i] * stretch * dy[i])", "dx[i] -= k[i] * stretch * dy[i]", "race",
              "The thread before adds to dx[i] as well, by its other statement. Both have to be atomic: a plain -= "
              "may write back a sum that it read before."),
        Wrong("atomicAdd(&dx[i + 1], k[i] * stretch * dy[i]);\n        atomicAdd(&dx[i], -k[i] * stretch * dy[i]);",
              "dx[i + 1] += k[i] * stretch * dy[i];\n        __syncthreads();\n"
              "        dx[i] -= k[i] * stretch * dy[i];", "barrier-divergence",
              "Not all threads come to a barrier inside this if. And it would order the threads of one block only: the "
              "last thread of a block and the first of the next share an element, too."),
        Wrong("atomicAdd(&dx[i + 1], k[i] * stretch * dy[i])", "dx[i + 1] = k[i] * stretch * dy[i]", "race",
              "What is written with = wipes out the portion of the neighbour. All portions count: atomicAdd."),
        Wrong("-k[i]", "k[i]", "value", "stretch is x[i + 1] minus x[i]: the portion of x[i] has the other sign."),
        Wrong("dx[i + 1], k[i] * stretch * dy[i]", "dx[i + 1], k[i] * stretch", "value",
              "What arrives from behind is missing: each portion is multiplied by dy[i]."),
        Wrong("dx[i + 1], k[i] * stretch * dy[i]", "dx[i + 1], stretch * dy[i]", "value",
              "The pull of a spring grows with its strength: the portion of x[i + 1] has the factor k[i]."),
        Wrong("dk[i] += 0.5f * stretch * stretch * dy[i]", "atomicAdd(&dk[i], 0.5f * stretch * stretch * dy[i])",
              "wasteful", "dk[i] belongs to thread i alone, so its plain += was right."),
        Wrong("atomicAdd(&dx[i], -k[i] * stretch * dy[i])", "atomicExch(&dx[i], -k[i] * stretch * dy[i])", "value",
              "An exchange is atomic, too, but it puts a number in place of the sum: the neighbour's portion is gone."),
        Wrong("        atomicAdd(&dx[i], -k[i] * stretch * dy[i]);\n", "", "never-written",
              "A spring pulls at both of its weights: x[i] gets a portion, too."),
        Wrong("i < n - 1", "i < n", "out-of-bounds",
              "There is a spring less than there are weights: weight n - 1 has no neighbour behind it."),
    ],
    bug=True,
    reference=reference,
    arguments=lambda x, k, dy: {"dx": x.shape, "dk": k.shape, "n": x.size},
    zeros=True,
    inputs=[(numbers(n), numbers(n - 1, seed=1), numbers(n - 1, seed=2)) for n in (3, 33, 2, 31, 1023, 1025)],
)  # fmt: skip
