"""15: which reads become additions, and which of these have to be atomic."""

import numpy as np

from minigrad.adjoint import adjoint
from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.microscope import Inspection

SMOOTH = """
extern "C" __global__ void smooth(const float* x, const float* w, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) {
        y[i] = w[i] * (x[i] + x[i + 1]);
    }
}
"""
N = 33


def run() -> Inspection:
    """The adjoint of the kernel, in one block."""
    ones = np.ones(N, np.float32)
    return adjoint(SMOOTH).inspect(ones, ones, np.zeros(N, np.float32), N, dy=[ones], grid=1, block=64)[0]


def truth(record: Inspection) -> dict[str, int]:
    atomic = record.traffic[record.traffic["kind"] == "atomic"]
    plain = record.traffic[record.traffic["kind"] == "write"]
    return {"atomics": len(atomic), "plain": len(plain), "meet": int(np.bincount(atomic["element"]).max())}


reads_to_adds = Prediction(
    "15",
    "reads_to_adds",
    task=f"""
**Which reads become atomics?** Each thread of this kernel weights two neighbors:

```
if (i < n - 1) {{
    y[i] = w[i] * (x[i] + x[i + 1]);
}}
```

It runs with `n = {N}` in one block of 64 threads. Predict three counts of its adjoint, over all threads: the atomic
additions; the plain stores into `d_w`; and the largest number of atomic additions that meet at one element of `d_x`.
""",
    solution="""
#> atomics = ...  # atomic additions
atomics = 64
#<
#> plain = ...  # plain stores
plain = 32
#<
#> meet = ...  # at one element
meet = 2
#<
""",
    run=run,
    truth=truth,
    show=lambda record: show.sectors(record, "d_x"),
    hints=[
        "How many of the 64 threads pass the guard?",
        "For each of the three reads of a thread, ask which other threads read the same element.",
        "w[i] is read by thread i alone, and x[5] by the threads 4 and 5. Two of the three additions of a thread are "
        "atomic.",
    ],
    wrong=[
        Wrong("atomics = 64", "atomics = 96", "value",
              "w[i] is read by thread i alone. Its gradient needs no atomic: only the two reads of x do."),
        Wrong("atomics = 64", "atomics = 32", "value",
              "Each thread reads two elements of x, and a neighbor reads each of them, too: two atomics a thread."),
        Wrong("atomics = 64", "atomics = 66", "value",
              "There is one pair of neighbors less than there are elements: the guard stops thread n - 1."),
        Wrong("atomics = 64", "atomics = 128", "value",
              "Half of the 64 threads do not pass the guard: they add nothing."),
        Wrong("plain = 32", "plain = 33", "value",
              "The last element of w is read by no thread: the guard stops thread n - 1."),
        Wrong("plain = 32", "plain = 0", "value", "The read of w[i] becomes a store by the only thread that reads it."),
        Wrong("plain = 32", "plain = 64", "value", "Half of the 64 threads do not pass the guard: they store nothing."),
        Wrong("meet = 2", "meet = 3", "value",
              "A thread has three reads, but one of them is of w. An element of x is read by two threads."),
        Wrong("meet = 2", "meet = 32", "value",
              "All threads would meet at an element that all of them read. x[5] is read by the threads 4 and 5 only."),
        Wrong("meet = 2", "meet = 1", "value",
              "x[5] is the right neighbor of thread 4 and the own element of thread 5: both add to d_x[5]."),
    ],
)  # fmt: skip
