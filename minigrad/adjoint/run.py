"""A launch of an adjoint: arguments and upstream gradients checked, gradients and tapes allocated, kernels run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from minigrad.adjoint.analyse.polynomials import EXTENTS, IDS
from minigrad.adjoint.analyse.trip_counts import evaluate
from minigrad.adjoint.decide import Derived
from minigrad.adjoint.decide.accumulate import COPIES
from minigrad.adjoint.decide.store_or_recompute import STORED, Tape
from minigrad.adjoint.emit.assemble import AdjointFile
from minigrad.adjoint.frontend.file import KernelFile
from minigrad.adjoint.language.ast import GRADIENTS, Expr, Function, gradient_type, is_float, own_name
from minigrad.adjoint.language.dataflow import names_used, written
from minigrad.adjoint.language.printer import expression
from minigrad.devices import device as base
from minigrad.devices import kernel_device
from minigrad.devices.array import Array
from minigrad.devices.dtypes import copied, dtype_of, move, to_host
from minigrad.errors import LaunchError, short
from minigrad.kernels.arguments import bind
from minigrad.kernels.extents import Extent
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.types import C_NAMES
from minigrad.tape import no_grad
from minigrad.tensor import Tensor

MAX_COPIED = 1 << 18  # elements in all copies of a gradient to which all blocks add; or as many as there are threads
STATIC_SHARED = 48 * 1024  # bytes of shared memory of a block that a kernel may declare
SLOTS = 64  # first guess for a tape whose length only the running kernel knows
USED = "and the kernel uses it without asking for it, as by `if ({0})`. Give an array."
DTYPES: dict[str, Any] = {c: dtype for dtype, c in C_NAMES.items()} | {"__nv_bfloat16": "bfloat16"}


@dataclass
class PrimalLaunch:
    """A launch of the kernel itself: the arguments by name, and the extents."""

    derived: Derived
    arrays: dict[str, Any]
    scalars: dict[str, Any]
    grid: base.Dim3
    block: base.Dim3
    shared: int = 0  # bytes of shared memory that the launch gives the kernel

    @property
    def file(self) -> KernelFile:
        return self.derived.facts.file

    @property
    def device(self) -> Any:
        return next(iter(self.arrays.values())).device

    @property
    def threads(self) -> int:
        return prod(self.grid) * prod(self.block)

    @property
    def extents(self) -> dict[str, int]:
        """The values of blockDim.x, ..., gridDim.z."""
        return dict(zip(EXTENTS.values(), (*self.block, *self.grid), strict=True))

    @property
    def known(self) -> dict[str, Any]:
        return {**self.file.values, **self.extents, **self.scalars, **self.shared_extents}

    @property
    def shared_extents(self) -> dict[str, int]:
        """The macros for the extents of shared arrays that the launch gives."""
        declared, found = self.file.kernel.declared, {}
        for n, macro in self.file.dynamic.items():  # an array of structs has an array for each member
            members = [n] if n in declared else [own for own in declared if own.startswith(f"{n}_")]
            found[macro] = self.shared // sum(self.dtype(declared[own].type).itemsize for own in members)
        return found

    def number(self, e: Expr) -> int | None:
        """The value of an integer expression in the first thread."""
        return evaluate(e, dict.fromkeys(IDS, 0) | self.integers)

    @property
    def integers(self) -> dict[str, int]:
        """The whole numbers that a launch knows, by name."""
        found = {name: int(v) for name, v in self.known.items() if isinstance(v, int | np.integer)}
        for name, v in self.scalars.items():
            found |= _members(name, v)
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        return self.arrays[own_name(name)].shape if own_name(name) in self.arrays else ()

    @property
    def strides(self) -> dict[str, int]:
        """The distance between copies of a gradient, by parameter, at least a cache line; 0 if too large to copy."""
        gradients, strides = self.derived.gradients, self.derived.strides
        sizes = {name: prod(self.shape(name)) for name, d in gradients.items() if d in strides}
        most = max(self.threads, MAX_COPIED)
        return {name: max(size, 32) if COPIES * size <= most else 0 for name, size in sizes.items()}

    def fills(self, name: str) -> bool:
        """True where this launch stores into every element of a parameter's gradient."""
        cover = self.derived.covers.get(self.derived.gradients.get(name, ""))
        if cover is None or cover.size.at(self.known) != prod(self.shape(name)):
            return False
        gaps = [(have - wanted).at(self.known) for have, wanted in cover.enough]
        return all(gap is not None and gap >= 0 for gap in gaps)

    def dtype(self, kind: str) -> np.dtype:
        """The dtype of a type; for `real` that of the first such array."""
        if kind != "real":
            return dtype_of(DTYPES[kind])
        reals = [p.name for p in self.file.kernel.params if p.pointer and p.type == "real"]
        return self.arrays[reals[0]].dtype if reals else np.dtype(np.float32)


