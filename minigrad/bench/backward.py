"""An adjoint to be queued again and again on arrays that stay: what a `vjp` does on the GPU, and none of its checks."""

from collections.abc import Sequence
from typing import Any

from minigrad.adjoint import Adjoint, launching
from minigrad.array import Array
from minigrad.convert import copied
from minigrad.limits import Extent


class Backward:
    """Call it to queue the adjoint and get the gradients by name; nothing waits for the GPU."""

    def __init__(self, made: Adjoint, args: Sequence[Any], dy: Sequence[Array], grid: Extent, block: Extent):
        self.made, self.dy, self.run = made, dy, made.prepared(args, grid, block)
        made.slots = 1
        made.vjp(*args, dy=dy, grid=grid, block=block)  # finds out how long the tapes must be

    def __call__(self, dy: Sequence[Array] | None = None) -> dict[str, Array]:
        made, derived = self.made, self.made.derived
        upstream = dict(zip(made.outputs, dy or self.dy, strict=True))
        gradients = launching.gradients_of(self.run, derived, upstream, made.assembled)
        launching.launch(made.kernels, self.run, made.assembled, derived, gradients, made.slots)
        return launching.summed(self.run, derived, gradients)

    @property
    def tape_bytes(self) -> tuple[int, int]:
        """Bytes of local tapes a thread, and of global tapes in all."""
        made, device = self.made, next(iter(self.run.arrays.values())).device
        local = sum(int(row.bytes) for row in made.decisions.rows if row.how == "local tape")
        tapes = (t for t in made.derived.tapes if t.size is None)
        return local, sum(launching.tape_array(self.run, t, made.slots, device).nbytes for t in tapes)


class Chain:
    """A kernel that runs on its own result, as steps of time do, and the walk back through the states it has kept.

    read and written name the kernel's state before and after a step. `forward()` queues all steps, a call the way back.
    """

    def __init__(
        self, made: Adjoint, args: Sequence[Any], dy: Array, grid: Extent, block: Extent, state: tuple[str, str],
        steps: int,
    ):  # fmt: skip
        read, written = ([p.name for p in made.module.kernel.params].index(name) for name in state)
        states = [args[read], *(copied(args[written]) for _ in range(steps))]
        self.launches = [list(args) for _ in range(steps)]
        for launch, before, after in zip(self.launches, states[:-1], states[1:], strict=True):
            launch[read], launch[written] = before, after
        self.made, self.dy, self.grid, self.block, self.state = made, dy, grid, block, state[0]
        self.forward()
        self.back = [Backward(made, launch, [dy], grid, block) for launch in reversed(self.launches)]

    def forward(self) -> None:
        """All steps."""
        for launch in self.launches:
            self.made.primal(*launch, grid=self.grid, block=self.block)

    def __call__(self) -> dict[str, Array]:
        gradients = {self.state: self.dy}
        for step in self.back:
            gradients = step([gradients[self.state]])
        return gradients

    @property
    def tape_bytes(self) -> tuple[int, int]:
        """Those of a step."""
        return self.back[0].tape_bytes
