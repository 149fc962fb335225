"""embedding: rows of a table, looked up by their numbers."""

from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import must_be_floats
from minigrad.kernels.kernel import Kernel
from minigrad.op import Case, Op
from minigrad.ops.elementwise import BLOCKS, per_element

FILE = "embedding.cu"
COUNT = np.dtype(np.uint32)
MANY = 4096  # numbers of a table for each multiprocessor: with fewer, a thread for each sums many rows faster


def forward(indices: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """y = weight[indices], a row of the table for each index"""
    return weight[indices]


def backward(dy: np.ndarray, indices: np.ndarray, weight: np.ndarray) -> tuple:
    """dweight = for each row the sum of dy where it was looked up, in the order of the indices"""
    dweight = np.zeros(weight.shape, dy.dtype)
    np.add.at(dweight, indices, dy)
    return None, dweight


def kernels_of() -> dict[str, Kernel]:
    """The look-up, and the steps of its gradient, whose sums have one order."""
    kernels = {"forward": per_element(FILE, "embedding_forward")}
    kernels["simple"] = kernels["forward"]  # by this name it is there whichever kernel has the role
    for step, size in {"count": "rows", "starts": "words", "place": "rows", "sort": "rows"}.items():
        kernels[f"backward_{step}"] = per_element(FILE, f"embedding_backward_{step}", size)
    kernels["backward"] = kernels["simple_backward"] = Kernel(
        FILE, "embedding_backward", ("words", "width/BLOCK"), ("BLOCK",), "words width", BLOCK=BLOCKS
    )
    for way in ("vectorized", "vectorized_backward"):
        kernels[way] = Kernel(FILE, f"embedding_{way}", ("n/4*BLOCK",), ("BLOCK",), "n", BLOCK=BLOCKS)
    return kernels


def launch(kernels: dict[str, Kernel], indices: Array, weight: Array) -> Array:
    """One kernel; a thread moves four numbers where rows are a multiple of that."""
    words, width = weight.shape
    y = Array.empty(weight.device, (*indices.shape, width), weight.dtype)
    kernel = kernels["forward"]
    if width % 4 and "vectorized" in kernel.name:
        kernel = kernels["simple"]
    kernel.launch(y.size)(indices, weight, y, words, width, y.size)
    return y


def launch_backward(
    kernels: dict[str, Kernel], needs: tuple, dy: Array, indices: Array, weight: Array
) -> tuple[None, Array]:
    """Indices sorted by four kernels, and a sum for each row of the table."""
    (words, width), rows = weight.shape, indices.size
    zeros = Array.zeros(weight.device, (2 * words + 1, 1), COUNT)
    counts, taken, total = (zeros.rows(i, n).reshape((n,)) for i, n in ((0, words), (words, words), (2 * words, 1)))
    starts, placed, order = (Array.empty(weight.device, (n,), COUNT) for n in (words, rows, rows))
    kernels["backward_count"].launch(rows)(indices, counts, words, rows)
    if words:
        kernels["backward_starts"].launch(words)(counts, starts, total, words)
    kernels["backward_place"].launch(rows)(indices, starts, taken, placed, words, rows)
    kernels["backward_sort"].launch(rows)(indices, starts, counts, placed, order, words, rows)
    dweight = Array.empty(weight.device, weight.shape, weight.dtype)
    kernel, given = kernels["backward"], (dy, starts, counts, order, dweight, width)
    if "vectorized" not in kernel.name or width % 4 or dweight.size < MANY * weight.device.processors:
        kernels["simple_backward"].launch(words, width)(*given)
    else:
        kernel.launch(dweight.size)(*given, dweight.size)
    return None, dweight


def prepare(indices: Any, weight: Any) -> dict[str, Any]:
    """Raises TypeError for dtypes, ValueError for shapes and IndexError for indices that are no row.

    Indices on `cuda` are not checked, since that would wait for the GPU: the row of a wrong one is NaN.
    """
    must_be_floats("embedding", weight)
    if indices.dtype != np.int64:
        raise TypeError(f"embedding: indices are {indices.dtype}; they must be int64: indices.astype('int64').")
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight is {weight.shape}; it must be (rows, width).")
    if not (isinstance(indices, Array) and indices.device.is_gpu):
        host = indices.numpy() if isinstance(indices, Array) else indices
        if (wrong := host[(host < 0) | (host >= weight.shape[0])]).size:
            raise IndexError(
                f"embedding: index {wrong[0]} is no row of weight {weight.shape}; rows are 0 to {weight.shape[0] - 1}."
            )
    return {}


def cost(indices: Any, weight: Any) -> tuple[int, int]:
    """No arithmetic; the table and the indices read once."""
    read = sum(x.size * x.dtype.itemsize for x in (indices, weight))
    return 0, read + indices.size * weight.shape[1] * weight.dtype.itemsize


def _case(words: int, width: int, *shape: int, **how: Any) -> Case:
    indices = np.random.default_rng(5).integers(0, max(words // 2, 1), shape)  # half of the rows stay without
    return Case((indices, (words, width)), **how)


embedding = Op(
    "embedding",
    forward,
    backward,
    kernels=kernels_of(),
    fast={"forward": "vectorized", "backward": "vectorized_backward"},
    launch=launch,
    launch_backward=launch_backward,
    prepare=prepare,
    cost=cost,
    integers=True,
    cases=[
        _case(7, 4, 9), _case(1, 3, 5), _case(33, 68, 4, 25), _case(1030, 5, 3, 2, 7), _case(3, 260, 300),
        _case(5, 4, 0), _case(5, 0, 3), _case(6, 8, 2, 3, nan=True), _case(4, 3), _case(2100, 1, 2500),
        _case(2100, 260, 9),
    ],
)  # fmt: skip
