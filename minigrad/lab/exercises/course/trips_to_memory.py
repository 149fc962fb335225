"""03b: the numbers that a chain of operations reads and writes, one by one and fused."""

from typing import Any

from minigrad.fusion import fuse
from minigrad.lab.exercises import Prediction, Wrong

N = 2**20


def run() -> Any:
    """The traffic of a chain with a gradient of its own, forward and backward."""
    return fuse(lambda x: ((x * x).tanh() * x).sum()).traffic(N)


def moved(launches: Any) -> int:
    """Numbers read and written for each element of x."""
    return round(sum(launch.read + launch.written for launch in launches) / (4 * N))


def truth(traffic: Any) -> dict[str, int]:
    forward = [launch for launch in traffic.op_by_op if "backward" not in launch.kernel][:4]
    return {"one_by_one": moved(forward), "fused": moved(traffic.fused[:1]), "fused_backward": moved(traffic.fused[2:])}


trips_to_memory = Prediction(
    "03b",
    "trips_to_memory",
    task=r"""
**Trips to memory.** The chain $y = \sum_i \tanh(x_i^2) \cdot x_i$ has four operations: `x * x`, `tanh`, `* x` and
`sum`. Predict for each element of $x$ how many numbers are read and written in all,

* on the way forward, one operation after the other, where `x * x` reads $x$ once;
* on the way forward in one fused kernel;
* on the way back in one fused kernel, which recomputes what it needs and writes $dx$.

The sum itself is one number, and so is the $dy$ that arrives: among a million they do not count.
""",
    solution="""
#> one_by_one = ...  # numbers read and written forward, for each element
one_by_one = 8
#<
#> fused = ...  # the same, in one kernel
fused = 1
#<
#> fused_backward = ...
fused_backward = 2
#<
""",
    run=run,
    truth=truth,
    show=lambda traffic: traffic,
    hints=[
        "make a table with a row for each operation: what it reads, what it writes.",
        "x * x reads 1 and writes 1, and so does tanh. The product reads two arrays. The sum writes next to nothing.",
        "a fused kernel reads x. What else has it to read, and what has to go back to memory in the end?",
    ],
    wrong=[
        Wrong("one_by_one = 8", "one_by_one = 7", "value",
              "The product `* x` reads two arrays, the result of tanh and x, and writes one: three numbers."),
        Wrong("one_by_one = 8", "one_by_one = 9", "value",
              "x * x reads the same number twice; one trip serves both. And the sum writes next to nothing."),
        Wrong("one_by_one = 8", "one_by_one = 4", "value", "Each operation reads, and all but the sum write as well."),
        Wrong("fused = 1", "fused = 2", "value",
              "Forward, the fused kernel writes nothing but its sum: all that it moves is x, read once."),
        Wrong("fused = 1", "fused = 8", "value", "What lies between two operations stays in registers."),
        Wrong("fused_backward = 2", "fused_backward = 3", "value",
              "It recomputes tanh from x rather than reading it: x is read, dx is written."),
        Wrong("fused_backward = 2", "fused_backward = 1", "value", "It reads x and writes dx: two numbers."),
    ],
)  # fmt: skip
