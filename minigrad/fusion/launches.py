"""The launches of a fused op: which pieces its kernels own, and what comes after them."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID
from minigrad.fusion.trace import Trace
from minigrad.fusion.write import Written
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import ceil_div
from minigrad.kernels.view import Shape, broadcast
from minigrad.op import OPS
from minigrad.ops import reduction
from minigrad.ops.elementwise import joint_shape
from minigrad.ops.mean import behind
from minigrad.ops.sum import repeat
from minigrad.source import CUDA, Source

FOUR = 4  # LANES of vector.cuh
BLOCKS = (256, 32, 64, 128)  # 256 threads fit on every GPU, however many registers a long chain takes


class Rows(NamedTuple):
    """What a closing sum makes of a shape: it is seen as (rows, n), and its sums have this shape."""

    rows: int
    n: int
    shape: Shape


class Launches:
    """The kernels of a trace and how they are launched, forward and backward."""

    def __init__(self, trace: Trace, written: Written):
        self.trace, self.written, self.closing = trace, written, trace.closing
        self.source = Source(written.text, f"{written.name}.cu", CUDA)

    def kernels(self) -> dict[str, Kernel]:
        """One for each way. Elements have a thread to every four; where a sum closes, a block to a piece of a row."""
        names = {way: f"{self.written.name}_{way}" for way in ("forward", "backward")[: 1 + bool(self.written.wanted)]}
        kernel = partial(Kernel, self.source, block=("BLOCK",), BLOCK=BLOCKS)
        if self.closing is None:
            return {way: kernel(name, grid=("n/4*BLOCK",), sizes="n") for way, name in names.items()}
        pieces = partial(kernel, grid=("outputs", "n/CHUNK"), sizes="outputs n", CHUNK=reduction.CHUNKS)
        return {way: pieces(name) for way, name in names.items()}

    def forward(self, kernels: Mapping[str, Kernel], *xs: Array) -> Array:
        """One kernel; where a row has several pieces, or its sum is to be divided by n, the kernel of sum after it."""
        shape, device, dtype = joint_shape(*(x.shape for x in xs)), xs[0].device, xs[0].dtype
        views = self._views(xs, shape)
        if self.closing is None:
            y = Array.empty(device, shape, dtype)
            kernels["forward"].launch(y.size)(*xs, y, *views, y.size)
            return y
        rows, n, out = self.rows(shape)
        chunk = _chunk(kernels["forward"], n)
        y = Array.empty(device, (rows, max(ceil_div(n, chunk), 1)), dtype)
        kernels["forward"].launch(rows, max(n, 1), CHUNK=chunk)(*xs, y, *views, n, chunk)
        if y.shape[1] > 1 or self.divisor(shape) != 1:
            y = reduction.reduce(OPS["sum"].running, y, (1,), False, self.divisor(shape))
        return y.reshape(out)

    def backward(self, kernels: Mapping[str, Kernel], needs: tuple, dy: Array, *kept: Any) -> tuple:
        """One kernel, which writes the gradients in the shape that the inputs broadcast to."""
        *xs, shapes = kept
        shape = joint_shape(*shapes)
        names = [x.name for x in self.trace.inputs]
        grads = {
            x.name: Array.empty(dy.device, shape, dy.dtype) for x in self.written.wanted if needs[names.index(x.name)]
        }
        if grads and prod(shape):
            arrays = [*xs, *(grads.get(x.name) for x in self.written.wanted), *self._views(xs, shape)]
            self._back(kernels["backward"], dy, arrays, shape)
        return tuple(grads.get(name) for name in names)

    def _back(self, kernel: Kernel, dy: Array, arguments: Sequence[Any], shape: Shape) -> None:
        """The launch of the backward kernel."""
        if self.closing is None:
            kernel.launch(prod(shape))(dy, *arguments, prod(shape))
            return
        rows, n, _ = self.rows(shape)
        chunk = _chunk(kernel, n)
        if self.divisor(shape) != 1:
            dy = repeat(OPS["sum"].running, dy, dy.shape, (), self.divisor(shape))
        kernel.launch(rows, n, CHUNK=chunk)(dy, *arguments, n, chunk)

    def _views(self, xs: Sequence[Array], shape: Shape) -> list[Any]:
        """How the inputs are found; a single one has the shape of the output."""
        return [broadcast(x.shape, shape) for x in xs] if len(self.trace.inputs) > 1 else []

    def rows(self, shape: Shape) -> Rows:
        """How a shape is summed. Raises ValueError where the axes are not the last ones."""
        closing: Any = self.closing
        params = closing.op.prepare(np.broadcast_to(0.0, shape), **closing.params)
        axes, start = params["axis"], len(shape) - len(params["axis"])
        if axes != tuple(range(start, len(shape))):
            raise ValueError(
                f"{self.written.name}: a fused {closing.op.name} takes the last axes, and axis {axes} of shape {shape} "
                "are others. Fuse what comes before it, and sum the result."
            )
        return Rows(prod(shape[:start]), prod(shape[start:]), reduction.reduced_shape(shape, axes, params["keepdims"]))

    def divisor(self, shape: Shape) -> float:
        """What a sum is divided by: n for a mean."""
        closing: Any = self.closing
        rows, n, _ = self.rows(shape)
        return behind(rows * n, rows) if closing.op.name == "mean" else 1.0


def _chunk(kernel: Kernel, n: int) -> int:
    """The elements of a piece: a multiple of four, and so many that a grid holds the pieces of n."""
    return ceil_div(max(kernel.values["CHUNK"], ceil_div(n, MAX_GRID[1])), FOUR) * FOUR
