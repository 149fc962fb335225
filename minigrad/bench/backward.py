"""Backward: an adjoint with its memory, to be run again and again without the host's work of a `vjp`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.adjoint import Adjoint, launching
from minigrad.array import Array
from minigrad.convert import copied
from minigrad.limits import Extent


class Backward:
    """Call it to queue what a `vjp` queues. tape_bytes: of local tapes for a thread, of global tapes for all."""

    def __init__(self, made: Adjoint, args: Sequence[Any], dy: Sequence[Array], grid: Extent, block: Extent):
        self.made, self.run, self.given = made, launching.prepare(made.module, args, grid, block), dy
        derived, params = made.derived, made.assembled.params
        launching.check_conditions(self.run, derived)
        self.gradients = launching.gradients_of(self.run, derived, made.outputs, dy, params)
        self.replayed = {name: copied(self.run.arrays[name]) for name in derived.replayed}
        self.device = next(iter(self.run.arrays.values())).device
        self.needed = Array.zeros(self.device, (1,), np.dtype(np.int32))
        self._reserve(1)
        self()
        if slots := int(self.needed.numpy()[0]):  # tapes whose length only the running kernel knows
            self._reserve(slots)

    def _reserve(self, slots: int) -> None:
        """Memory for tapes of so many slots, and the arguments of the kernel."""
        derived = self.made.derived
        self.tapes = {
            t.name: launching.tape_array(self.run, t, slots, self.device) for t in derived.tapes if t.size is None
        }
        gradients = {derived.gradients[name]: d for name, d in self.gradients.items() if name in derived.gradients}
        own = {**self.replayed, **gradients, **self.tapes, "tape_slots": slots, "tape_needed": self.needed}
        known = {**self.run.arrays, **self.run.scalars, **own}
        self.args = [known[p.name] for p in self.made.assembled.params]

    def __call__(self) -> None:
        given = dict(zip(self.made.outputs, self.given, strict=True))
        for name, d in self.gradients.items():
            if name not in given:
                self.device.zero(d.address, d.nbytes)
            else:
                d.copy_from(given[name])  # nothing to do where it is the same memory
        for name, x in self.replayed.items():
            x.copy_from(self.run.arrays[name])
        self.made.kernel(*self.args, grid=self.run.grid, block=self.run.block)

    @property
    def tape_bytes(self) -> tuple[int, int]:
        """Bytes of local tapes a thread, and of global tapes in all."""
        local = sum(int(row.bytes) for row in self.made.decisions.rows if row.how == "local tape")
        return local, sum(tape.nbytes for tape in self.tapes.values())


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
        self.made, self.grid, self.block = made, grid, block
        self.forward()
        self.back: list[Backward] = []
        for launch in reversed(self.launches):
            self.back.append(Backward(made, launch, [dy], grid, block))
            dy = self.back[-1].gradients[state[0]]

    def forward(self) -> None:
        """All steps."""
        for launch in self.launches:
            self.made.primal(*launch, grid=self.grid, block=self.block)

    def __call__(self) -> None:
        for step in self.back:
            step()

    @property
    def tape_bytes(self) -> tuple[int, int]:
        """Those of a step."""
        return self.back[0].tape_bytes