def _members(name: str, value: Any) -> dict[str, int]:
    """The whole numbers in a struct that is passed by value."""
    found: dict[str, int] = {}
    record = value.dtype.names if isinstance(value, np.void | np.ndarray) else None
    for field in value if isinstance(value, Mapping) else record or ():
        inner, own = value[field], f"{name}.{field}"
        found |= {own: int(inner)} if isinstance(inner, int | np.integer) else _members(own, inner)
    return found


def check_conditions(run: PrimalLaunch) -> None:
    """Raise LaunchError where the launch does not have the extents on which the adjoint relies."""
    who, facts = run.file.kernel.name, run.derived.facts
    relied_on = [(*item, False) for item in facts.conditions.items()]
    for name, e, at_most in relied_on + [(*item, True) for item in facts.limits.items()]:
        relied, extent, text = run.number(e), run.extents[name], expression(e)
        known = text if str(relied) == text else f"{text} = {relied}"
        if extent != relied and not at_most:
            why = f"and its adjoint relies on {known}, as its indices or shared arrays show"
            way = "Launch it so, or make the shared arrays as long as the block."
            raise LaunchError(f"{who}: {name} is {extent}, {why}. {way}")
        if relied is None or extent > relied:
            raise LaunchError(
                f"{who}: {name} is {extent}, and its adjoint relies on at most {known}: in a larger block threads meet "
                f"those of the next one at an index with threadIdx.{name[-1]} and {text} in it. Launch smaller blocks; "
                f"or, if they are to meet and {text} is no extent of an array, write an int parameter of the kernel "
                "for it: then the adjoint adds by atomics."
            )
    blocks = {f"blocks_{axis}": n for axis, n in zip("xyz", run.grid, strict=True)}
    numbers = {**run.integers, **blocks} if facts.unsigned else {}
    for index in facts.unsigned.values():
        if index.width(numbers) >= 1 << index.bits:
            raise LaunchError(
                f"{who}: {index.text} reaches 2^{index.bits} in this launch, where unsigned numbers start at 0 "
                "again; its adjoint relies on one element for each of its values. Compute it in size_t."
            )
    for fill in run.derived.fills:
        if not fill.holds(run.extents):
            raise LaunchError(
                f"{who}: in a block of {run.block}, an iteration of the loop at {fill.line} reads elements of "
                f"{fill.array.name} that no thread has stored in that iteration, or stores beyond its end; and the "
                f"adjoint runs each iteration by itself. Choose a block whose threads store all that they read."
            )


def check_shared(run: PrimalLaunch) -> None:
    """Raise LaunchError where the shared memory that a launch gives is none, or too much to hold its gradient, too."""
    who = run.file.kernel.name
    if run.file.dynamic and not run.shared:
        raise LaunchError(
            f"{who}: {next(iter(run.file.dynamic))} lies in the launch's shared memory; give shared=bytes."
        )
    declared, types = run.file.kernel.declared, len(run.file.dynamic)
    gradients = sum(n not in declared or is_float(declared[n].type) for n in run.file.dynamic)
    if (types + gradients) * run.shared > STATIC_SHARED:
        most = f"more than {STATIC_SHARED} bytes, the most that a kernel may declare, and an adjoint declares all this"
        what = "as much for its gradient" if types == 1 else f"as much for each of its {types} types and each gradient"
        raise LaunchError(f"{who}: shared={run.shared} and {what} are {most}; launch smaller blocks.")


