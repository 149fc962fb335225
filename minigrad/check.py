"""Is it right? One case of an op -> its value, its gradient, its bounds, at every block size and by every kernel.

NumPy's reference is the truth for a kernel; central differences in float64 are the truth for a gradient rule.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.convert import FLOATS, check_dtype
from minigrad.devices import check, get
from minigrad.devices.base import Device
from minigrad.differences import GradientCheck, GradientError, gradient
from minigrad.errors import KernelError
from minigrad.exercise import answer
from minigrad.guard import guarded
from minigrad.op import AnyArray, Case, Op
from minigrad.require import a
from minigrad.tensor import Tensor

__all__ = [
    "GradientError", "KernelError", "ValueMismatch",
    "answer", "bounds", "every_block", "gradient", "op", "rule", "value",
]  # fmt: skip
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}


class ValueMismatch(AssertionError):
    """A kernel whose result is not the reference's."""


@dataclass(frozen=True)
class OpCheck:
    """What was tried of an op, and found right."""

    op: str
    device: str
    cases: int
    dtypes: tuple[str, ...]
    settings: int

    def __repr__(self) -> str:
        return (
            f"{self.op} on {self.device}: value, gradient and bounds are right in {self.cases} cases, "
            f"{' and '.join(self.dtypes)}, with {self.settings} choices of kernel and block."
        )


def op(op: Op, device: str = "sim", dtypes: Sequence[str] | str = ("float32", "float64")) -> OpCheck:
    """Everything about an op: its rule against central differences, its kernels against NumPy, at every block size.

    Raises GradientError, ValueMismatch or KernelError for the first thing that is wrong. Try it on an op of your own.
    """
    given = a("check.op: dtypes", dtypes, str | tuple | list, "names of dtypes")
    asked = tuple(map(_float, [given] if isinstance(given, str) else given))
    if not _op(op).cases or not asked:
        raise ValueError(f"check.op: {op.name} has {len(op.cases)} cases, for {len(asked)} dtypes: nothing to check.")
    for case in op.cases:
        rule(op, case)
        for dtype in asked:
            every_block(op, case, device, dtype)
    return OpCheck(op.name, device, len(op.cases), asked, len(list(settings(op))))


def _op(given: Any) -> Op:
    return a("check", given, Op, "an op, e.g. mg.exp")


def _float(dtype: Any) -> str:
    """The name of a dtype that ops are checked in. Raises TypeError."""
    return check_dtype(dtype, FLOATS).name


def _arrays(op: Op, case: Case, dtype: Any) -> list[np.ndarray]:
    """The inputs of a case. Raises TypeError where it is no case, the op no op, or the dtype not a float."""
    return a(f"check of {_op(op).name}", case, Case, "a case, e.g. mg.exp.cases[0]").arrays(_float(dtype))


def rule(op: Op, case: Case) -> GradientCheck | None:
    """The NumPy gradient rule against central differences; None for an op without one, or a case without elements."""
    arrays = _arrays(op, case, np.float64)
    if op.backward is None or not any(x.dtype.kind == "f" and x.size for x in arrays):
        return None

    def call(*xs: Any) -> Any:
        return op(*xs, **case.params)

    call.__name__, call.forward = f"{op.name} {case}", op.forward  # type: ignore[attr-defined]
    return gradient(call, *map(Tensor, arrays))


def value(op: Op, case: Case, device: str = "sim", dtype: str = "float32") -> None:
    """Forward and backward kernels against the NumPy reference in float64. Raises ValueMismatch."""
    _compare(op, _wanted(op, case, dtype), case, get(check(device)), dtype)


def bounds(op: Op, case: Case, device: str = "sim", dtype: str = "float32") -> None:
    """The same in guarded memory full of NaN. Raises KernelError, or ValueMismatch where only a stray NaN shows."""
    _compare(op, _wanted(op, case, dtype), case, guarded(device), dtype)


def every_block(op: Op, case: Case, device: str = "sim", dtype: str = "float32") -> None:
    """Value and bounds through every forward kernel that the op has, and at every legal block size."""
    wanted, guard = _wanted(op, case, dtype), guarded(device)
    for name, chosen in settings(op):
        _compare(chosen, wanted, case, guard, dtype, name)


