"""Fused: a function of elementwise operations as one op, with one kernel forward and one backward."""

import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad import card
from minigrad.array import Array
from minigrad.devices.base import MAX_GRID
from minigrad.fusion import reference
from minigrad.fusion.formula import formula
from minigrad.fusion.trace import Trace
from minigrad.fusion.traffic import Traffic
from minigrad.fusion.write import Written
from minigrad.kernel import Kernel
from minigrad.launch import ceil_div
from minigrad.listing import Listing
from minigrad.op import OPS, AnyArray, Case, Op
from minigrad.ops import reduction
from minigrad.ops.elementwise import PAIRS, RAGGED, joint_shape, must_broadcast, per_four
from minigrad.ops.mean import behind
from minigrad.ops.sum import repeat
from minigrad.source import CUDA, Source
from minigrad.view import Shape, broadcast

FOUR = 4  # LANES of vector.cuh


class Rows(NamedTuple):
    """What a closing sum makes of a shape: it is seen as (rows, n), and its sums have these shapes."""

    rows: int
    n: int
    shape: Shape
    kept: Shape  # with the axes that were summed


class Fused(Op):
    """What `mg.fuse` makes: an op like any other. `fn` is the function, `source` the CUDA C++ written of it."""

    def __init__(self, fn: Callable, cases: Sequence[Case] = ()):
        name = getattr(fn, "__name__", "")
        name = name if name.isidentifier() and name.isascii() else "fused"
        self.fn, self.trace = fn, Trace(fn)
        self._closing = self.trace.closing
        self.written = Written(name, self.trace, formula(self.trace))
        forward, backward = self._reference()
        super().__init__(
            name,
            forward,
            backward if self.written.wanted else None,
            kernels=self._written_kernels(),
            launch=self._launch,
            launch_backward=self._launch_backward,
            prepare=self._prepare,
            cost=self._cost,
            broadcasts=True,
            listed=False,
        )
        self.cases = tuple(cases or self._cases())

    @property
    def source(self) -> Listing:
        """The CUDA C++ of both kernels, as it was written."""
        return Listing(f"{self.name}.cu", 1, self.written.text)

    def traffic(self, *shapes: Any, dtype: str = "float32") -> Traffic:
        """The bytes of a forward and a backward pass for inputs of these shapes, fused and op by op."""
        return Traffic.of(self, *shapes, dtype=dtype)

    def __repr__(self) -> str:
        return f"{card.text(self)}\n\n{self.source!r}"

    def _repr_html_(self) -> str:
        return card.html(self) + self.source._repr_html_()

    # --- the truth: the ops themselves, one after the other ---

    def _reference(self) -> tuple[Callable, Callable]:
        """The NumPy forward and gradient, which name what they take as those of a room do."""
        inputs, reread = ([x.name for x in xs] for xs in (self.trace.inputs, self.written.reread))

        def forward(*xs: np.ndarray) -> np.ndarray:
            return reference.value(self.trace, xs)

        def backward(dy: np.ndarray, shapes: tuple, **kept: np.ndarray) -> tuple:
            one = np.ones((), dy.dtype)  # stands for an input that no gradient reads
            xs = [kept.get(name, np.broadcast_to(one, s)) for name, s in zip(inputs, shapes, strict=True)]
            return reference.pullback(self.trace, xs)[1](dy)

        forward.__doc__, backward.__doc__ = self.written.formula, self.written.gradient
        _takes(forward, inputs)
        _takes(backward, ["dy", *reread, "shapes"])
        return forward, backward

    # --- the kernels ---

    def _written_kernels(self) -> dict[str, Kernel]:
        source, name = Source(self.written.text, f"{self.written.name}.cu", CUDA), self.written.name
        if self._closing is not None:
            found = {"forward": reduction.per_output(source, f"{name}_forward", 256)}
        else:
            found = {"forward": per_four(source, f"{name}_forward")}
        return found | ({"backward": per_four(source, f"{name}_backward")} if self.written.wanted else {})

    def _launch(self, kernels: dict[str, Kernel], *xs: Array) -> Array:
        """One kernel; where sums of several pieces are left, or n is to be divided by, the kernel of sum after it."""
        shape, kernel = joint_shape(*(x.shape for x in xs)), kernels["forward"]
        views, device, dtype = self._views(xs, shape), xs[0].device, xs[0].dtype
        if self._closing is None:
            y = Array.empty(device, shape, dtype)
            kernel.launch(y.size)(*xs, y, *views, y.size)
            return y
        rows, n, out, _ = self._rows(shape)
        chunk = ceil_div(max(kernel.values["CHUNK"], ceil_div(n, MAX_GRID[1])), FOUR) * FOUR
        y = Array.empty(device, (rows, max(ceil_div(n, chunk), 1)), dtype)
        kernel.launch(rows, max(n, 1), CHUNK=chunk)(*xs, y, *views, n, chunk)
        if y.shape[1] > 1 or self._closing.op.name == "mean":
            y = reduction.reduce(OPS["sum"].running, y, (1,), False, self._divisor(rows, n))
        return y.reshape(out)

    def _launch_backward(self, kernels: dict[str, Kernel], needs: tuple, dy: Array, *kept: Any) -> tuple:
        """One kernel, which writes the gradients in the shape that the inputs broadcast to."""
        *xs, shapes = kept
        shape = joint_shape(*shapes)
        views = self._views(xs, shape, among=len(shapes))
        if self._closing is not None:
            rows, n, _, keepdims = self._rows(shape)
            views = [broadcast(keepdims, shape), *views]
            if self._closing.op.name == "mean":
                dy = repeat(OPS["sum"].running, dy, dy.shape, (), self._divisor(rows, n))
        wanted = {x.name for x in self.written.wanted}
        asked = [need and x.name in wanted for x, need in zip(self.trace.inputs, needs, strict=True)]
        grads = [Array.empty(dy.device, shape, dy.dtype) if ask else None for ask in asked]
        if any(asked):
            out = [grad for x, grad in zip(self.trace.inputs, grads, strict=True) if x.name in wanted]
            kernels["backward"].launch(prod(shape))(dy, *xs, *out, *views, prod(shape))
        return tuple(grads)

    def _views(self, xs: Sequence[Array], shape: Shape, among: int = 0) -> list[Any]:
        """How inputs are found; a single one has the shape of the output."""
        return [broadcast(x.shape, shape) for x in xs] if (among or len(xs)) > 1 else []

    # --- shapes and counts ---

    def _prepare(self, *arrays: AnyArray) -> dict:
        """Check the shapes."""
        must_broadcast(self.name, *arrays)
        if self._closing is not None:
            self._rows(joint_shape(*(x.shape for x in arrays)))
        return {}

    def _rows(self, shape: Shape) -> Rows:
        """Raises ValueError where the axes of the closing sum are not the last ones."""
        assert self._closing is not None
        params = self._closing.op.prepare(np.broadcast_to(0.0, shape), **self._closing.params)  # type: ignore[misc]
        axes = params["axis"]
        start = len(shape) - len(axes)
        if axes != tuple(range(start, len(shape))):
            raise ValueError(
                f"{self.name}: a fused {self._closing.op.name} takes the last axes, and axis {axes} of shape {shape} "
                "are others. Fuse what comes before it, and sum the result."
            )
        out, kept = (reduction.reduced_shape(shape, axes, keep) for keep in (params["keepdims"], True))
        return Rows(prod(shape[:start]), prod(shape[start:]), out, kept)

    def _divisor(self, rows: int, n: int) -> float:
        assert self._closing is not None
        return behind(rows * n, rows) if self._closing.op.name == "mean" else 1.0

    def _cost(self, *arrays: AnyArray) -> tuple[int, int]:
        """The FLOPs of all steps; each input read once, the output written once."""
        shape = joint_shape(*(x.shape for x in arrays))
        flops = sum(step.op.cost(*(x.sample for x in step.inputs))[0] for step in self.trace.steps)  # type: ignore[misc]
        outputs = prod(self._rows(shape).shape if self._closing is not None else shape)
        nbytes = sum(x.size for x in arrays) + outputs
        return (flops + (self._closing is not None)) * prod(shape), nbytes * arrays[0].dtype.itemsize

    def _cases(self) -> list[Case]:
        """Ragged shapes, and pairs that broadcast; as many of them as have the axes that are summed."""
        inputs = len(self.trace.inputs)
        shapes = [(s,) for s in RAGGED] if inputs == 1 else [(p, q, *[p] * (inputs - 2)) for p, q in PAIRS]
        positive = any(step.op.cases[0].positive for step in self.trace.steps)
        return [Case(given, positive=positive) for given in shapes if self._fits(joint_shape(*given))]

    def _fits(self, shape: Shape) -> bool:
        try:
            return self._closing is None or bool(self._rows(shape))
        except ValueError:
            return False


def _takes(function: Callable, names: Sequence[str]) -> None:
    """Let a function say by which names it takes its arguments."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
