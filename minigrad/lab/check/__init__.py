"""Correctness of an op: value, gradient and bounds of each case, for every kernel and every block size.

Kernels are compared with the NumPy reference, gradient rules with central differences in float64.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.device import Device
from minigrad.devices.guarded import guarded
from minigrad.display import folded
from minigrad.errors import KernelError, require
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
    """A result that differs from the reference."""


@dataclass(frozen=True)
class OpCheck:
    """A passed check of an op: the number of cases and of settings (kernels and block sizes)."""

    op: str
    device: str
    cases: int
    dtypes: tuple[str, ...]
    settings: int

    def __repr__(self) -> str:
        return folded(
            f"{self.op} on {self.device}: value, gradient and bounds are right in {self.cases} cases, "
            f"{' and '.join(self.dtypes)}, with {self.settings} choices of kernel and block."
        )


def op(op: Op, device: str = "sim", dtypes: Sequence[str] | str = ("float32", "float64")) -> OpCheck:
    """Check an op completely: its rule by central differences, its kernels against NumPy at every block size.

    Raises GradientError, ValueMismatch or KernelError for the first error.
    """
    require("check.op: dtypes", dtypes, str | tuple | list, "names of dtypes")
    names = tuple(map(dtype_name, [dtypes] if isinstance(dtypes, str) else dtypes))
    if not an_op(op).cases or not names:
        raise ValueError(f"check.op: {op.name} has {len(op.cases)} cases, for {len(names)} dtypes: nothing to check.")
    for case in op.cases:
        rule(op, case)
        for dtype in names:
            every_block(op, case, device, dtype)
    return OpCheck(op.name, device, len(op.cases), names, len(list(settings(op))))


def rule(op: Op, case: Case) -> GradientCheck | None:
    """Check the NumPy gradient rule by central differences; None if there is no rule, or nothing to differentiate.

    A case with NaN has no slope.
    """
    arrays = inputs_of(op, case, np.float64)
    if op.backward is None or case.nan or not any(x.dtype.kind == "f" and x.size for x in arrays):
        return None

    def call(*xs: Any) -> Any:
        return op(*xs, **case.params)

    call.__name__, call.forward = f"{op.name} {case}", op.forward  # type: ignore[attr-defined]
    return gradient(call, *map(Tensor, arrays))


def value(op: Op, case: Case, device: str = "sim", dtype: str = "float32") -> None:
    """Compare forward and backward kernels with the NumPy reference in float64. Raises ValueMismatch."""
    _compare(op, _wanted(op, case, dtype), case, get(check(device)), dtype)


def bounds(op: Op, case: Case, device: str = "sim", dtype: str = "float32") -> None:
    """The same in guarded memory full of NaN. Raises KernelError, or ValueMismatch for a NaN read out of bounds."""
    _compare(op, _wanted(op, case, dtype), case, guarded(device), dtype)


def every_block(
    op: Op,
    case: Case,
    device: str = "sim",
    dtype: str = "float32",
    chosen: Iterable[tuple[str, Op]] | None = None,
) -> None:
    """Check value and bounds with every forward kernel of the op, at every legal block size.

    chosen: with these alone, of the `settings`.
    """
    wanted, guard = _wanted(op, case, dtype), guarded(device)
    for name, one in settings(op) if chosen is None else chosen:
        _compare(one, wanted, case, guard, dtype, name)


def settings(op: Op) -> Iterator[tuple[str, Op]]:
    """The op itself, then with each of its kernels, and each of these with every legal value of one tunable."""
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
    """NumPy's results in float64; its results in the kernels' dtype must agree with them, and have that dtype."""
    wanted = expected(op, case, dtype)
    _compare(op, wanted, case, None, dtype)
    return wanted


def _compare(op: Op, wanted: Results, case: Case, device: Device | None, dtype: str, setting: str = "") -> None:
    """Raise ValueMismatch where the results of a device differ; device None: those of NumPy in this dtype."""
    place = ", ".join(filter(None, [f"{op.name} on {device.name if device else 'numpy'}", dtype, str(case), setting]))
    for name, got, right, tolerance in pairs(op, wanted, case, device, dtype):
        if error := _difference(got, right, dtype, tolerance):
            raise ValueMismatch(f"{place}: {name}{error}")


def _difference(got: Any, wanted: Any, dtype: str, tolerance: float) -> str:
    """The first element that differs, a wrong dtype or a wrong shape, in words; empty without any."""
    if got is None or wanted is None:
        return "" if got is wanted else ": one of kernel and reference gives no gradient, the other does."
    got, wanted = got.numpy() if isinstance(got, Array) else got, np.asarray(wanted)
    if got.dtype != (right := np.dtype(dtype) if wanted.dtype.kind == "f" else wanted.dtype):
        return f" is {got.dtype}; it should be {right}."
    if got.shape != wanted.shape:
        return f" has shape {got.shape}; the reference has {wanted.shape}."
    wrong = differing(got, wanted, tolerance, tolerance * largest(wanted))
    if not len(wrong):
        return ""
    at, count = tuple(map(int, wrong[0])), f"{len(wrong)} of {got.size} elements differ."
    return f"{list(at)} is {got[at]:.9g}, the reference says {wanted[at]:.9g}; {count}"