def gradients_of(run: PrimalLaunch, upstream: Mapping[str, Array], code: AdjointFile) -> dict[str, Array]:
    """Arrays for the gradients, by parameter: for outputs the upstream ones, copied where the adjoint writes them."""
    strides, made = run.strides, {}
    changed = {p.name for entry in code.entries for p in entry.params if not p.const}
    for p in run.file.kernel.own:
        members = [d for name, d in run.derived.gradients.items() if own_name(name) == p.name]
        if (d := upstream.get(p.name)) is not None:
            if p.type in GRADIENTS:
                made[p.name] = in_dtype(d, np.dtype(np.float32))
            else:
                made[p.name] = copied(d) if any(own_name(m) in changed for m in members) else d
        elif members and members[0] != own_name(members[0]):  # structs
            dtype = np.dtype(np.float32) if p.type in GRADIENTS else run.arrays[p.name].dtype
            made[p.name] = Array.zeros(run.device, run.shape(p.name), dtype)
        elif is_float(p.type):
            shape = (COPIES, strides[p.name]) if strides.get(p.name) else run.shape(p.name)
            allocate = Array.empty if run.fills(p.name) else Array.zeros
            made[p.name] = allocate(run.device, shape, run.dtype(gradient_type(p.type)))
    return made


def fitted(d: Array, value: Any) -> Array:
    """The gradient in shape and dtype of its argument: a number may come in shape (1,), a double as float32."""
    if not isinstance(value, Tensor | Array | np.ndarray) or np.dtype(value.dtype).kind not in "fV":
        return d
    d = d if d.shape == value.shape else d.reshape(value.shape)
    return d if d.dtype == value.dtype else in_dtype(d, value.dtype)


def zeros(value: Any) -> Any:
    """The gradient of an argument that nothing depends on."""
    if isinstance(value, Tensor):
        return Tensor(zeros(value.array))
    return Array.zeros(value.device, value.shape, value.dtype) if isinstance(value, Array) else np.zeros_like(value)


def in_dtype(d: Array, dtype: np.dtype) -> Array:
    with no_grad():
        return Tensor(d).astype(dtype).array


def launch(
    kernels: Sequence[Kernel], code: AdjointFile, run: PrimalLaunch, upstream: Mapping[str, Array], slots: int
) -> tuple[dict[str, Array], Array | None]:
    """Run the adjoint: the gradients by parameter, and the tape slots needed where only the running kernel knows them.

    slots: the length of the tapes of such loops; if it is less than the number needed, the gradients are wrong.
    """
    derived, gradients = run.derived, gradients_of(run, upstream, code)
    replayed = set(map(own_name, derived.replayed))
    known = {name: copied(a) if name in replayed else a for name, a in run.arrays.items()} | run.scalars
    known |= {derived.strides[derived.gradients[name]]: n for name, n in run.strides.items()}
    known |= {own_name(d): gradients[own_name(name)] for name, d in derived.gradients.items()
              if own_name(name) in gradients}  # fmt: skip
    known |= {t.name: tape_array(run, t, slots) for t in derived.tapes if t.size is None}
    counted = any(p.name == "tape_slots" for entry in code.entries for p in entry.params)
    needed = Array.zeros(run.device, (1,), np.dtype(np.int32)) if counted else None
    known |= {"tape_slots": slots, "tape_needed": needed}
    known |= {f"blocks_{axis}": n for axis, n in zip("xyz", run.grid, strict=True)}
    for kernel, entry in zip(kernels, code.entries, strict=True):
        own = {name: n for name, e in entry.extents.items() if (n := run.number(e)) is not None}
        assert len(own) == len(entry.extents)
        grid = tuple(own.get(f"gridDim.{axis}", n) for axis, n in zip("xyz", run.grid, strict=True))
        if all(n > 0 for n in grid):
            kernel(*(known[p.name] for p in entry.params), grid=grid, block=run.block)
    with no_grad():
        for name in (name for name, stride in run.strides.items() if stride):  # sum the copies
            total, shape = Tensor(gradients[name]).sum(axis=0), run.shape(name)
            gradients[name] = total[: prod(shape)].reshape(*shape).array
    return gradients, needed


