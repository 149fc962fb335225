"""What an op makes of a case, beside what NumPy says that it should."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import Device
from minigrad.devices.dtypes import FLOATS, check_dtype
from minigrad.errors import a
from minigrad.op import AnyArray, Case, Op

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}

Results = dict[str, Any]
Pair = tuple[str, Any, Any, float]


def an_op(given: Any) -> Op:
    """The op itself. Raises TypeError."""
    return a("check", given, Op, "an op, e.g. mg.exp")


def dtype_name(dtype: Any) -> str:
    """The name of a dtype that ops are checked in. Raises TypeError."""
    return check_dtype(dtype, FLOATS).name


def inputs_of(op: Op, case: Case, dtype: Any) -> list[np.ndarray]:
    """The inputs of a case. Raises TypeError where it is no case, the op no op, or the dtype not a float."""
    return a(f"check of {an_op(op).name}", case, Case, "a case, e.g. mg.exp.cases[0]").arrays(dtype_name(dtype))


def variants(op: Op) -> list[str]:
    """The kernels that can stand in for each other in the forward pass: those with the parameters of the first."""
    others = [kernel.name for name, kernel in op.kernels.items() if name != "forward"]
    kernels = {name: k for name, k in op.kernels.items() if name != "forward" or k.name not in others}
    first = op.kernels.get("forward") or next(iter(kernels.values()), None)
    found = [name for name, kernel in kernels.items() if first and kernel.signature.params == first.signature.params]
    return found if len(found) > 1 else []


def _results(op: Op, arrays: list, params: Any, dy: AnyArray | None) -> Results:
    """The output y, and the gradients: dx is that of the input x."""
    complete = op.prepare(*arrays, **params) if op.prepare else params
    results: Results = {"y": op.run(arrays, complete)}
    if dy is not None:
        grads = op.vjp(arrays, dy, params)
        names = [f"{i + 1}" for i in range(len(grads))] if op.inputs.variadic else op.inputs.names
        results |= {f"d{name}": grad for name, grad in zip(names, grads, strict=True)}
    return results


def _upstream(op: Op, y: AnyArray, dtype: str) -> np.ndarray | None:
    """A random gradient for the output of an op that has a rule."""
    if op.backward is None or y.dtype.kind != "f":
        return None
    return np.asarray(np.random.default_rng(1).standard_normal(y.shape).astype(dtype))


def expected(op: Op, case: Case, dtype: str) -> Results:
    """What the reference says in float64, from the very inputs that the kernels get; and the upstream gradient."""
    arrays = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs_of(op, case, dtype)]
    dy = _upstream(op, _results(op, arrays, case.params, None)["y"], dtype)
    return {**_results(op, arrays, case.params, None if dy is None else dy.astype(np.float64)), "dy": dy}


def pairs(op: Op, wanted: Results, case: Case, device: Device | None, dtype: str) -> Iterator[Pair]:
    """What a device, or NumPy itself, makes of a case beside what it should, each by its name, with the tolerance."""
    hosts = case.arrays(dtype)
    arrays = [_put(x, device) for x in hosts]
    got = _results(op, arrays, case.params, _put(wanted["dy"], device))
    yield from ((name, result, wanted[name], TOLERANCE[dtype_name(dtype)]) for name, result in got.items())
    for i, (array, host) in enumerate(zip(arrays, hosts, strict=True)):
        yield f"input {i + 1}, which should be left alone,", array, host, 0


def alone(op: Op, wanted: Results, case: Case, device: Device, dtype: str) -> Iterator[Pair]:
    """The gradients of an op with several inputs again, each where it is the only one that is wanted."""
    arrays, dy = [_put(x, device) for x in case.arrays(dtype)], _put(wanted["dy"], device)
    names = [name for name in wanted if name not in ("y", "dy")]
    for i, name in enumerate(names if len(names) > 1 else []):
        if wanted[name] is not None:
            _, vjp = op.pullback(arrays, case.params, tuple(j == i for j in range(len(names))))
            yield f"{name}, the only gradient wanted,", vjp(dy)[i], wanted[name], TOLERANCE[dtype_name(dtype)]


def _put(host: Any, device: Device | None) -> Any:
    return None if host is None else Array.upload(device, host) if device else host.copy()


def largest(wanted: np.ndarray) -> float:
    """The size of the numbers, which an absolute tolerance is relative to; at least 1."""
    return float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1)) if wanted.dtype.kind == "f" else 0
