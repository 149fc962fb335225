"""Is it right? One case of an op -> its value, its gradient, its bounds, at every block size and by every kernel.

NumPy's reference is the truth for a kernel; central differences in float64 are the truth for a gradient rule.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.device import Device
from minigrad.devices.guarded import guarded
from minigrad.errors import KernelError, a
from minigrad.lab.check.answer import answer, differing
from minigrad.lab.check.compare import Results, an_op, dtype_name, expected, inputs_of, largest, pairs, variants
from minigrad.lab.check.gradient import GradientCheck, GradientError, gradient
from minigrad.lab.check.kernel import kernel
from minigrad.op import Case, Op
from minigrad.tensor import Tensor

__all__ = [
    "GradientError", "KernelError", "ValueMismatch",
    "answer", "bounds", "every_block", "gradient", "kernel", "op", "rule", "value",
]  # fmt: skip


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
    asked = tuple(map(dtype_name, [given] if isinstance(given, str) else given))
    if not an_op(op).cases or not asked:
        raise ValueError(f"check.op: {op.name} has {len(op.cases)} cases, for {len(asked)} dtypes: nothing to check.")
    for case in op.cases:
        rule(op, case)
        for dtype in asked:
            every_block(op, case, device, dtype)
    return OpCheck(op.name, device, len(op.cases), asked, len(list(settings(op))))


def rule(op: Op, case: Case) -> GradientCheck | None:
    """The NumPy gradient rule against central differences; None for an op without one, or a case without elements."""
    arrays = inputs_of(op, case, np.float64)
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
    found = variants(op)
    for variant in (None, *found):
        chosen = op.using(variant) if variant else op
        yield variant or "", chosen
        others = [kernel for name, kernel in chosen.kernels.items() if name not in found]
        kernels = [chosen.kernels["forward"]] if variant else others
        legal = {(key, value) for kernel in kernels for key, all_ in kernel.tunables.items() for value in all_}
        for key, number in sorted(legal):
            yield f"{variant or ''} {key}={number}".strip(), chosen.using(None, **{key: number})


def _wanted(op: Op, case: Case, dtype: str) -> Results:
    """What NumPy says in float64; in the dtype of the kernels it must say the same, in that dtype."""
    wanted = expected(op, case, dtype)
    _compare(op, wanted, case, None, dtype)
    return wanted


def _compare(op: Op, wanted: Results, case: Case, device: Device | None, dtype: str, setting: str = "") -> None:
    """Raise ValueMismatch where a device gives another result, or the reference itself where there is no device."""
    place = ", ".join(filter(None, [f"{op.name} on {device.name if device else 'numpy'}", dtype, str(case), setting]))
    for name, got, should, tolerance in pairs(op, wanted, case, device, dtype):
        _same(f"{place}: {name}", got, should, dtype, tolerance)


def _same(what: str, got: Any, wanted: Any, dtype: str, tolerance: float) -> None:
    """Raise ValueMismatch with the first element that differs, or where floats are not of that dtype."""
    if got is None or wanted is None:
        if got is not wanted:
            raise ValueMismatch(f"{what}: one of kernel and reference gives no gradient, the other does.")
        return
    got, wanted = got.numpy() if isinstance(got, Array) else got, np.asarray(wanted)
    if got.dtype != (one := np.dtype(dtype) if wanted.dtype.kind == "f" else wanted.dtype):
        raise ValueMismatch(f"{what} is {got.dtype}; it should be {one}.")
    if got.shape != wanted.shape:
        raise ValueMismatch(f"{what} has shape {got.shape}; the reference has {wanted.shape}.")
    wrong = differing(got, wanted, tolerance, tolerance * largest(wanted))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise ValueMismatch(
            f"{what}{list(at)} is {got[at]:.9g}, the reference says {wanted[at]:.9g}; "
            f"{len(wrong)} of {got.size} elements differ."
        )
