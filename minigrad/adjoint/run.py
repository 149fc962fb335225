"""A launch of an adjoint: gradients and tapes made, and the kernel run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any

import numpy as np

from minigrad.adjoint.analyse.regions import Cover
from minigrad.adjoint.analyse.trip_counts import evaluate
from minigrad.adjoint.decide.accumulate import COPIES
from minigrad.adjoint.decide.store_or_recompute import STORED, Tape
from minigrad.adjoint.derive import Derived
from minigrad.adjoint.emit.assemble import Assembled
from minigrad.adjoint.language.ast import Expr, Parameter, Place, is_float
from minigrad.adjoint.language.dataflow import written
from minigrad.adjoint.language.file import KernelFile
from minigrad.adjoint.language.printer import expression
from minigrad.devices import device as base
from minigrad.devices import kernel_device
from minigrad.devices.array import Array
from minigrad.devices.dtypes import convert, copied, move, to_host
from minigrad.errors import LaunchError, short
from minigrad.kernels.arguments import C_NAMES, bind
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Extent
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

MOST_COPIED = 1 << 18  # elements of all the copies of a gradient to which all blocks add; or as many as threads
SLOTS = 64  # of a tape whose length only the running kernel knows, at the first try
DTYPES = {c: dtype for dtype, c in C_NAMES.items()}


@dataclass
class Run:
    """One launch: the arguments by name, and its extents."""

    file: KernelFile
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
        return {**self.file.values, **self.extents, **self.scalars}

    def number(self, e: Expr) -> int | None:
        """A whole-number expression of the kernel, of its first thread."""
        whole = {name: int(v) for name, v in self.known.items() if isinstance(v, int | np.integer)}
        first = {f"{what}.{axis}": 0 for what in ("threadIdx", "blockIdx") for axis in "xyz"}
        return evaluate(e, first | whole)

    def shape(self, p: Parameter) -> tuple[int, ...]:
        """The shape of an argument, and of its gradient."""
        return self.arrays[p.name].shape if p.pointer else ()

    def stride(self, p: Parameter) -> int:
        """How far apart the copies of a gradient lie: a line of the cache at least; 0 where it is too large for any."""
        size = prod(self.shape(p))
        return max(size, 32) if COPIES * size <= max(self.threads, MOST_COPIED) else 0

    def fills(self, found: Cover | None, p: Parameter) -> bool:
        """Whether this launch stores into every element of the gradient of a parameter."""
        if found is None or found.size.at(self.known) != prod(self.shape(p)):
            return False
        gaps = [(have - wanted).at(self.known) for have, wanted in found.enough]
        return all(gap is not None and gap >= 0 for gap in gaps)

    def dtype(self, kind: str) -> np.dtype:
        """The dtype behind a type; of `real` that of the first array that is real."""
        if kind != "real":
            return DTYPES[kind]
        reals = [p.name for p in self.file.kernel.params if p.pointer and p.type == "real"]
        return self.arrays[reals[0]].dtype if reals else np.dtype(np.float32)


def check_conditions(run: Run, derived: Derived) -> None:
    """Raise where the launch has not the extents on which the adjoint relies."""
    for extents, most in ((derived.conditions, False), (derived.limits, True)):
        for name, e in extents.items():
            wanted, given = run.number(e), run.extents[name]
            if wanted is None or given > wanted or (given < wanted and not most):
                raise LaunchError(f"{run.file.kernel.name}: {name} is {given}, {_relied(name, e, wanted, most)}")
    for fill in derived.fills:
        if not fill.holds(run.extents):
            raise LaunchError(
                f"{run.file.kernel.name}: in a block of {run.block}, a round of the loop at line {fill.line} reads "
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
    for p in run.file.kernel.params:
        if (d := given.get(p.name)) is not None:
            made[p.name] = copied(d) if derived.gradients.get(p.name) in assembled.written else d
        elif is_float(p.type):
            name = derived.gradients.get(p.name, "")
            apart = run.stride(p) if name in derived.strides else 0
            begin = Array.empty if run.fills(derived.covers.get(name), p) else Array.zeros
            made[p.name] = begin(device, (COPIES, apart) if apart else run.shape(p), run.dtype(p.type))
    return made


def summed(run: Run, derived: Derived, made: dict) -> dict:
    """The gradients, with those that were added up in copies as one."""
    for p in run.file.kernel.params:
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
        for p in run.file.kernel.params
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


def prepare(primal: Kernel, file: KernelFile, args: Sequence[Any], grid: Extent | None, block: Extent | None) -> Run:
    """The arguments by name, arrays on a device. Raises TypeError or LaunchError for what the kernel would not take."""
    params = primal.signature.params
    if len(args) == len(params):
        device = next((a.device.name for a in map(memory, args) if isinstance(a, Array)), kernel_device())
        args = [on_device(a, device) if p.pointer else scalar(a) for p, a in zip(params, args, strict=True)]
        for n, (p, given) in enumerate(zip(params, args, strict=True), 1):
            if p.pointer and given is None:
                raise TypeError(f"{primal.name}: argument {n} ({p}) is None, and an adjoint needs every array.")
    bind(primal.name, params, args)
    pairs = list(zip(file.kernel.params, args, strict=True))
    check_apart(file, [(p, a) for p, a in pairs if p.pointer])
    arrays, scalars = {p.name: a for p, a in pairs if p.pointer}, {p.name: a for p, a in pairs if not p.pointer}
    return Run(file, arrays, scalars, *primal.extents(grid, block))


def memory(value: Any) -> Any:
    """The array behind a tensor."""
    return value.array if isinstance(value, Tensor) else value


def on_device(value: Any, device: str) -> Any:
    """The array behind a tensor; a NumPy array is uploaded."""
    value = memory(value)
    return move(to_host(value), device) if isinstance(value, np.ndarray) else value


def scalar(value: Any) -> Any:
    """The number in a tensor, or an array, of one element."""
    one = isinstance(value, Tensor | Array | np.ndarray) and value.size == 1
    return np.asarray(value.numpy() if isinstance(value, Tensor | Array) else value).item() if one else value


def check_apart(file: KernelFile, arrays: list[tuple[Parameter, Any]]) -> None:
    """Raise where an array that is written shares memory with another one."""
    stored = written(file.kernel.body)
    for p, a in arrays:
        for q, b in arrays:
            overlap = a.address < b.address + b.nbytes and b.address < a.address + a.nbytes
            if p.name < q.name and overlap and stored & {p.name, q.name} and a.nbytes and b.nbytes:
                which = min(stored & {p.name, q.name})
                raise LaunchError(
                    f"{file.kernel.name}: {p.name} and {q.name} share memory and {which} is written; pass a copy."
                )


def upstream(run: Run, outputs: Sequence[str], dy: Any) -> dict[str, Array]:
    """The gradients of outputs, by name. Raises TypeError or LaunchError for what does not fit them."""
    who, named = f"{run.file.kernel.name}: dy", ", ".join(outputs)
    dy = [dy] if isinstance(dy, Tensor | Array | np.ndarray) else dy
    if not isinstance(dy, Sequence) or isinstance(dy, str):
        raise TypeError(f"{who} takes a list with the gradient of each output ({named}); got {short(dy)}.")
    if len(dy) != len(outputs):
        raise LaunchError(f"{who} holds {len(dy)} gradients; it takes one for each output: {named}.")
    if all(d is None for d in dy):
        raise LaunchError(f"{who} is None for every output ({named}); None is a gradient of 0. Give one of them.")
    found = {}
    for name, given in zip(outputs, dy, strict=True):
        like = run.arrays[name]
        d = on_device(given, like.device.name)
        if d is None:
            continue
        if not isinstance(d, Array):
            raise TypeError(f"{who} of {name} takes a tensor or an array; got {short(given)}.")
        if d.shape != like.shape:
            raise LaunchError(f"{who} of {name} has shape {d.shape}; it must be {like.shape}, as {name} is.")
        if d.dtype != like.dtype:
            way = f"Use .astype({str(like.dtype)!r})."
            raise TypeError(f"{who} of {name} is {d.dtype}; it must be {like.dtype}, as {name} is. {way}")
        if d.device is not like.device:
            on, at = d.device.name, like.device.name
            raise LaunchError(f"{who} of {name} is on {on} and {name} on {at}; move one: dy.to({at!r}).")
        found[name] = d
    return found


EXAMINED = 4096  # threads of a launch that is looked at for races


def examine(kernel: Kernel, run: Run, kinds: str, seen: set[tuple]) -> None:
    """Run the kernel on copies under the microscope, where it is small and on sim. Raises Refused at a race.

    kinds: of the arguments that decide which elements it touches, as `dtype.kind` has them. seen: the launches already
    examined, by these.
    """
    if run.threads > EXAMINED or any(a.device.name != "sim" for a in run.arrays.values()):
        return
    given = {name: a.numpy() for name, a in run.arrays.items()} | {n: np.asarray(v) for n, v in run.scalars.items()}
    told = [(name, a.shape, sha256(a.tobytes()).digest()) for name, a in given.items() if a.dtype.kind in kinds]
    launch = (run.grid, run.block, *told, *(a.shape for a in run.arrays.values()))
    if launch in seen:
        return
    from minigrad.microscope import inspect

    arrays = {name: copied(a) for name, a in run.arrays.items()}
    args = [{**arrays, **run.scalars}[p.name] for p in run.file.kernel.params]
    for problem in inspect(kernel, *args, grid=run.grid, block=run.block, blocks=0).problems:
        if problem.kind == "race":
            why = f"the kernel has a race and so no gradient: {problem.message}"
            raise run.file.error(Place(problem.line or 0, 1), why)
    seen.add(launch)
