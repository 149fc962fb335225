"""Checks of a launch before its gradient is believed: no race, no fault, and a kernel that was read rightly."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import numpy as np

from minigrad.adjoint.emit.assemble import Entry
from minigrad.adjoint.language import ast
from minigrad.adjoint.language.ast import CLOCKS, Place, own_name
from minigrad.adjoint.language.dataflow import read, target_name, written
from minigrad.adjoint.language.rewrite import flatten
from minigrad.adjoint.run import PrimalLaunch, arguments
from minigrad.devices.array import Array
from minigrad.devices.dtypes import copied
from minigrad.errors import FAULTS, KernelError, LaunchError, warn
from minigrad.kernels.kernel import Kernel
from minigrad.tensor import Tensor

EXAMINED = 4096  # most threads of a launch that is searched for races
NEAR = {2: 2e-2, 4: 3e-4, 8: 1e-6}  # by bytes of a float: sums in another order, functions of constants in another way


def launch_key(kernel: Kernel, run: PrimalLaunch, kinds: str) -> tuple:
    """A small launch on `sim` by all that decides which elements the kernel touches; empty for another launch.

    That is grid, block, shapes and types, and what the kernel's constants and arguments of these `dtype.kind`s hold.
    """
    if run.threads > EXAMINED or any(a.device.is_gpu for a in run.arrays.values()):
        return ()
    values = {name: a for name, a in run.arrays.items() if name not in run.file.kernel.pointed} | run.scalars
    values |= {f"constant {name}": value for name, value in getattr(kernel, "constants", {}).items()}
    found = [part for name, value in values.items() for part in _parts(name, value, kinds)]
    hashes = [(name, a.shape, sha256(a.tobytes()).digest()) for name, a in found]
    return (run.grid, run.block, run.shared, *hashes, *((a.shape, a.dtype) for a in run.arrays.values()))


def examine(kernel: Kernel, run: PrimalLaunch) -> dict[str, Array]:
    """Run a launch under the microscope, on copies: the arrays that it leaves, none where chance decides on them.

    NotDifferentiable at a race; KernelError at what would stop the launch; a warning at what leaves values to chance.
    """
    from minigrad.microscope import inspect

    after = {name: copied(a) for name, a in run.arrays.items()}
    args = arguments(kernel, run, after)
    for problem in inspect(kernel, *args, grid=run.grid, block=run.block, shared=run.shared, blocks=0).problems:
        if problem.kind == "race":
            why = f"the kernel has a race and so no gradient: {problem.message}"
            why += " The gradient would go to the thread that stores last, and chance decides which." * problem.harmless
            raise run.file.error(Place(problem.line or 0, 1, file=problem.file), why)
        if problem.kind in FAULTS:
            where = problem.block, problem.thread, problem.line, problem.file
            raise KernelError(problem.sentence, kernel.name, problem.kind, problem.variable, *where)
        if not problem.harmless:
            warn(f"{kernel.name} has a problem, so its gradients may be wrong, too: {problem.sentence}")
            after = {}
    return after


def _parts(name: str, value: Any, kinds: str) -> Iterator[tuple[str, np.ndarray]]:
    """A value of one of these kinds, or the members of its structs that are. bfloat16 is a float, and NumPy's V."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        array = value.numpy() if isinstance(value, Array | Tensor) else np.asarray(value)
        value = {own: array[own] for own in array.dtype.names or ()}
        if not value and array.dtype.kind.replace("V", "f") in kinds:
            yield name, array
    for own, each in value.items():
        yield from _parts(f"{name}.{own}", each, kinds)


