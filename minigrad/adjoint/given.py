"""What is given to an adjoint: arguments and gradients that fit, and a launch without a race."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from minigrad.adjoint.effects import written
from minigrad.adjoint.expr import Place
from minigrad.adjoint.launching import Run
from minigrad.adjoint.module import Module
from minigrad.adjoint.tree import Param
from minigrad.arguments import bind
from minigrad.array import Array
from minigrad.convert import copied, move, to_host
from minigrad.devices import kernel_device
from minigrad.errors import LaunchError
from minigrad.kernel import Kernel
from minigrad.limits import Extent
from minigrad.require import short
from minigrad.tensor import Tensor


def prepare(primal: Kernel, module: Module, args: Sequence[Any], grid: Extent | None, block: Extent | None) -> Run:
    """The arguments by name, arrays on a device. Raises TypeError or LaunchError for what the kernel would not take."""
    params = primal.signature.params
    if len(args) == len(params):
        device = next((a.device.name for a in map(memory, args) if isinstance(a, Array)), kernel_device())
        args = [on_device(a, device) if p.pointer else scalar(a) for p, a in zip(params, args, strict=True)]
        for n, (p, given) in enumerate(zip(params, args, strict=True), 1):
            if p.pointer and given is None:
                raise TypeError(f"{primal.name}: argument {n} ({p}) is None, and an adjoint needs every array.")
    bind(primal.name, params, args)
    pairs = list(zip(module.kernel.params, args, strict=True))
    check_apart(module, [(p, a) for p, a in pairs if p.pointer])
    arrays, scalars = {p.name: a for p, a in pairs if p.pointer}, {p.name: a for p, a in pairs if not p.pointer}
    return Run(module, arrays, scalars, *primal.extents(grid, block))


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


def check_apart(module: Module, arrays: list[tuple[Param, Any]]) -> None:
    """Raise where an array that is written shares memory with another one."""
    stored = written(module.kernel.body)
    for p, a in arrays:
        for q, b in arrays:
            overlap = a.address < b.address + b.nbytes and b.address < a.address + a.nbytes
            if p.name < q.name and overlap and stored & {p.name, q.name} and a.nbytes and b.nbytes:
                which = min(stored & {p.name, q.name})
                raise LaunchError(
                    f"{module.kernel.name}: {p.name} and {q.name} share memory and {which} is written; pass a copy."
                )


def upstream(run: Run, outputs: Sequence[str], dy: Any) -> dict[str, Array]:
    """The gradients of outputs, by name. Raises TypeError or LaunchError for what does not fit them."""
    who, named = f"{run.module.kernel.name}: dy", ", ".join(outputs)
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
    args = [{**arrays, **run.scalars}[p.name] for p in run.module.kernel.params]
    for problem in inspect(kernel, *args, grid=run.grid, block=run.block, blocks=0).problems:
        if problem.kind == "race":
            why = f"the kernel has a race and so no gradient: {problem.message}"
            raise run.module.refuse(Place(problem.line or 0, 1), why)
    seen.add(launch)