def settings(op: Op) -> Iterator[tuple[str, Op]]:
    """The op as it is, then by each of its kernels, each with all legal values of every tunable, one at a time."""
    for variant in (None, *variants(op)):
        chosen = op.using(variant) if variant else op
        yield variant or "", chosen
        kernels = [chosen.kernels["forward"]] if variant else chosen.kernels.values()
        legal = {(key, value) for kernel in kernels for key, all_ in kernel.tunables.items() for value in all_}
        for key, number in sorted(legal):
            yield f"{variant or ''} {key}={number}".strip(), chosen.using(None, **{key: number})


def variants(op: Op) -> list[str]:
    """The kernels that can stand in for each other in the forward pass: those with the parameters of the first."""
    kernels = {name: kernel for name, kernel in op.kernels.items() if name != "forward"}
    first = op.kernels.get("forward") or next(iter(kernels.values()), None)
    found = [name for name, kernel in kernels.items() if first and kernel.signature.params == first.signature.params]
    return found if len(found) > 1 else []


Results = dict[str, Any]


def _results(op: Op, arrays: list, params: Any, dy: AnyArray | None) -> Results:
    """The output, and the gradient of every input by the input's number."""
    complete = op.prepare(*arrays, **params) if op.prepare else params
    results: Results = {"y": op.run(arrays, complete)}
    if dy is not None:
        results |= {f"gradient {i + 1}": grad for i, grad in enumerate(op.vjp(arrays, dy, params))}
    return results


def _upstream(op: Op, y: AnyArray, dtype: str) -> np.ndarray | None:
    """A random gradient for the output of an op that has a rule."""
    if op.backward is None or y.dtype.kind != "f":
        return None
    return np.asarray(np.random.default_rng(1).standard_normal(y.shape).astype(dtype))


def _wanted(op: Op, case: Case, dtype: str) -> Results:
    """What the reference says in float64, from the very inputs that the kernels get; and the upstream gradient."""
    arrays = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in _arrays(op, case, dtype)]
    dy = _upstream(op, _results(op, arrays, case.params, None)["y"], dtype)
    wanted = {**_results(op, arrays, case.params, None if dy is None else dy.astype(np.float64)), "dy": dy}
    _compare(op, wanted, case, None, dtype)  # in the dtype of the kernels it gives the same, in that dtype
    return wanted


def _compare(op: Op, wanted: Results, case: Case, device: Device | None, dtype: str, setting: str = "") -> None:
    """Raise ValueMismatch where a device gives another result, or the reference itself where there is no device."""
    hosts = case.arrays(dtype)
    arrays = [_put(x, device) for x in hosts]
    got = _results(op, arrays, case.params, _put(wanted["dy"], device))
    place = ", ".join(filter(None, [f"{op.name} on {device.name if device else 'numpy'}", dtype, str(case), setting]))
    for name, result in got.items():
        _same(f"{place}: {name}", result, wanted[name], dtype, TOLERANCE[_float(dtype)])
    for i, (array, host) in enumerate(zip(arrays, hosts, strict=True)):
        _same(f"{place}: input {i + 1}, which should be left alone,", array, host, dtype, 0)


def _put(host: Any, device: Device | None) -> Any:
    return None if host is None else Array.upload(device, host) if device else host.copy()


def _same(what: str, got: Any, wanted: Any, dtype: str, tolerance: float) -> None:
    """Raise ValueMismatch with the first element that differs. NaN agrees only with NaN; floats are of that dtype."""
    if got is None or wanted is None:
        if got is not wanted:
            raise ValueMismatch(f"{what}: one of kernel and reference gives no gradient, the other does.")
        return
    got, wanted = got.numpy() if isinstance(got, Array) else got, np.asarray(wanted)
    if got.dtype != (expected := np.dtype(dtype) if wanted.dtype.kind == "f" else wanted.dtype):
        raise ValueMismatch(f"{what} is {got.dtype}; it should be {expected}.")
    if got.shape != wanted.shape:
        raise ValueMismatch(f"{what} has shape {got.shape}; the reference has {wanted.shape}.")
    size = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1)) if wanted.dtype.kind == "f" else 0
    wrong = np.argwhere(~np.isclose(got, wanted, rtol=tolerance, atol=tolerance * size, equal_nan=True))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise ValueMismatch(
            f"{what}{list(at)} is {got[at]:.9g}, the reference says {wanted[at]:.9g}; "
            f"{len(wrong)} of {got.size} elements differ."
        )
