"""where: each element from one of two arrays; the gradient goes to the array that it came from."""

from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops import elementwise
from minigrad.ops.elementwise import PAIRS, cost, kernels_of, must_broadcast, must_match


def flags(*shape: int) -> np.ndarray:
    """A condition for cases: every third element true."""
    return np.asarray(np.arange(prod(shape)).reshape(shape) % 3 == 0)


def prepare(cond: Any, a: Any, b: Any) -> dict:
    """Check dtypes and shapes."""
    if cond.dtype != np.bool_:
        number = "" if cond.ndim else " (a number takes the dtype of the other inputs)"
        raise TypeError(f"where: cond is {cond.dtype}{number}; it must be bool, e.g. x > 0.")
    must_match("where", a, b)
    return must_broadcast("where", cond, a, b)


def forward(cond: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """y = a where cond, else b"""
    return np.where(cond, a, b)


def backward(dy: np.ndarray, cond: np.ndarray) -> tuple:
    """da = dy where cond, else 0; db = 0 where cond, else dy"""
    return None, np.where(cond, dy, 0), np.where(cond, 0, dy)


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, cond: Array) -> tuple:
    """One kernel for both gradients."""
    return None, *elementwise.launch_backward(kernels, needs[1:], dy, cond)


class Where(Op):
    """An Op whose condition may be True or False for all elements, as in NumPy; other numbers follow the tensors."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        if args and isinstance(args[0], bool | np.bool_) and any(hasattr(x, "array") for x in args):
            args = (np.array(args[0]), *args[1:])
        return super().__call__(*args, **named)


where = Where(
    "where",
    forward,
    backward,
    launch=elementwise.launch,
    launch_backward=launch_backward,
    prepare=prepare,
    cost=cost(0),
    cuda=("cond ? a : b", None, "cond ? dy : 0", "cond ? 0 : dy"),
    broadcasts=True,
    integers=True,
    **kernels_of("where"),
    cases=[
        *(Case((flags(*a), a, b)) for a, b in PAIRS),
        Case((flags(33, 1), (1, 65), ())),
        Case((flags(), (3,), (2, 3))),
        Case((flags(5), (), ())),
        Case((flags(9), (9,), (9,)), nan=True),
    ],
)
