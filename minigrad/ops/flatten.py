"""flatten: neighboring axes as one. The same memory; no kernel runs."""

from math import prod
from typing import Any

import numpy as np

from minigrad.op import Case, Op
from minigrad.ops.reduction import axes_of
from minigrad.ops.reshape import reshape


def prepare(x: Any, start_dim: Any = 0, end_dim: Any = -1) -> dict[str, int]:
    """The axes, counted from the front. Raises ValueError where the first is behind the last."""
    if not x.ndim:
        return {"start_dim": 0, "end_dim": 0}
    start, end = (axes_of("flatten", x.ndim, axis)[0] for axis in (start_dim, end_dim))
    if start > end:
        raise ValueError(f"flatten: start_dim={start_dim} is behind end_dim={end_dim} in shape {x.shape}.")
    return {"start_dim": start, "end_dim": end}


def forward(x: np.ndarray, start_dim: int = 0, end_dim: int = -1) -> np.ndarray:
    """y = x, with the axes from start_dim to end_dim as one"""
    return x.reshape((*x.shape[:start_dim], prod(x.shape[start_dim : end_dim + 1]), *x.shape[end_dim + 1 :]))


flatten = Op(
    "flatten",
    forward,
    reshape.backward,
    kernels={},
    launch=lambda kernels, x, start_dim, end_dim: forward(x, start_dim, end_dim),
    launch_backward=reshape.launch_backward,
    prepare=prepare,
    cost=lambda x, start_dim=0, end_dim=-1: (0, 0),
    integers=True,
    shares=True,
    cases=[
        Case((shape,), {"start_dim": start, "end_dim": end})
        for shape, start, end in (
            ((2, 3, 4, 5), 1, -1), ((2, 3, 4), 0, 1), ((33, 31), 0, -1), ((5,), 0, 0), ((), 0, -1), ((0, 3, 2), 1, 2),
        )
    ],
)  # fmt: skip
