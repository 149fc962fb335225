"""Run an op on a test case, and pair each result with that of the NumPy reference."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import Device
from minigrad.devices.dtypes import FLOATS, check_dtype, is_last
from minigrad.display import own_kernels
from minigrad.errors import require
from minigrad.op import AnyArray, Case, Op
from minigrad.rounding import rounded

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}

Results = dict[str, Any]
Pair = tuple[str, Any, Any, float]


def an_op(given: Any) -> Op:
    """The op itself. Raises TypeError for anything else."""
    return require("check", given, Op, "an op, e.g. mg.exp")


def dtype_name(dtype: Any) -> str:
    """The name of a float dtype. Raises TypeError for another one."""
    return check_dtype(dtype, FLOATS).name


def inputs_of(op: Op, case: Case, dtype: Any) -> list[np.ndarray]:
    """The inputs of a case. Raises TypeError for a wrong type of op, case or dtype."""
    return require(f"check of {an_op(op).name}", case, Case, "a case, e.g. mg.exp.cases[0]").arrays(dtype_name(dtype))


def variants(op: Op) -> list[str]:
    """The interchangeable forward kernels: those with the parameters of the first, or these and views."""
    kernels = own_kernels(op)
    first = op.kernels.get("forward") or next(iter(kernels.values()), None)
    if first is None:
        return []
    params = first.signature.params
    found = []
    for name, kernel in kernels.items():
        same, more = kernel.signature.params[: len(params)], kernel.signature.params[len(params) :]
        if same == params and all(param.type == "View" for param in more):
            found.append(name)
    return found if len(found) > 1 else []


def _results(op: Op, arrays: list, params: Any, dy: AnyArray | None) -> Results:
    """The output y, and the gradients: dx for the input x."""
    complete = op.prepare(*arrays, **params) if op.prepare else params
    results: Results = {"y": op.run(arrays, complete)}
    if dy is not None:
        grads = op.vjp(arrays, dy, params)
        names = [f"{i + 1}" for i in range(len(grads))] if op.inputs.variadic else op.inputs.names[: len(grads)]
        results |= {f"d{name}": grad for name, grad in zip(names, grads, strict=True)}
    return results


def expected(op: Op, case: Case, dtype: str, precision: str = "float32") -> Results:
    """The reference's results in float64 for the inputs that the kernels get, and a random upstream gradient dy.

    dy is rounded to the precision. It is None for an op without a rule, or an output of integers.
    """
    given = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs_of(op, case, dtype)]
    arrays = [x.copy("K") for x in given]
    results = _results(op, arrays, case.params, None)
    if op.backward is None or (y := results["y"]).dtype.kind != "f":
        return {**results, "dy": None, "inputs": arrays}
    dy = rounded(np.asarray(np.random.default_rng(1).standard_normal(y.shape), dtype), precision)
    dy = case.laid_out(dy)
    return {**_results(op, given, case.params, dy.astype(np.float64)), "dy": dy, "inputs": given}


def pairs(op: Op, wanted: Results, case: Case, device: Device | None, dtype: str) -> Iterator[Pair]:
    """(name, result, true result, tolerance) of a case on a device, or in NumPy: outputs, gradients, then inputs."""
    hosts, tolerance = case.arrays(dtype), TOLERANCE[dtype_name(dtype)]
    arrays = [_put(x, device) for x in hosts]
    got = _results(op, arrays, case.params, _put(wanted["dy"], device))
    yield from ((name, result, wanted[name], tolerance) for name, result in got.items())
    complete = op.prepare(*hosts, **case.params) if op.prepare else case.params
    updated = op.updates(*hosts, **complete) if op.updates else ()
    for i, (array, host) in enumerate(zip(arrays, hosts, strict=True)):
        if i in updated:
            yield f"input {i + 1}, which is updated in place,", array, wanted["inputs"][i], tolerance
        else:
            yield f"input {i + 1}, which should be left alone,", array, host, 0


def alone(op: Op, wanted: Results, case: Case, device: Device, dtype: str) -> Iterator[Pair]:
    """The gradients of an op with several inputs again, each computed without the others."""
    arrays, dy = [_put(x, device) for x in case.arrays(dtype)], _put(wanted["dy"], device)
    names = [name for name in wanted if name not in ("y", "dy", "inputs")]
    for i, name in enumerate(names if len(names) > 1 else []):
        if wanted[name] is not None:
            _, vjp = op.pullback(arrays, case.params, tuple(j == i for j in range(len(names))))
            yield f"{name}, the only gradient wanted,", vjp(dy)[i], wanted[name], TOLERANCE[dtype_name(dtype)]


def _put(host: Any, device: Device | None) -> Any:
    return None if host is None else Array.upload(device, host, is_last(host)) if device else host.copy("K")


def largest(wanted: np.ndarray) -> float:
    """max(1, max |wanted|), the scale of an absolute tolerance; 0 for integers."""
    return float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1)) if wanted.dtype.kind == "f" else 0
