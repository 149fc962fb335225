"""09: an update in one pass over its arrays in place of three."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

LR, MOMENTUM, DECAY = 0.25, 0.5, 0.125  # exact in float


def reference(g: np.ndarray, p: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The parameters and velocities after a step."""
    after = MOMENTUM * v + (g + DECAY * p)
    return p - LR * after, after


sgd_decay = KernelExercise(
    "09",
    task=r"""
**One pass instead of three.** *Weight decay* pulls every parameter a little toward 0. A network with small parameters
follows the accidents of its training data less:

$$v \leftarrow \mu\, v + g + \lambda\, p, \qquad p \leftarrow p - \eta\, v$$

The kernel below is right. Its three loops are the three lines that one writes in NumPy, and each loop walks over whole
arrays in memory. Make it move fewer sectors: read and write each number once. Your score is the number of sectors.
""",
    solution="""
extern "C" __global__ void sgd_decay(
    float* p, const float* g, float* v, float lr, float momentum, float decay, int n) {
    int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    //> for (int i = first; i < n; i += stride) {
    //>     v[i] = momentum * v[i];
    //> }
    //> for (int i = first; i < n; i += stride) {
    //>     v[i] += g[i] + decay * p[i];
    //> }
    //> for (int i = first; i < n; i += stride) {
    //>     p[i] -= lr * v[i];
    //> }
    for (int i = first; i < n; i += stride) {
        float parameter = p[i];
        float velocity = momentum * v[i] + (g[i] + decay * parameter);
        v[i] = velocity;
        p[i] = parameter - lr * velocity;
    }
    //<
}
""",
    hints=[
        "count the accesses of one element: how often is v[i] read, and how often is it written?",
        "one loop is enough, since element i needs nothing but element i of the other arrays.",
        "what was read stays in a variable: float parameter = p[i], and float velocity for the new v[i].",
        "three reads, two writes: p[i], v[i] and g[i] once each, then v[i] and p[i]. All else is in variables.",
    ],
    wrong=[
        Wrong("float velocity = momentum * v[i] + (g[i] + decay * parameter);\n        v[i] = velocity;\n"
              "        p[i] = parameter - lr * velocity;",
              "v[i] = momentum * v[i] + (g[i] + decay * parameter);\n        p[i] = parameter - lr * v[i];", "wasteful",
              "v[i] is read back right after it was written. Keep the new velocity in a variable."),
        Wrong("float velocity = momentum * v[i] + (g[i] + decay * parameter);\n        v[i] = velocity;\n",
              "v[i] = momentum * v[i];\n        v[i] += g[i] + decay * parameter;\n        float velocity = v[i];\n",
              "wasteful", "One loop, but v[i] still goes to memory and back for each line of it."),
        Wrong("v[i] = velocity;\n        p[i] = parameter - lr * velocity;\n    }",
              "v[i] = velocity;\n    }\n    for (int i = first; i < n; i += stride) {\n"
              "        p[i] -= lr * v[i];\n    }", "wasteful",
              "Two loops walk over v and p twice. Move the parameter in the loop that has the velocity."),
        Wrong("float parameter = p[i];\n        float velocity = momentum * v[i] + (g[i] + decay * parameter);",
              "float parameter = p[i];\n        float velocity = momentum * v[i] + (g[i] + decay * p[i]);", "wasteful",
              "p[i] is read twice. It is in `parameter` already."),
        Wrong("int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;\n"
              "    for (int i = first; i < n; i += stride) {",
              "int each = (n + gridDim.x * blockDim.x - 1) / (gridDim.x * blockDim.x);\n"
              "    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;\n"
              "    for (int i = first; i < min(first + each, n); ++i) {", "wasteful",
              "Neighboring threads are far apart here, so each of them needs a sector of its own."),
        Wrong("(g[i] + decay * parameter)", "(g[i] - decay * parameter)", "value",
              "Decay pulls toward 0: it adds to the gradient, since the step goes against it."),
        Wrong("(g[i] + decay * parameter)", "g[i]", "value", "The decay is missing: g[i] + decay * parameter."),
        Wrong("parameter - lr * velocity", "parameter - lr * velocity - decay * parameter", "value",
              "The decay counts twice now. It goes into the velocity alone."),
        Wrong("momentum * v[i] + (g[i]", "v[i] + (g[i]", "value",
              "The old velocity fades: momentum * v[i], as in the first of the three loops."),
        Wrong("(g[i] + decay * parameter)", "momentum * (g[i] + decay * parameter)", "value",
              "Momentum is for the old velocity alone. Gradient and decay count in full."),
        Wrong("parameter - lr * velocity", "parameter + lr * velocity", "value",
              "This walks uphill: a step goes against the gradient."),
        Wrong("        v[i] = velocity;\n", "", "never-written",
              "The next step starts from this velocity. Store it in v[i]."),
        Wrong("i < n;", "i <= n;", "out-of-bounds", "Elements are counted from 0, so n is one past the last of them."),
        Wrong("i += stride", "i += blockDim.x", "race",
              "The next element of a thread lies a whole grid further on. Here blocks update each other's elements."),
    ],
    reference=reference,
    arguments=lambda g, p, v: {
        "p": p, "v": v, "lr": LR, "momentum": MOMENTUM, "decay": DECAY, "n": p.size, "blocks": 2,
    },
    inputs=[(numbers(n), numbers(n, seed=1), numbers(n, seed=2)) for n in (1, 33, 131, 0, 512)],
    sizes="blocks",
    grid=("blocks",),
    tunables={"BLOCK": (32, 1, 64)},
    score="sectors",
)  # fmt: skip