def check_reading(
    kernel: Kernel, as_read: Kernel, entry: Entry, run: PrimalLaunch, after: dict[str, Array] | None
) -> bool:
    """Run the kernel as it was read, on copies. NotDifferentiable where it stores other values than the kernel.

    after: the arrays that the kernel leaves, empty where these are left to chance; None to run it here. Returns whether
    there was anything to compare.
    """
    function = run.file.kernel
    stored = {name for name in map(own_name, written(function.body)) if name in run.arrays}
    if after == {} or set(CLOCKS) & read(function.body):
        return False
    if after is None:
        after = _left_by(kernel, run, stored)
    own = {name: copied(a) if name in stored else a for name, a in run.arrays.items()}
    known = {**own, **run.scalars}
    as_read(*(known[p.name] for p in entry.params), grid=run.grid, block=run.block)
    for name in sorted(stored):
        a, b = after[name].numpy(), own[name].numpy()
        if (found := difference(a, b)) is not None:
            at, member, x, y = found
            writes = [s for s in flatten(function.body) if isinstance(s, ast.Assign | ast.AtomicAdd)]
            stores = [s.place for s in writes if own_name(target_name(s.target)) == name]
            why = (
                f"the adjoint reads this otherwise than the compiler: the kernel stores {x} into "
                f"{name}[{', '.join(map(str, at))}]{member}, and {y} as it was read. There is a race, or C++ that the "
                "adjoint does not know; write the structs, references and conversions that lead here as plain numbers."
            )
            raise run.file.error(stores[-1] if stores else function.place, why)
    return True


def _left_by(kernel: Kernel, run: PrimalLaunch, stored: set[str]) -> dict[str, Array]:
    """The arrays that the kernel leaves: copies of those that it stores into."""
    arrays = {name: copied(a) if name in stored else a for name, a in run.arrays.items()}
    kernel(*arguments(kernel, run, arrays), grid=run.grid, block=run.block, shared=run.shared)
    return arrays


@contextmanager
def at_own_line(kernel: Kernel, run: PrimalLaunch) -> Iterator[None]:
    """Raise the fault of a launch of the adjoint as that of the kernel, at the reader's own line, if it is its own."""
    try:
        yield
    except KernelError:
        try:
            _left_by(kernel, run, set(run.arrays))
        except KernelError as own:
            raise own from None
        raise


def difference(a: np.ndarray, b: np.ndarray, member: str = "") -> tuple[tuple[int, ...], str, Any, Any] | None:
    """The first element that differs by more than rounding: its index, the member of a struct, and both values."""
    if a.dtype.names:
        found = (difference(a[name], b[name], f"{member}.{name}") for name in a.dtype.names)
        return next((each for each in found if each is not None), None)
    apart = a != b
    if a.dtype.kind not in "iub":
        x, y, near = a.astype(np.float64), b.astype(np.float64), NEAR[a.dtype.itemsize]
        finite = np.isfinite(x) & np.isfinite(y)
        size = np.where(finite, np.maximum(np.abs(x), np.abs(y)), 0)
        gap = np.abs(np.subtract(x, y, where=finite, out=np.zeros_like(x)))
        rounded = gap <= near * (size + size.max(initial=0) / 100)  # a small sum of large terms
        apart &= ~(finite & rounded | np.isnan(x) & np.isnan(y))
    for at in np.argwhere(apart):
        return tuple(map(int, at)), member, a[tuple(at)], b[tuple(at)]
    return None


@contextmanager
def types_apart(run: PrimalLaunch, new: bool, seen: set[tuple]) -> Iterator[None]:
    """Run the adjoint of a new launch under the microscope if it keeps numbers of several types in shared memory.

    NotDifferentiable: a number was stored as another type; LaunchError: no launch of such blocks has been looked at.
    """
    apart = "apart", run.block, run.shared
    if len(run.file.dynamic) < 2 or (not new and apart in seen):
        yield
        return
    if not new:
        why = "keeps numbers of several types in one shared memory. That they lie apart is seen on sim, in a launch of"
        raise LaunchError(f"{run.file.kernel.name} {why} such blocks and at most 4096 threads: make one first.")
    from minigrad.microscope import watching

    with watching() as report:
        yield
    seen.add(apart)
    read = {p.variable for p in report.problems if p.kind == "uninitialised"}
    for name in (n for n in run.file.dynamic if n in read):
        seen.clear()
        kind = run.file.kernel.declared[name].type
        why = f"bytes of the launch's shared memory are read as {kind} and stored as another type; keep types apart."
        raise run.file.error(run.file.kernel.place, why)
