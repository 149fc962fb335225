"""The six comparisons: bool outputs, without a gradient."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minigrad.op import Case, Op
from minigrad.ops.elementwise import CASES, TIES, cost, kernels_of, launch, must_broadcast, must_match

BOOL = np.dtype(np.bool_)
WHOLE = Case((np.arange(6).reshape(2, 3), np.array([0, 4, 2])))
FLAGS = Case((np.array([True, True, False, False]), np.array([True, False, True, False])))


def prepare(name: str, a: Any, b: Any) -> dict:
    """Both inputs have the same dtype, any; shapes broadcast."""
    must_match(name, a, b)
    return must_broadcast(name, a, b)


def comparison(name: str, sign: str, compare: Callable) -> Op:
    """y = a <sign> b, by `<name>_forward` in `cuda/comparison.cu`."""

    def forward(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return compare(a, b)

    forward.__doc__ = f"y = a {sign} b"
    return Op(
        name,
        forward,
        launch=partial(launch, dtype=BOOL),
        prepare=partial(prepare, name),
        cost=cost(1, itemsize=1),
        cuda=(f"a {sign} b",),
        integers=True,
        cases=[*CASES, TIES, WHOLE, FLAGS],
        **kernels_of(name, "comparison.cu"),
    )


less = comparison("less", "<", np.less)
less_equal = comparison("less_equal", "<=", np.less_equal)
greater = comparison("greater", ">", np.greater)
greater_equal = comparison("greater_equal", ">=", np.greater_equal)
equal = comparison("equal", "==", np.equal)
not_equal = comparison("not_equal", "!=", np.not_equal)