def tape_array(run: PrimalLaunch, tape: Tape, slots: int) -> Array:
    """Memory for a tape, (iterations x values, threads): neighboring threads access neighboring elements."""
    iterations = slots if tape.trips is None else run.number(tape.trips)
    extents = [run.number(extent) for extent in tape.dims]
    if iterations is None or None in extents:
        raise LaunchError(
            f"{run.file.kernel.name}: the loop at {tape.place.words} has a step of 0 in this launch, or it or one in "
            "it goes to an unsigned number that is below 0, as n - 1 of 0; write a while, or compute that with int."
        )
    values = prod(max(extent or 0, 0) for extent in extents)
    dtype = run.dtype(STORED.get(tape.type, tape.type))
    return Array.empty(run.device, (max(iterations, 1) * values, run.threads), dtype)


def prepare(
    primal: Kernel, derived: Derived, args: Sequence[Any], grid: Extent | None, block: Extent | None, shared: int = 0
) -> PrimalLaunch:
    """Check a launch of the kernel and move its arrays to a device. Raises TypeError or LaunchError."""
    params, function = primal.signature.params, derived.facts.function
    given, pointers = named(primal, function, args), pointers_of(primal, function)
    hosts = {name: a for name, a in given.items() if name in pointers and isinstance(a, np.ndarray)}
    _check_separate(function, hosts, np.may_share_memory)  # each is moved by itself, so the copies share nothing
    if given:
        device = next((a.device.name for a in map(_array, given.values()) if isinstance(a, Array)), kernel_device())
        args = [_argument(a, p.pointer, device) for p, a in zip(params, args, strict=True)]
    bind(primal.name, params, args)
    moved = named(primal, function, args).items()
    arrays = {name: _array(a) for name, a in moved if name in pointers and a is not None}
    scalars = {p.name: a for p, a in zip(params, args, strict=True) if not p.pointer}
    used = set(map(own_name, names_used(function.body)))
    for n, p in enumerate(params, 1):
        if p.pointer and p.name in used - arrays.keys():
            raise TypeError(f"{primal.name}: argument {n} ({p}) is None, {USED.format(p.name)}")
    for name, (struct, member) in function.pointed.items():
        if name in used - arrays.keys():
            raise TypeError(f"{primal.name}: {struct} has no array {member}, {USED.format(member)}")
    _check_separate(function, arrays, _overlap)
    run = PrimalLaunch(derived, arrays, scalars, *primal.extents(grid, block, shared), shared)
    check_shared(run)
    check_conditions(run)
    return run


def pointers_of(primal: Kernel, kernel: Function) -> set[str]:
    """The names of the arrays, also of those to which structs point."""
    return {p.name for p in primal.signature.params if p.pointer} | kernel.pointed.keys()


def named(primal: Kernel, kernel: Function, args: Sequence[Any]) -> dict[str, Any]:
    """The arguments by name, with the arrays to which structs point; none if there are too few or too many."""
    params = primal.signature.params
    given = {p.name: a for p, a in zip(params, args, strict=True)} if len(args) == len(params) else {}
    pointed = (item for item in kernel.pointed.items() if isinstance(given.get(item[1][0]), Mapping))
    return given | {name: given[struct].get(member) for name, (struct, member) in pointed}


