"""14: a barrier of the grid, written by hand, with a fence that comes too late."""

import numpy as np

from minigrad.lab.exercises import KernelExercise, Wrong, numbers

BLOCK, STEPS = 4, 3
MEET, FIRST, END = "        __syncthreads();\n", "        if (threadIdx.x == 0) {\n", "        }\n"
FENCE, ARRIVE = "            __threadfence();\n", "            atomicAdd(arrived, 1);\n"
WAIT = "            while (atomicAdd(arrived, 0) < gridDim.x * t) __nanosleep(0);\n"


def reference(x: np.ndarray, arrived: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two steps of the ring, the newer one at its place, and the counter after all blocks have arrived STEPS times."""
    steps = [x]
    for _ in range(STEPS):
        steps.append((np.roll(steps[-1], 1) + np.roll(steps[-1], -1)).astype(x.dtype))
    halves = steps[-2:] if STEPS % 2 else steps[:-3:-1]
    return np.concatenate(halves), arrived + np.uint32(STEPS * -(-len(x) // BLOCK))


late_fence = KernelExercise(
    "14",
    task=r"""
**The fence comes too late.** Numbers sit on a ring. In each step a number becomes the sum of its two neighbors:
$y^{(t)}_i = y^{(t-1)}_{i-1} + y^{(t-1)}_{i+1}$. Like the hidden state, it changes hands between
blocks at every step, in two halves of `y` that change their roles. All blocks meet after each step. The author had no
header at hand, and wrote the meeting from memory. On the author's GPU it was right for weeks.

The microscope finds a race. Which line of the meeting is at the wrong place, and which one is missing? Mend both. A
meeting needs no more than one counter, two fences, and two `__syncthreads()`.
""",
    solution="""
extern "C" __global__ void late_fence(
    const float* x, float* y, unsigned* arrived, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int t = 1; t <= steps; ++t) {
        const float* before = t == 1 ? x : y + (t - 1) % 2 * n;
        if (i < n) y[t % 2 * n + i] = before[(i + n - 1) % n] + before[(i + 1) % n];
        //> __syncthreads();
        //> if (threadIdx.x == 0) {
        //>     atomicAdd(arrived, 1);
        //>     __threadfence();
        //>     while (atomicAdd(arrived, 0) < gridDim.x * t) __nanosleep(0);
        //> }
        //> __syncthreads();
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived, 1);
            while (atomicAdd(arrived, 0) < gridDim.x * t) __nanosleep(0);
            __threadfence();
        }
        __syncthreads();
        //<
    }
}
""",
    bug=True,
    hints=[
        "a block says by its atomicAdd: what I have written is there for all. What must come before it so that this is "
        "true?",
        "compare with grid_barrier on this page: one fence stands before the arrival (release), and one after the wait "
        "(acquire).",
        "move the fence up, above atomicAdd(arrived, 1), and write a second one between the loop that waits and the "
        "closing brace.",
    ],
    wrong=[
        Wrong(f"{FENCE}{ARRIVE}", ARRIVE, "race",
              "The release is missing: a block must fence what it has written before it says that it has arrived."),
        Wrong(f"{FENCE}{END}", END, "race",
              "The acquire is missing: without a fence after the wait, a read may still get an older value."),
        Wrong(f"{FENCE}{ARRIVE}", f"{ARRIVE}{FENCE}", "race",
              "The first fence still stands after the arrival: it must come before it."),
        Wrong(f"{WAIT}{FENCE}", f"{FENCE}{WAIT}", "race",
              "The second fence must come after the wait: it orders what is read from then on."),
        Wrong(f"{MEET}{FIRST}", FIRST, "race",
              "Thread 0 arrives for its whole block, so the block has to meet before: the first __syncthreads()."),
        Wrong(f"{END}{MEET}", END, "race",
              "The other threads must not go on before thread 0 has seen all: the second __syncthreads()."),
        Wrong(WAIT, "", "race", "Nobody waits: without the loop a block arrives, and goes on."),
        Wrong(f"{FIRST}{FENCE}{ARRIVE}{WAIT}{FENCE}{END}{MEET}", FENCE, "race",
              "__syncthreads() holds the threads of one block. It knows nothing of the others."),
        Wrong(FIRST, "        {\n", "race",
              "One thread arrives for its block: the target counts blocks, and not threads."),
        Wrong("y + (t - 1) % 2 * n", "y + t % 2 * n", "race",
              "That half is being written in this step. The step before is in the other one."),
        Wrong("y[t % 2 * n + i] =", "y[i] =", "race",
              "The halves change their roles from step to step: y[t % 2 * n + i]."),
        Wrong("if (i < n) y", "y", "out-of-bounds", "The last block has threads without a number: i < n."),
    ],
    reference=reference,
    arguments=lambda x, arrived: {"y": (2 * x.shape[0],), "arrived": arrived, "n": x.shape[0], "steps": STEPS},
    inputs=[(numbers(n), np.zeros(1, np.uint32)) for n in (8, 10, 4, 13, 1)],
    tunables={"BLOCK": (BLOCK,)},
    cooperative=True,
)  # fmt: skip
