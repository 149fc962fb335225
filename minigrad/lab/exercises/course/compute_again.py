"""15b: the tape of a loop read in every round, against computing its values again."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

AWAY = np.float32(1.5)


def forward(n: int, rounds: int) -> np.ndarray:
    """The tape: p at the start of each round, between -1.6 and 1.6."""
    rows = [numbers(n) / 3]
    for _ in range(rounds - 1):
        rows.append(rows[-1] ** 2 - AWAY)
    return np.stack(rows)


def reference(tape: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """The gradient of each round's p: the factors of that round and of all later ones."""
    return (2 * tape[::-1].astype(np.float64)).cumprod(axis=0)[::-1] * dy


compute_again = KernelExercise(
    "15b",
    task="""
**Compute it again.** In each round a kernel squares `p` and takes 1.5 away, and stores every `p` on a tape:

```
float p = x[i];
for (int j = 0; j < rounds; ++j) {
    tape[j * n + i] = p;
    p = p * p - 1.5f;
}
y[i] = p;
```

The adjoint below is right. It stores how `y` depends on the `p` of each round, and reads the whole tape. Make it move
fewer sectors: the first row holds `x`, and everything else can be computed again. There are at most 8 rounds. Your
score is the number of sectors.
""",
    solution="""
extern "C" __global__ void compute_again(
    const float* tape, const float* dy, float* dp, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float d_p = dy[i];
        //> for (int j = rounds - 1; j >= 0; --j) {
        //>     d_p *= 2 * tape[j * n + i];
        //>     dp[j * n + i] = d_p;
        //> }
        float kept[8];
        float p = tape[i];
        for (int j = 0; j < rounds; ++j) {
            kept[j] = p;
            p = p * p - 1.5f;
        }
        for (int j = rounds - 1; j >= 0; --j) {
            d_p *= 2 * kept[j];
            dp[j * n + i] = d_p;
        }
        //<
    }
}
""",
    hints=[
        "The first row of the tape is x. From it, the loop of the forward kernel gives all other rows.",
        "A small array of the thread's own, `float kept[8];`, costs no sectors. Fill it on the way forward.",
        "Two loops: first that of the forward kernel, then the one that you see. What does the first one have to leave "
        "for the second, and before or after which line?",
    ],
    wrong=[
        Wrong("kept[j] = p;\n            p = p * p - 1.5f;", "p = p * p - 1.5f;\n            kept[j] = p;", "value",
              "kept[j] is the p from which round j starts: keep it before you overwrite it."),
        Wrong("p = p * p - 1.5f;", "p = p * p;", "value", "Compute p as the forward kernel does: p * p - 1.5f."),
        Wrong("p = p * p - 1.5f;", "p = tape[(j + 1) % rounds * n + i];", "wasteful",
              "This still reads every row of the tape. Compute the next p from the last one."),
        Wrong("p = p * p - 1.5f;", "p = j % 2 ? tape[(j + 1) % rounds * n + i] : p * p - 1.5f;", "wasteful",
              "Every second row is still read. The first one is enough."),
        Wrong("kept[j] = p;", "kept[j] = p;\n            p = tape[i] * 0 + p;", "wasteful",
              "tape[i] is read in every round. Read it once, before the loop."),
        Wrong("d_p *= 2 * kept[j]", "d_p *= kept[j]", "value", "The derivative of p * p is 2 p."),
        Wrong("d_p *= 2 * kept[j]", "d_p *= 2 * p", "value",
              "After the first loop p is the last value. The way back needs that of round j."),
        Wrong("d_p *= 2 * kept[j]", "d_p = 2 * kept[j]", "value",
              "The gradient that arrives is lost: multiply it, `*=`."),
        Wrong("d_p *= 2 * kept[j]", "d_p += 2 * kept[j]", "value",
              "Round j multiplies the gradient by its derivative. It adds nothing."),
        Wrong("j >= 0", "j > 0", "never-written", "Round 0 is a round as well: j >= 0."),
        Wrong("float p = tape[i]", "float p = tape[i * rounds]", "value",
              "The tape has a row for each round: element i of the first row is tape[i]."),
        Wrong("float p = tape[i]", "float p = tape[(rounds - 1) * n + i]", "value",
              "That is the last row. The loop begins with the first one, which is x."),
        Wrong("float d_p = dy[i]", "float d_p = 1", "value", "The walk back starts from dy[i]."),
        Wrong("dp[j * n + i] = d_p", "dp[j * n + i] += d_p", "uninitialised",
              "dp may hold anything: one thread owns the element, and comes by once: store."),
        Wrong("d_p *= 2 * kept[j];\n            dp[j * n + i] = d_p;",
              "dp[j * n + i] = d_p;\n            d_p *= 2 * kept[j];", "value",
              "This stores the gradient of the p after round j. The factor of round j comes first."),
        Wrong("for (int j = rounds - 1; j >= 0; --j)", "for (int j = 0; j < rounds; ++j)", "value",
              "The gradient of a round's p has the factors of all later rounds: walk back from the last one."),
        Wrong("(i < n)", "(i <= n)", "out-of-bounds", "There are n columns: the guard is i < n."),
    ],
    reference=reference,
    arguments=lambda tape, dy: {"dp": tape.shape, "n": dy.size, "rounds": tape.shape[0]},
    inputs=[(forward(n, rounds), numbers(n, seed=1)) for n, rounds in ((3, 2), (1, 1), (33, 3), (1025, 5))],
    score="sectors",
)  # fmt: skip