def absent(primal: Kernel, kernel: Function, args: Sequence[Any]) -> frozenset[str]:
    """The arrays, also those to which structs point, for which these arguments have None."""
    given = named(primal, kernel, args)
    return frozenset(name for name in pointers_of(primal, kernel) & given.keys() if given[name] is None)


def arguments(primal: Kernel, run: PrimalLaunch, arrays: Mapping[str, Any]) -> list[Any]:
    """The arguments of the kernel's own launch, with these arrays."""
    known = {**arrays, **run.scalars}
    for name, (struct, member) in run.file.kernel.pointed.items():
        known[struct] = {**known[struct], member: arrays.get(name)}
    return [known.get(p.name) for p in primal.signature.params]


def _argument(value: Any, pointer: bool, device: str) -> Any:
    if isinstance(value, Mapping):  # a struct by its members
        return {name: _on_device(each, device) for name, each in value.items()}
    return _on_device(value, device) if pointer else _scalar(value)


def _array(value: Any) -> Any:
    return value.array if isinstance(value, Tensor) else value


def _on_device(value: Any, device: str) -> Any:
    value = _array(value)
    return move(to_host(value), device) if isinstance(value, np.ndarray) else value


def _scalar(value: Any) -> Any:
    """The number in a tensor or an array of one element; other values as they are."""
    if not isinstance(value, Tensor | Array | np.ndarray) or value.size != 1 or value.dtype.names:
        return value
    return np.asarray(value if isinstance(value, np.ndarray) else value.numpy()).item()


def _overlap(a: Array, b: Array) -> bool:
    return bool(a.address < b.address + b.nbytes and b.address < a.address + a.nbytes and a.nbytes and b.nbytes)


def _check_separate(kernel: Function, arrays: Mapping[str, Any], overlap: Callable[[Any, Any], bool]) -> None:
    """Raise LaunchError where an array that the kernel writes shares memory with another one."""
    stored = set(map(own_name, written(kernel.body)))
    for (p, a), (q, b) in combinations(sorted(arrays.items()), 2):
        if stored & {p, q} and overlap(a, b):
            which = min(stored & {p, q})
            raise LaunchError(f"{kernel.name}: {p} and {q} share memory and {which} is written; pass a copy.")


def upstream(run: PrimalLaunch, outputs: Sequence[str], dy: Any) -> dict[str, Array]:
    """The gradients of outputs, by name. Raises TypeError or LaunchError for gradients that do not fit."""
    who, names = f"{run.file.kernel.name}: dy", ", ".join(outputs)
    dy = [dy] if isinstance(dy, Tensor | Array | np.ndarray) else dy
    if not isinstance(dy, Sequence) or isinstance(dy, str):
        raise TypeError(f"{who} takes a list with the gradient of each output ({names}); got {short(dy)}.")
    if len(dy) != len(outputs):
        raise LaunchError(f"{who} holds {len(dy)} gradients; it takes one for each output, None for 0: {names}.")
    if all(d is None for d in dy):
        raise LaunchError(f"{who} is None for every output ({names}); None is a gradient of 0. Give one of them.")
    return {
        name: _checked_gradient(f"{who} of {name}", d, name, run.arrays[name])
        for name, d in zip(outputs, dy, strict=True)
        if d is not None
    }


def _checked_gradient(who: str, value: Any, name: str, output: Array) -> Array:
    """The gradient of an output as an array of its shape, dtype and device."""
    d = _on_device(value, output.device.name)
    if not isinstance(d, Array):
        raise TypeError(f"{who} takes a tensor or an array; got {short(value)}.")
    if d.shape != output.shape:
        raise LaunchError(f"{who} has shape {d.shape}; it must be {output.shape}, as {name} is.")
    if d.dtype != output.dtype:
        way = f"Use .astype({str(output.dtype)!r})."
        raise TypeError(f"{who} is {d.dtype}; it must be {output.dtype}, as {name} is. {way}")
    if d.device is not output.device:
        on, at = d.device.name, output.device.name
        raise LaunchError(f"{who} is on {on} and {name} on {at}; move one: dy.to({at!r}).")
    return d
