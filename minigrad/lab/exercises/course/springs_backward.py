"""15: the adjoint of a kernel by hand: lines in the wrong order, and a race where neighbors add to one element."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers


def reference(x: np.ndarray, k: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    stretch = np.diff(x)
    pull = k * stretch * dy
    return np.concatenate([[0.0], pull]) - np.concatenate([pull, [0.0]]), stretch * stretch * dy / 2


springs_backward = KernelExercise(
    "15",
    task=r"""
**Two rules broken.** A chain of $n$ weights at the places $x_0, x_1, \dots$, with a spring of strength $k_i$ between
weight $i$ and the next. Thread $i$ computes the energy of spring $i$:

```
if (i < n - 1) {
    float stretch = x[i + 1] - x[i];
    float pull = k[i] * stretch;
    y[i] = 0.5f * pull * stretch;
}
```

Below is its adjoint, for the places and for the strengths. All its lines are needed, but two of the three rules are
broken, each once. Find where, mend it, and leave alone what is right: an atomic where one thread alone adds is time
lost. `dx` and `dk` are full of zeros at the start.
""",
    solution="""
extern "C" __global__ void springs_backward(
    const float* x, const float* k, const float* dy, float* dx, float* dk, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) {
        float stretch = x[i + 1] - x[i];
        float pull = k[i] * stretch;
        float d_pull = 0.5f * stretch * dy[i];
        float d_stretch = 0.5f * pull * dy[i];
        //> // <- two faults are in the lines from here on
        //> atomicAdd(&dx[i + 1], d_stretch);
        //> dx[i] -= d_stretch;
        //> dk[i] += d_pull * stretch;
        //> d_stretch += d_pull * k[i];
        dk[i] += d_pull * stretch;
        d_stretch += d_pull * k[i];
        atomicAdd(&dx[i + 1], d_stretch);
        atomicAdd(&dx[i], -d_stretch);
        //<
    }
}
""",
    hints=[
        "Name for each line of the adjoint the line of the kernel that it reverses. In which order do these come?",
        "stretch is used twice, in `pull` and in `y[i]`. When does d_stretch have both of its portions?",
        "Make a table: a row for each element of dx and dk, and in it the threads that add to it. Where there are two "
        "threads in a row, how do they add without losing a portion?",
        "There is no atomic subtraction for floats, and none is needed: to take away is to add the negative.",
    ],
    wrong=[
        Wrong("d_stretch += d_pull * k[i];\n        atomicAdd(&dx[i + 1], d_stretch);\n"
              "        atomicAdd(&dx[i], -d_stretch);",
              "atomicAdd(&dx[i + 1], d_stretch);\n        atomicAdd(&dx[i], -d_stretch);\n"
              "        d_stretch += d_pull * k[i];", "value",
              "d_stretch is handed on before it is complete: its second portion, which comes by way of pull, is late."),
        Wrong("atomicAdd(&dx[i + 1], d_stretch)", "dx[i + 1] += d_stretch", "race",
              "The next thread adds to dx[i + 1] as well, by its other statement. Both have to be atomic: a plain += "
              "may write back a sum that it read before."),
        Wrong("atomicAdd(&dx[i], -d_stretch)", "dx[i] -= d_stretch", "race",
              "The thread before adds to dx[i] as well, by its other statement. Both have to be atomic: a plain -= "
              "may write back a sum that it read before."),
        Wrong("atomicAdd(&dx[i + 1], d_stretch);\n        atomicAdd(&dx[i], -d_stretch);",
              "dx[i + 1] += d_stretch;\n        __syncthreads();\n        dx[i] -= d_stretch;", "missed-barrier",
              "Not all threads come to a barrier inside this if. And it would order the threads of one block only: the "
              "last thread of a block and the first of the next share an element, too."),
        Wrong("atomicAdd(&dx[i + 1], d_stretch)", "dx[i + 1] = d_stretch", "race",
              "What is written with = wipes out the portion of the neighbor. All portions count: atomicAdd."),
        Wrong("-d_stretch", "d_stretch", "value",
              "stretch is x[i + 1] minus x[i]: the portion of x[i] has the other sign."),
        Wrong("d_stretch += d_pull * k[i]", "d_stretch = d_pull * k[i]", "value",
              "d_stretch had a portion already, from the line of y. Portions add up: +=."),
        Wrong("        d_stretch += d_pull * k[i];\n", "", "value",
              "stretch is used twice. The portion that comes by way of pull is missing."),
        Wrong("dk[i] += d_pull * stretch", "dk[i] += d_pull * k[i]", "value",
              "pull is k[i] times stretch, and each factor gets the other one: k[i] gets d_pull * stretch."),
        Wrong("dk[i] += d_pull * stretch", "atomicAdd(&dk[i], d_pull * stretch)", "wasteful",
              "dk[i] belongs to thread i alone, so its plain += was right."),
        Wrong("atomicAdd(&dx[i], -d_stretch)", "atomicExch(&dx[i], -d_stretch)", "value",
              "An exchange is atomic, too, but it puts a number in place of the sum: the neighbor's portion is gone."),
        Wrong("        atomicAdd(&dx[i], -d_stretch);\n", "", "never-written",
              "A spring pulls at both of its weights: x[i] gets a portion, too."),
        Wrong("i < n - 1", "i < n", "out-of-bounds",
              "There is a spring less than there are weights: weight n - 1 has no neighbor behind it."),
    ],
    bug=True,
    reference=reference,
    arguments=lambda x, k, dy: {"dx": x.shape, "dk": k.shape, "n": x.size},
    zeros=True,
    inputs=[(numbers(n), numbers(n - 1, seed=1), numbers(n - 1, seed=2)) for n in (3, 33, 2, 31, 1023, 1025)],
)  # fmt: skip
