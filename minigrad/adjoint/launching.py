"""A launch of an adjoint: gradients and tapes made, and the kernel run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from minigrad.adjoint.accumulate import COPIES
from minigrad.adjoint.assemble import Assembled
from minigrad.adjoint.counting import evaluate
from minigrad.adjoint.cover import Cover
from minigrad.adjoint.derive import Derived
from minigrad.adjoint.expr import Expr
from minigrad.adjoint.module import Module
from minigrad.adjoint.printer import expression
from minigrad.adjoint.tapes import STORED, Tape
from minigrad.adjoint.tree import Param
from minigrad.adjoint.types import floating
from minigrad.arguments import C_NAMES
from minigrad.array import Array
from minigrad.convert import convert, copied
from minigrad.devices import base
from minigrad.errors import LaunchError
from minigrad.kernel import Kernel
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

MOST_COPIED = 1 << 18  # elements of all the copies of a gradient to which all blocks add; or as many as threads
SLOTS = 64  # of a tape whose length only the running kernel knows, at the first try
DTYPES = {c: dtype for dtype, c in C_NAMES.items()}


@dataclass
class Run:
    """One launch: the arguments by name, and its extents."""

    module: Module
    arrays: dict[str, Any]
    scalars: dict[str, Any]
    grid: base.Dim3
    block: base.Dim3

    @property
    def threads(self) -> int:
        """All threads."""
        return prod(self.grid) * prod(self.block)

    @property
    def extents(self) -> dict[str, int]:
        """blockDim and gridDim by part."""
        named = (("gridDim", self.grid), ("blockDim", self.block))
        return {f"{what}.{axis}": n for what, extent in named for axis, n in zip("xyz", extent, strict=True)}

    @property
    def known(self) -> dict[str, Any]:
        """What the host knows by the names of the kernel: macros, extents, scalars."""
        return {**self.module.values, **self.extents, **self.scalars}

    def number(self, e: Expr) -> int | None:
        """A whole-number expression of the kernel, of its first thread."""
        whole = {name: int(v) for name, v in self.known.items() if isinstance(v, int | np.integer)}
        first = {f"{what}.{axis}": 0 for what in ("threadIdx", "blockIdx") for axis in "xyz"}
        return evaluate(e, first | whole)

    def shape(self, p: Param) -> tuple[int, ...]:
        """The shape of an argument, and of its gradient."""
        return self.arrays[p.name].shape if p.pointer else ()

    def stride(self, p: Param) -> int:
        """How far apart the copies of a gradient lie: a line of the cache at least; 0 where it is too large for any."""
        size = prod(self.shape(p))
        return max(size, 32) if COPIES * size <= max(self.threads, MOST_COPIED) else 0

    def fills(self, found: Cover | None, p: Param) -> bool:
        """Whether this launch stores into every element of the gradient of a parameter."""
        if found is None or found.size.at(self.known) != prod(self.shape(p)):
            return False
        gaps = [(have - wanted).at(self.known) for have, wanted in found.enough]
        return all(gap is not None and gap >= 0 for gap in gaps)

    def dtype(self, kind: str) -> np.dtype:
        """The dtype behind a type; of `real` that of the first array that is real."""
        if kind != "real":
            return DTYPES[kind]
        reals = [p.name for p in self.module.kernel.params if p.pointer and p.type == "real"]
        return self.arrays[reals[0]].dtype if reals else np.dtype(np.float32)


def check_conditions(run: Run, derived: Derived) -> None:
    """Raise where the launch has not the extents on which the adjoint relies."""
    for extents, most in ((derived.conditions, False), (derived.limits, True)):
        for name, e in extents.items():
            wanted, given = run.number(e), run.extents[name]
            if wanted is None or given > wanted or (given < wanted and not most):
                raise LaunchError(f"{run.module.kernel.name}: {name} is {given}, {_relied(name, e, wanted, most)}")
    for fill in derived.fills:
        if not fill.holds(run.extents):
            raise LaunchError(
                f"{run.module.kernel.name}: in a block of {run.block}, a round of the loop at line {fill.line} reads "
                f"elements of {fill.array.name} that no thread has stored in that round, or stores beyond its end; and "
                f"the adjoint runs each round by itself. Choose a block whose threads store all that they read."
            )


def _relied(name: str, e: Expr, wanted: int | None, most: bool) -> str:
    """What the adjoint relies on in an extent, and the way out."""
    text, axis = expression(e), name[-1]
    known = text if str(wanted) == text else f"{text} = {wanted}"
    if not most:
        return f"and its adjoint relies on {known}, as its indices or shared arrays tell. Launch it so."
    return (
        f"and its adjoint relies on at most {known}: in a larger block threads meet those of the next one at an index "
        f"with threadIdx.{axis} and {text} in it. Launch smaller blocks; or, if they are to meet, write an int "
        f"parameter of the kernel for {text}: then the adjoint adds by atomics."
    )


def gradients_of(run: Run, derived: Derived, given: Mapping[str, Array], assembled: Assembled) -> dict:
    """The gradients by parameter: those of outputs as given, in copies where they are written; others to be filled."""
    device = next(iter(run.arrays.values())).device
    made = {}
    for p in run.module.kernel.params:
        if (d := given.get(p.name)) is not None:
            made[p.name] = copied(d) if derived.gradients.get(p.name) in assembled.written else d
        elif floating(p.type):
            name = derived.gradients.get(p.name, "")
            apart = run.stride(p) if name in derived.strides else 0
            begin = Array.empty if run.fills(derived.covers.get(name), p) else Array.zeros
            made[p.name] = begin(device, (COPIES, apart) if apart else run.shape(p), run.dtype(p.type))
    return made


def summed(run: Run, derived: Derived, made: dict) -> dict:
    """The gradients, with those that were added up in copies as one."""
    for p in run.module.kernel.params:
        if derived.gradients.get(p.name) in derived.strides and run.stride(p):
            with no_grad():
                whole = Tensor(made[p.name]).sum(axis=0)
                made[p.name] = whole[: prod(run.shape(p))].reshape(*run.shape(p)).array
    return made


def fitted(d: Array, value: Any) -> Array:
    """The gradient of a parameter as what was given for it: a number may come in shape (1,), a double as float32."""
    if not isinstance(value, Tensor | Array | np.ndarray) or value.dtype.kind != "f":
        return d
    d = d if d.shape == value.shape else d.reshape(value.shape)
    return d if d.dtype == value.dtype else convert(d, value.dtype)


def launch(
    kernels: Sequence[Kernel], run: Run, assembled: Assembled, derived: Derived, made: Mapping[str, Any], slots: int
) -> Array | None:
    """Run the adjoint; where only the running kernel knows how long its tapes must be: how many slots they need."""
    arrays = {name: copied(a) if name in derived.replayed else a for name, a in run.arrays.items()}
    device = next(iter(arrays.values())).device
    tapes = {t.name: tape_array(run, t, slots, device) for t in derived.tapes if t.size is None}
    needed = Array.zeros(device, (1,), np.dtype(np.int32)) if assembled.counted else None
    gradients = {derived.gradients[name]: d for name, d in made.items() if name in derived.gradients}
    strides = {
        derived.strides[d]: run.stride(p)
        for p in run.module.kernel.params
        if (d := derived.gradients.get(p.name)) in derived.strides
    }
    known = {**arrays, **strides, **run.scalars, **gradients, **tapes, "tape_slots": slots, "tape_needed": needed}
    known |= {f"blocks_{axis}": n for axis, n in zip("xyz", run.grid, strict=True)}
    for kernel, entry in zip(kernels, assembled.entries, strict=True):
        own = {name: n for name, e in entry.extents.items() if (n := run.number(e)) is not None}
        assert len(own) == len(entry.extents)
        grid = tuple(own.get(f"gridDim.{axis}", n) for axis, n in zip("xyz", run.grid, strict=True))
        if all(n > 0 for n in grid):
            kernel(*(known[p.name] for p in entry.params), grid=grid, block=run.block)
    return needed


def tape_array(run: Run, tape: Tape, slots: int, device: Any) -> Array:
    """Memory for a tape: slots for all threads, those of a round side by side."""
    rounds = slots if tape.trips is None else run.number(tape.trips)
    assert rounds is not None
    values = prod(max(run.number(extent) or 0, 0) for extent in tape.dims)
    return Array.empty(device, (max(rounds, 1) * values, run.threads), run.dtype(STORED.get(tape.type, tape.type)))
