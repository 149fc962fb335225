"""A work is the unit of measurement: one op on inputs of one size, forward or backward, with its bytes and FLOPs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.create import extents
from minigrad.devices.array import Array
from minigrad.devices.dry_run import RecordedLaunch, dry_run
from minigrad.devices.dtypes import dtype_of, is_bfloat16
from minigrad.errors import require
from minigrad.op import OPS, Case, Op

WAYS = ("forward", "backward")


@dataclass(frozen=True)
class Work:
    """An op on the inputs of a case, forward or backward; `variant` names one of its kernels."""

    op: Op
    case: Case
    way: str = "forward"
    variant: str | None = None
    dtype: str = "float32"

    @property
    def title(self) -> str:
        """relu backward of 67108864"""
        words = [self.op.name, self.variant, self.way if self.way == "backward" else None]
        shapes = [(x, "") if isinstance(x, tuple) else (x.shape, f" {x.dtype}") for x in self.case.inputs]
        parts = [" x ".join(map(str, shape)) + dtype for shape, dtype in shapes]
        parts += [f"{key}={value}" for key, value in self.case.params.items()]
        parts += ["NHWC"] * self.case.channels_last + [self.dtype] * (self.dtype != "float32")
        return f"{' '.join(filter(None, words))} of {', '.join(parts)}"

    @property
    def unit(self) -> str:
        """The arithmetic: float32, or that of tensor cores, by the dtype and the precision or the kernel's name."""
        if self.dtype == "bfloat16":
            return "bfloat16"
        names = f"{self.variant} {self.case.params.get('precision')}"
        return next((unit for unit in ("3xtf32", "tf32") if unit in names), "float32")

    @property
    def chosen(self) -> Op:
        return self.op.using(self.variant) if self.variant else self.op

    def shapes(self) -> list[tuple[tuple[int, ...], np.dtype]]:
        """Shape and dtype of each input."""
        kind, inputs = dtype_of(self.dtype), self.case.inputs
        return [(x.shape, x.dtype) if isinstance(x, np.ndarray) else (x, kind) for x in inputs]

    def dry(self, op: Op | None = None) -> "DryWork":
        """Its launches and costs, worked out without running it; `op`: another setting of the op."""
        device, op = dry_run(), op or self.chosen
        last = self.case.channels_last
        arrays = [Array.empty(device, shape, dtype, last) for shape, dtype in self.shapes()]
        params = op.prepare(*arrays, **self.case.params) if op.prepare else self.case.params
        flops, nbytes = op.cost(*arrays, **self.case.params)  # type: ignore[misc]
        if self.way == "forward":
            y = op.run(arrays, params)
            return DryWork(tuple(device.launches), flops, nbytes, y.shape)
        y, pull = op.pullback(arrays, self.case.params)
        device.launches.clear()
        dy = Array.empty(device, y.shape, y.dtype, last)
        moved = [dy, *pull.args[0], *pull(dy)]  # upstream gradient, saved arrays, gradients
        nbytes = sum({x.address: x.nbytes for x in moved if isinstance(x, Array)}.values())  # each array once
        return DryWork(tuple(device.launches), op.backward_flops * flops, nbytes, y.shape)


@dataclass(frozen=True)
class DryWork:
    """The launches of a work, its FLOPs (0: not counted), the least bytes that it must move, its output's shape."""

    launches: tuple[RecordedLaunch, ...]
    flops: int
    nbytes: int
    output: tuple[int, ...]


def work_of(
    named: Op | str, shapes: Sequence[Any], way: str = "forward", variant: str | None = None,
    channels_last: bool = False, **params: Any,
) -> Work:  # fmt: skip
    """The work of an op on inputs given as shapes, arrays or tensors. Raises ValueError or TypeError."""
    found = OPS.get(named, named) if isinstance(named, str) else named
    op: Op = require("mg.bench or mg.tune", found, Op, "an op, e.g. mg.relu")
    if way not in WAYS:
        raise ValueError(f"way={way!r} must be 'forward' or 'backward'.")
    if way == "backward" and op.backward is None:
        raise ValueError(f"{op.name} has no gradient; use way='forward'.")
    if not op.inputs.variadic:
        try:
            shapes, params = op.inputs.split(shapes, params)
        except TypeError as error:
            raise TypeError(f"{error} Give each input by its shape, e.g. (1024, 1024), or as a tensor.") from None
    elif not shapes:
        raise TypeError(f"{op.name} got no inputs. Give each by its shape, e.g. (1024, 1024), or as a tensor.")
    positive = bool(op.cases) and op.cases[0].positive
    dtype = "bfloat16" if any(is_bfloat16(x.dtype) for x in shapes if hasattr(x, "dtype")) else "float32"
    case = Case(tuple(map(_input, shapes)), params, positive, channels_last=channels_last)
    return Work(op, case, way, variant, dtype)


def _input(x: Any) -> Any:
    """The shape, for random numbers; an array of integers or flags itself."""
    if not hasattr(x, "dtype"):
        return extents((x,))
    if x.dtype.kind == "f" or is_bfloat16(x.dtype):
        return tuple(x.shape)
    return np.asarray(x.numpy() if hasattr(x, "numpy") else x)
