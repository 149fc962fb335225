"""The launches of a fused op: its kernels, the chunks that they own, and the launch that adds up their sums."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID
from minigrad.fusion.trace import Trace
from minigrad.fusion.write import FusedSource
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import ceil_div
from minigrad.kernels.view import Shape, broadcast
from minigrad.op import OPS
from minigrad.ops import elementwise, reduction
from minigrad.ops.elementwise import joint_shape
from minigrad.ops.mean import terms
from minigrad.ops.sum import repeat
from minigrad.source import CUDA, Source

BLOCKS = (256, 32, 64, 128)  # 256 threads fit on every GPU, however many registers a long chain takes


class Rows(NamedTuple):
    """The view of a shape by a closing sum: (rows, n), the shape of the sums, and their divisor."""

    rows: int
    n: int
    shape: Shape
    divisor: float  # n for a mean, else 1


class Launches:
    """The kernels of a trace and how they are launched, forward and backward."""

    def __init__(self, trace: Trace, code: FusedSource):
        self.trace, self.code, self.closing = trace, code, trace.closing
        self.source = Source(code.text, f"{code.name}.cu", CUDA)

    def kernels(self) -> dict[str, Kernel]:
        """A thread owns four elements or, with a closing sum, a block owns a chunk of a row."""
        names = {way: f"{self.code.name}_{way}" for way in ("forward", "backward")[: 1 + bool(self.code.wanted)]}
        kernel = partial(Kernel, self.source, block=("BLOCK",), BLOCK=BLOCKS)
        if self.closing is None:
            return {way: kernel(name, grid=("n/4*BLOCK",), sizes="n") for way, name in names.items()}
        chunks = partial(kernel, grid=("outputs", "n/CHUNK"), sizes="outputs n", CHUNK=reduction.CHUNKS)
        return {way: chunks(name) for way, name in names.items()}

    def forward(self, kernels: Mapping[str, Kernel], *xs: Array) -> Array:
        """One kernel; after it the kernel of sum, if a row has several chunks or its sum is divided by n."""
        if self.closing is None:
            return elementwise.launch(kernels, *xs)
        shape = joint_shape(*(x.shape for x in xs))
        rows, n, out, divisor = self.rows(shape)
        chunk = _chunk(kernels["forward"], n)
        y = Array.empty(xs[0].device, (rows, max(ceil_div(n, chunk), 1)), xs[0].dtype)
        kernels["forward"].launch(rows, max(n, 1), CHUNK=chunk)(*xs, y, *self._views(xs, shape), n, chunk)
        if y.shape[1] > 1 or divisor != 1:
            y = reduction.reduce(OPS["sum"].running, y, (1,), False, divisor)
        return y.reshape(out)

    def backward(self, kernels: Mapping[str, Kernel], needs: tuple, dy: Array, *saved: Any) -> tuple:
        """One kernel writes the gradients, in the shape that the inputs broadcast to."""
        *xs, shapes = saved
        shape, kernel = joint_shape(*shapes), kernels["backward"]
        needed = dict(zip((x.name for x in self.trace.inputs), needs, strict=True))
        grads = {x.name: Array.empty(dy.device, shape, dy.dtype) for x in self.code.wanted if needed[x.name]}
        if grads and prod(shape):
            if self.closing is None:
                launch, extents = kernel.launch(prod(shape)), (prod(shape),)
            else:
                rows, n, _, divisor = self.rows(shape)
                extents = n, _chunk(kernel, n)
                launch = kernel.launch(rows, n, CHUNK=extents[1])
                dy = dy if divisor == 1 else repeat(OPS["sum"].running, dy, dy.shape, (), divisor)
            outputs = [grads.get(x.name) for x in self.code.wanted]
            launch(dy, *xs, *outputs, *self._views(xs, shape), *extents)
        return tuple(map(grads.get, needed))

    def _views(self, xs: Sequence[Array], shape: Shape) -> list[Any]:
        """The views of the inputs; a single input has the shape of the output and needs none."""
        return [broadcast(x.shape, shape) for x in xs] if len(self.trace.inputs) > 1 else []

    def rows(self, shape: Shape) -> Rows:
        """The rows of the closing sum. Raises ValueError if its axes are not the last ones."""
        closing: Any = self.closing
        params = closing.op.prepare(np.broadcast_to(0.0, shape), **closing.params)
        axes, start = params["axis"], len(shape) - len(params["axis"])
        if axes != tuple(range(start, len(shape))):
            raise ValueError(
                f"{self.code.name}: a fused {closing.op.name} takes the last axes, and axis {axes} of shape {shape} "
                "are others. Fuse the operations before it, and sum the result."
            )
        rows, n = prod(shape[:start]), prod(shape[start:])
        divisor = terms(rows * n, rows) if closing.op.name == "mean" else 1.0
        return Rows(rows, n, reduction.reduced_shape(shape, axes, params["keepdims"]), divisor)


def _chunk(kernel: Kernel, n: int) -> int:
    """The elements of a chunk: a multiple of four, and enough for a grid to hold all chunks of n."""
    return ceil_div(max(kernel.values["CHUNK"], ceil_div(n, MAX_GRID[1])), 4) * 4
