"""16: what the tape of a time loop keeps, predicted: a state for every step, and how the way back drops them."""

from typing import Any

import numpy as np

from minigrad.adjoint import differentiable, ladder
from minigrad.create import tensor, zeros
from minigrad.lab import show
from minigrad.lab.exercises import Prediction, Wrong
from minigrad.lab.memory import Timeline, timeline

WIDTH, HEIGHT, STEPS = 64, 32, 10


def flow() -> tuple[Any, Any]:
    """A function that lets a fluid flow for STEPS steps and walks back, and its start."""
    size = 9 * WIDTH * HEIGHT
    step, room = differentiable(ladder("lbm_d2q9")), zeros(size, device="sim", dtype="float64")
    walls = tensor(np.zeros(WIDTH * HEIGHT, np.int32), device="sim")

    def forward_and_back(state: Any, steps: int = STEPS) -> None:
        for _ in range(steps):
            state = step(state, walls, 1.2, room, WIDTH, HEIGHT, grid=(8, 4), block=(8, 8))
        state.sum().backward()

    def start() -> Any:
        return tensor(np.full(size, 0.1), requires_grad=True, device="sim")

    forward_and_back(start(), 1)  # the first launch of an adjoint runs the kernel once more, to look for races
    return forward_and_back, start()


def counted(seen: Timeline) -> dict[str, int]:
    """The answers, from the bytes in use after each launch and the names of the launches."""
    adjoints = [n for n, name in zip(seen.live, seen.kernels, strict=True) if name == "lbm_d2q9_adjoint"]
    return {"state": seen.live[0], "adjoints": len(adjoints), "freed": adjoints[0] - adjoints[-1]}


states_kept = Prediction(
    "16",
    "states_kept",
    task="""
**What has to be kept?** The fluid of this page has 64 x 32 cells, and each cell has nine numbers of 8 bytes. It flows
for 10 steps, each of which makes a new state. The tape keeps the state from which each step started.

On the way back, the adjoint of a step makes a gradient as large as a state. Then the tape drops two arrays of that
size: the gradient that this adjoint took, and the state from which its step started.

How many bytes does one state take? How many times is the adjoint kernel launched? And how many bytes fewer are in use
after its last launch than after its first, where a launch counts before its two arrays are dropped?
""",
    solution="""
#> state = ...  # bytes of one state
state = 64 * 32 * 9 * 8
#<
#> adjoints = ...  # launches of the adjoint kernel
adjoints = 10
#<
#> freed = ...  # bytes fewer after the last launch of the adjoint than after the first
freed = 9 * state
#<
""",
    hints=[
        "Cells times numbers in a cell times bytes of a number: that is one state.",
        "The tape forgets a state only when the way back has passed it. Each step has to be walked back once.",
        "From one launch of the adjoint to the next, one array is added and two are dropped. How many times does that "
        "happen?",
    ],
    wrong=[
        Wrong("64 * 32 * 9 * 8", "64 * 32 * 9", "value", "Each number is a double, and has 8 bytes."),
        Wrong("64 * 32 * 9 * 8", "64 * 32 * 8", "value", "A cell has nine numbers, one for each direction."),
        Wrong("64 * 32 * 9 * 8", "64 * 32 * 9 * 4", "value", "These are doubles of 8 bytes, not floats of 4."),
        Wrong("9 * state", "10 * state", "value",
              "From the first launch to the tenth there are nine steps back, and each frees one state more than it "
              "allocates."),
        Wrong("9 * state", "18 * state", "value",
              "Two arrays are dropped at each step, but the next adjoint allocates one."),
        Wrong("9 * state", "20 * state", "value",
              "Each of the 10 steps drops two arrays. But from the first launch to the last there are nine, and the "
              "next adjoint allocates one each time."),
        Wrong("9 * state", "0 * state", "value",
              "The tape does not wait until the end: it drops a state when the way back has passed it."),
        Wrong("adjoints = 10", "adjoints = 1", "value",
              "Every step was a launch of its own, and is walked back alone."),
        Wrong("adjoints = 10", "adjoints = 2048", "value",
              "One walk back gives the gradient of all 2048 cells: it takes one launch for each step."),
        Wrong("adjoints = 10", "adjoints = 20480", "value",
              "That is a launch for each cell and step. One launch has a thread for each cell."),
    ],
    run=lambda: timeline(*flow()),
    truth=counted,
    show=lambda seen: show.memory(*flow(), what=f"{STEPS} steps and the way back, {{}} launches, hold"),
)  # fmt: skip
