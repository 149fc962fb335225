"""09: the update of the parameters, one thread for each of them."""

import numpy as np

from minigrad.lab.exercises import AsOp, KernelExercise, Wrong, numbers

LR, MOMENTUM = 0.25, 0.5  # in these, sums and products of halves are exact


def reference(g: np.ndarray, p: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The parameters and velocities after a step."""
    after = MOMENTUM * v + g
    return p - LR * after, after


sgd_step = KernelExercise(
    "09",
    task=r"""
**The step downhill.** The last kernel of a training step moves every parameter against its gradient, with momentum:

$$v \leftarrow \mu\, v + g, \qquad p \leftarrow p - \eta\, v$$

$\mu$ is `momentum`, $\eta$ is `lr`. One thread takes one parameter. `p` and `v` hold the numbers of the step before,
and the new ones go into their places. After a pass this kernel updates the parameters wherever you train with
`mg.using(*mg.mine())`.
""",
    solution="""
extern "C" __global__ void sgd_step(
    float* p, const float* g, float* v, float lr, float momentum, int n) {
    //> // your code
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float velocity = momentum * v[i] + g[i];
        v[i] = velocity;
        p[i] -= lr * velocity;
    }
    //<
}
""",
    hints=[
        "element, guard, and then two lines: first the new velocity, then the new parameter.",
        "the parameter moves by the *new* velocity. Keep it in a variable of its own, float velocity.",
        "store the velocity as well: the next step starts from it. The parameter loses lr times the velocity.",
    ],
    wrong=[
        Wrong("p[i] -= lr", "p[i] += lr", "value",
              "This walks uphill: the loss grows along the gradient. A step goes against it, `-=`."),
        Wrong("        v[i] = velocity;\n", "", "never-written",
              "The next step needs the velocity of this one. Store it in v[i]."),
        Wrong("lr * velocity", "lr * g[i]", "value",
              "The parameter moves by the velocity, and not by the gradient alone: this step has no momentum."),
        Wrong("lr * velocity", "velocity", "value", "The length of the step is missing: lr times the velocity."),
        Wrong("momentum * v[i] + g[i]", "momentum * (v[i] + g[i])", "value",
              "Momentum is a share of the old velocity alone. The new gradient counts in full."),
        Wrong("momentum * v[i] + g[i]", "momentum * v[i] + (1 - momentum) * g[i]", "value",
              "This is a mean of old and new, as in Adam. Here the gradient counts in full: `+ g[i]`."),
        Wrong("momentum * v[i] + g[i]", "momentum * v[i] + lr * g[i]", "value",
              "lr comes in twice now. It scales the step, and not what the velocity remembers."),
        Wrong("momentum * v[i] + g[i];\n        v[i] = velocity;\n        p[i] -= lr * velocity",
              "momentum * v[i] + lr * g[i];\n        v[i] = velocity;\n        p[i] -= velocity", "value",
              "Some books let the velocity contain lr. Here it does not: v takes g in full, and p loses lr * v."),
        Wrong("momentum * v[i] + g[i]", "v[i] + g[i]", "value",
              "Without momentum in front of it the old velocity never fades: momentum * v[i]."),
        Wrong("momentum * v[i] + g[i]", "momentum * v[i] - g[i]", "value",
              "The minus is in the next line already: two of them lead uphill."),
        Wrong("v[i] = velocity;\n        p[i] -= lr * velocity;", "p[i] -= lr * v[i];\n        v[i] = velocity;",
              "value", "Here the parameter moves by the velocity of the step before. Find the new one first."),
        Wrong("p[i] -= lr * velocity", "p[i] = -lr * velocity", "value",
              "`=` forgets where the parameter was. Take the step away from it: `-=`."),
        Wrong("float velocity", "int velocity", "value", "An int drops what comes after the point."),
        Wrong("i < n", "i < n - 1", "never-written", "The last parameter is n - 1: this guard leaves it out."),
        Wrong("i < n", "i <= n", "out-of-bounds", "Elements are counted from 0, so n is one past the last of them."),
        Wrong("if (i < n) ", "", "out-of-bounds", "The last block has threads without a parameter. Send them home."),
        Wrong("blockIdx.x * blockDim.x + ", "", "race",
              "threadIdx.x starts from 0 in every block, so all blocks update the parameters of the first."),
    ],
    reference=reference,
    arguments=lambda g, p, v: {"p": p, "v": v, "lr": LR, "momentum": MOMENTUM, "n": p.size},
    inputs=[(numbers(n), numbers(n, seed=1), numbers(n, seed=2)) for n in (1, 3, 0, 31, 33, 1025)],
    op=AsOp("SGD"),
)  # fmt: skip
