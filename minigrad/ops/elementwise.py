"""Elementwise ops: one thread per element, and NumPy's broadcasting through views."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from inspect import signature
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.dtypes import has_gradient
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.kernels.view import Shape, broadcast
from minigrad.op import Case, Op
from minigrad.source import Source

BLOCKS = (256, 32, 64, 128, 512, 1024)
FOURS = "4*BLOCK"  # the elements of a block
RAGGED = ((), (1,), (2,), (3,), (31,), (33,), (1023,), (1025,), (0,), (33, 65), (4, 3, 2))
PAIRS = (
    ((), ()), ((1,), (1,)), ((1025,), (1025,)), ((33, 65), (33, 65)),
    ((33, 65), (65,)), ((33, 1), (1, 65)), ((2, 3, 4), (3, 1)), ((5,), ()), ((0, 3), (3,)), ((2, 1, 3, 1), (4, 1, 5)),
)  # fmt: skip
WITH_NAN = ((9, 5), (5,))
CASES = (*(Case(pair) for pair in PAIRS), Case(WITH_NAN, nan=True))
TIES = Case((np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])))


def per_element(file: str, name: str, size: str = "n", blocks: tuple[int, ...] = BLOCKS) -> Kernel:
    """A kernel in which thread i reads or computes element i; size: the name of their number."""
    return Kernel(file, name, grid=(f"{size}/BLOCK",), block=("BLOCK",), sizes=size, BLOCK=blocks)


def per_four(file: str, name: str, size: str = "n", blocks: tuple[int, ...] = BLOCKS) -> Kernel:
    """A kernel in which thread i reads or computes elements 4 i to 4 i + 3, or eight of 2 bytes: see `launch_over`."""
    return Kernel(file, name, grid=(f"{size}/{FOURS}",), block=("BLOCK",), sizes=size, BLOCK=blocks)


def launch_over(kernel: Kernel, n: int, dtype: np.dtype) -> Launch:
    """The launch for n elements of this dtype. A thread of a vectorized kernel moves 16 bytes: eight of bfloat16."""
    return kernel.launch(ceil_div(n, 2) if dtype.itemsize == 2 and kernel.grid[0].piece == FOURS else n)


def kernels_of(name: str, file: str = "") -> dict[str, Any]:
    """The arguments `kernels` and `fast` of an Op: `<name>_forward`, `_backward` and their vectorized versions, if any.

    The vectorized kernels take the roles of the plain ones.
    """
    file = file or f"{name}.cu"
    text, vectorized = Source.read(file).text, {"forward": "vectorized", "backward": "vectorized_backward"}
    kernels = {way: per_element(file, f"{name}_{way}") for way in vectorized if f" {name}_{way}(" in text}
    fast = {way: kernel for way, kernel in vectorized.items() if f" {name}_{kernel}(" in text}  # found unparsed: quick
    return {"kernels": kernels | {k: per_four(file, f"{name}_{k}") for k in fast.values()}, "fast": fast}


def launch(kernels: dict[str, Kernel], *inputs: Array, dtype: np.dtype | None = None) -> Array:
    """kernel(inputs, y, views of the inputs if there are several, n), over the shape that the inputs broadcast to.

    dtype: of y; by default that of the last input.
    """
    shape = joint_shape(*(x.shape for x in inputs))
    y = Array.empty(inputs[0].device, shape, dtype or inputs[-1].dtype, any(x.channels_last for x in inputs))
    views = [broadcast(x.shape, shape) for x in inputs] if len(inputs) > 1 else []
    launch_over(kernels["forward"], y.size, inputs[-1].dtype)(*inputs, y, *views, y.size)
    return y


def launch_backward(kernels: dict[str, Kernel], needs: tuple, dy: Array, *saved: Array) -> tuple:
    """kernel(dy, saved, dx of each input, views of saved if there are several inputs, n), in the shape of y.

    A null pointer marks a gradient that is not wanted; `unbroadcast` sums over broadcast axes.
    """
    grads = tuple(Array.empty(dy.device, dy.shape, dy.dtype, dy.channels_last) if need else None for need in needs)
    views = [broadcast(x.shape, dy.shape) for x in saved] if len(needs) > 1 else []
    launch_over(kernels["backward"], dy.size, dy.dtype)(dy, *saved, *grads, *views, dy.size)
    return grads


def cost(flops: int, itemsize: int | None = None) -> Callable[..., tuple[int, int]]:
    """FLOPs per element, and bytes: inputs read once, the output, of the last input's dtype, written once."""

    def count(*arrays: Any, **params: Any) -> tuple[int, int]:
        n = prod(joint_shape(*(a.shape for a in arrays)))
        written = n * (itemsize or arrays[-1].dtype.itemsize)
        return flops * n, sum(a.size * a.dtype.itemsize for a in arrays) + written

    return count


def elementwise(
    name: str, forward: Callable, backward: Callable, cuda: Sequence[str | None] = (), *, flops: int = 1,
    positive: bool = False, extremes: Sequence[float] = (), ties: bool = False, uses: Sequence[str] = (),
    launch_backward: Callable = launch_backward,
) -> Op:  # fmt: skip
    """y[i] = f(x[i]), or y = f(a, b) with broadcasting, by `<name>_forward` and `_backward` in `cuda/<name>.cu`.

    The backward kernel takes the arrays that the NumPy rule names: inputs, y, both or neither. An op whose gradient
    needs no such kernel passes its own launch_backward. cuda: one element of y and of each gradient, for `mg.fuse`.
    Of the cases: positive numbers only; extremes, for which another formula would overflow on the way; equal inputs.
    """
    several = len(signature(forward).parameters) > 1
    cases = [Case(shapes, positive=positive) for shapes in (PAIRS if several else [(shape,) for shape in RAGGED])]
    more = [TIES] * ties if several else [Case((np.array(extremes, float),))]
    more += [Case(WITH_NAN[: 1 + several], positive=positive, nan=True)]
    return Op(
        name,
        forward,
        backward,
        launch=launch,
        launch_backward=launch_backward,
        prepare=partial(must_broadcast, name) if several else None,
        uses=uses,
        cost=cost(flops),
        cuda=cuda,
        broadcasts=several,
        layouts="alike",
        cases=[*cases, *more],
        **kernels_of(name),
    )


@lru_cache(maxsize=4096)
def joint_shape(*shapes: Shape) -> Shape:
    """The shape that these broadcast to, by NumPy's rules."""
    return np.broadcast_shapes(*shapes)


def must_broadcast(name: str, *arrays: Any) -> dict:
    """Raise ValueError if shapes do not broadcast: from the right, extents must be equal or 1."""
    try:
        joint_shape(*(a.shape for a in arrays))
    except ValueError:
        shapes = " and ".join(str(a.shape) for a in arrays)
        raise ValueError(
            f"{name}: shapes {shapes} do not broadcast; from the right, extents must be equal or 1. "
            "Insert an axis with x[:, None] or reshape one of them."
        ) from None
    return {}


def must_match(name: str, *arrays: Any) -> None:
    """Raise TypeError if dtypes differ, for ops that take any dtype; it suggests a float, then the larger."""
    first = arrays[0].dtype
    for other in arrays[1:]:
        if other.dtype != first:
            both = max(first, other.dtype, key=lambda dtype: (has_gradient(dtype), dtype.kind != "b", dtype.itemsize))
            raise TypeError(
                f"{name}: one input is {first}, another {other.dtype}; make them one with .astype({both.name!r})."
            )
