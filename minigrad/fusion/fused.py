"""The fused op: its reference, the ops one by one; its launches; and the memory traffic that fusion saves."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad import display
from minigrad.create import extents
from minigrad.devices.array import Array
from minigrad.devices.device import MAX_GRID
from minigrad.devices.dry_run import DryRun, RecordedLaunch
from minigrad.devices.dtypes import FLOATS, check_dtype, wide
from minigrad.display import Table, table
from minigrad.fusion.trace import Constant, Trace, Value
from minigrad.fusion.write import FusedSource, formula
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.view import Shape, broadcast
from minigrad.op import OPS, AnyArray, Case, Op
from minigrad.ops import elementwise, reduction
from minigrad.ops.astype import cast
from minigrad.ops.elementwise import FOURS, PAIRS, RAGGED, joint_shape, launch_over, must_broadcast
from minigrad.ops.mean import terms
from minigrad.ops.sum import repeat
from minigrad.source import CUDA, Listing, Source

MB = 1e6


class LaunchTraffic(NamedTuple):
    """The bytes that one launch reads and writes: each of its arrays counts once."""

    kernel: str
    read: int
    written: int


@dataclass(frozen=True)
class Traffic:
    """The launches of a forward and a backward pass, op by op and fused."""

    op_by_op: tuple[LaunchTraffic, ...]
    fused: tuple[LaunchTraffic, ...]

    @property
    def times(self) -> float:
        """Bytes op by op / bytes fused; 1 if none move."""
        return nbytes(self.op_by_op) / nbytes(self.fused) if nbytes(self.fused) else 1.0

    def table(self) -> Table:
        """One row for each launch, and the sums, in megabytes."""
        rows = []
        for way, launches in (("op by op", self.op_by_op), ("fused", self.fused)):
            total = (f"all {len(launches)} launches", sum(m.read for m in launches), sum(m.written for m in launches))
            rows += [
                (way, name, f"{read / MB:.1f}", f"{written / MB:.1f}") for name, read, written in (*launches, total)
            ]
        return table(rows, ("", "kernel", "MB read", "MB written"))

    def __repr__(self) -> str:
        return f"{self.table()!r}\n{self._summary()}"

    def _repr_html_(self) -> str:
        return f"{self.table()._repr_html_()}<p>{self._summary()}</p>"

    def _summary(self) -> str:
        one, other = (f"{nbytes(launches) / MB:.0f}" for launches in (self.op_by_op, self.fused))
        return f"{one} MB op by op, {other} MB fused: {1 / self.times:.1%} of them."


def nbytes(launches: Sequence[LaunchTraffic]) -> int:
    return sum(m.read + m.written for m in launches)


def _traffic(launch: RecordedLaunch) -> LaunchTraffic:
    const = {param.name: param.const for param in launch.source.signature(launch.kernel).params}

    def size(read: bool) -> int:
        return sum({x.address: x.nbytes for name, x in launch.arrays if const[name] == read}.values())

    return LaunchTraffic(launch.kernel, size(True), size(False))


Pull = Callable[[Any], tuple]


def pullback(trace: Trace, arrays: Sequence[Any]) -> tuple[Any, Pull]:
    """The output by the ops themselves, and a function from its gradient to those of the inputs (None: not reached)."""
    values = dict(zip(map(id, trace.inputs), arrays, strict=True))
    steps = trace.steps if trace.closing is None else [*trace.steps, trace.closing]
    pulls: list[Pull] = []
    for step in steps:
        inputs = [constant(x, arrays[0]) if isinstance(x, Constant) else values[id(x)] for x in step.inputs]
        wanted = tuple(isinstance(x, Value) and x.sample.dtype.kind == "f" for x in step.inputs)
        values[id(step)], pull = step.op.pullback(inputs, step.params, wanted)
        pulls.append(pull)

    def backward(dy: Any) -> tuple:
        gradients = {id(trace.result): dy}
        for step, pull in zip(reversed(steps), reversed(pulls), strict=True):
            if step.op.backward is None or (total := gradients.pop(id(step), None)) is None:
                continue
            for x, part in zip(step.inputs, pull(total), strict=True):
                if part is not None and isinstance(x, Value):
                    known = gradients.get(id(x))
                    gradients[id(x)] = part if known is None else OPS["add"].run([known, part], {})
        return tuple(gradients.get(id(x)) for x in trace.inputs)

    return values[id(trace.result)], backward


def constant(x: Constant, like: Any) -> Any:
    """A number of the function as an array on the device of `like`."""
    host = x.sample.astype(like.dtype) if x.sample.dtype.kind == "f" else x.sample
    return Array.upload(like.device, host) if isinstance(like, Array) else host


class Rows(NamedTuple):
    """The view of a shape by a closing sum: (rows, n), the shape of the sums, and their divisor."""

    rows: int
    n: int
    shape: Shape
    divisor: float  # n for a mean, else 1


BLOCKS = (256, 32, 64, 128)  # 256 threads fit on every GPU, however many registers a long chain takes


class Fused(Op):
    """The op that `mg.fuse` returns. `fn` is the function, `source` the CUDA C++ generated from it."""

    def __init__(self, fn: Callable, cases: Sequence[Case] = ()):
        name = getattr(fn, "__name__", "")
        name = name if name.isidentifier() and name.isascii() else "fused"
        self.fn, self.trace = fn, Trace(fn)
        self.code = FusedSource(name, self.trace, formula(self.trace))
        self.name, self._file = name, Source(self.code.text, f"{name}.cu", CUDA)
        forward, backward = self._reference()
        super().__init__(
            name,
            forward,
            backward if self.code.wanted else None,
            kernels=self._kernels(),
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
        """The CUDA C++ of both kernels."""
        return Listing(self._file.name, 1, self.code.text.rstrip())

    def traffic(self, *shapes: Any, dtype: str = "float32") -> Traffic:
        """The bytes of a forward and a backward pass for inputs of these shapes, fused and op by op, by a dry run."""
        kind, inputs = check_dtype(dtype, FLOATS), len(self.trace.inputs)
        if len(shapes) != inputs:
            raise TypeError(f"{self.name}.traffic takes a shape for each of {inputs} inputs; got {len(shapes)}.")

        def launches(pullback: Callable[[Sequence[Array]], tuple]) -> tuple[LaunchTraffic, ...]:
            device = DryRun()
            y, pull = pullback([Array.empty(device, extents((shape,)), kind) for shape in shapes])
            if self.backward:
                pull(Array.empty(device, y.shape, y.dtype))
            return tuple(map(_traffic, device.launches))

        return Traffic(launches(lambda xs: pullback(self.trace, xs)), launches(lambda xs: self.pullback(xs, {})))

    def __repr__(self) -> str:
        return f"{display.card_text(self)}\n\n{self.source!r}"

    def _repr_html_(self) -> str:
        return display.card_html(self) + self.source._repr_html_()

    # --- the reference: the ops themselves, one after the other ---

    def _reference(self) -> tuple[Callable, Callable]:
        """The NumPy forward and gradient; their signatures name the arrays that they take, as those of other ops do."""
        inputs, reread = ([x.name for x in xs] for xs in (self.trace.inputs, self.code.reread))

        def forward(*xs: np.ndarray) -> np.ndarray:
            return pullback(self.trace, xs)[0]

        def backward(dy: np.ndarray, shapes: tuple, **saved: np.ndarray) -> tuple:
            one = np.ones((), dy.dtype)  # a placeholder for inputs that no gradient reads
            xs = [saved.get(name, np.broadcast_to(one, s)) for name, s in zip(inputs, shapes, strict=True)]
            return pullback(self.trace, xs)[1](dy)

        forward.__doc__, backward.__doc__ = self.code.formula, self.code.gradient
        for function, names in ((forward, inputs), (backward, ["dy", *reread, "shapes"])):
            arguments = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
            vars(function)["__signature__"] = inspect.Signature(arguments)
        return forward, backward

    # --- launches: kernels, the chunks that they own, and the kernel of sum that adds up the sums of chunks ---

    def _kernels(self) -> dict[str, Kernel]:
        """A thread owns four elements or, with a closing sum, a block owns a chunk of a row."""
        names = {way: f"{self.name}_{way}" for way in ("forward", "backward")[: 1 + bool(self.code.wanted)]}
        kernel = partial(Kernel, self._file, block=("BLOCK",), BLOCK=BLOCKS)
        if self.trace.closing is None:
            return {way: kernel(name, grid=(f"n/{FOURS}",), sizes="n") for way, name in names.items()}
        chunks = partial(kernel, grid=("outputs", "n/CHUNK"), sizes="outputs n", CHUNK=reduction.CHUNKS)
        return {way: chunks(name) for way, name in names.items()}

    def _launch(self, kernels: dict[str, Kernel], *xs: Array) -> Array:
        """One kernel; after it the kernel of sum, if a row has several chunks or its sum is divided by n."""
        if self.trace.closing is None:
            return elementwise.launch(kernels, *xs)
        shape = joint_shape(*(x.shape for x in xs))
        rows, n, out, divisor = self._rows(shape)
        chunk = _chunk(kernels["forward"], n)
        y = Array.empty(xs[0].device, (rows, max(ceil_div(n, chunk), 1)), wide(xs[0].dtype))
        kernels["forward"].launch(rows, max(n, 1), CHUNK=chunk)(*xs, y, *self._views(xs, shape), n, chunk)
        if y.shape[1] > 1 or divisor != 1:
            y = reduction.reduce(OPS["sum"].running, y, (1,), False, divisor)
        return cast(y, xs[0].dtype).reshape(out)

    def _launch_backward(self, kernels: dict[str, Kernel], needs: tuple, dy: Array, *saved: Any) -> tuple:
        """One kernel writes the gradients, in the shape that the inputs broadcast to."""
        *xs, shapes = saved
        shape, kernel = joint_shape(*shapes), kernels["backward"]
        needed = dict(zip((x.name for x in self.trace.inputs), needs, strict=True))
        grads = {x.name: Array.empty(dy.device, shape, dy.dtype) for x in self.code.wanted if needed[x.name]}
        if grads and prod(shape):
            if self.trace.closing is None:
                extents = [prod(shape)]
                launch = launch_over(kernel, prod(shape), dy.dtype)
            else:
                rows, n, _, divisor = self._rows(shape)
                extents = [n, _chunk(kernel, n)]
                launch = kernel.launch(rows, n, CHUNK=extents[1])
                dy = dy if divisor == 1 else repeat(OPS["sum"].running, dy, dy.shape, (), divisor)
            outputs = [grads.get(x.name) for x in self.code.wanted]
            launch(dy, *xs, *outputs, *self._views(xs, shape), *extents)
        return tuple(map(grads.get, needed))

    def _views(self, xs: Sequence[Array], shape: Shape) -> list[Any]:
        """The views of the inputs; a single input has the shape of the output and needs none."""
        return [broadcast(x.shape, shape) for x in xs] if len(self.trace.inputs) > 1 else []

    def _rows(self, shape: Shape) -> Rows:
        """The rows of the closing sum. Raises ValueError if its axes are not the last ones."""
        closing: Any = self.trace.closing
        params = closing.op.prepare(np.broadcast_to(0.0, shape), **closing.params)
        axes, start = params["axis"], len(shape) - len(params["axis"])
        if axes != tuple(range(start, len(shape))):
            raise ValueError(
                f"{self.name}: a fused {closing.op.name} takes the last axes, and axis {axes} of shape {shape} "
                "are others. Fuse the operations before it, and sum the result."
            )
        rows, n = prod(shape[:start]), prod(shape[start:])
        divisor = terms(rows * n, rows) if closing.op.name == "mean" else 1.0
        return Rows(rows, n, reduction.reduced_shape(shape, axes, params["keepdims"]), divisor)

    # --- shapes and counts ---

    def _prepare(self, *arrays: AnyArray) -> dict:
        must_broadcast(self.name, *arrays)
        if self.trace.closing is not None:
            self._rows(joint_shape(*(x.shape for x in arrays)))
        return {}

    def _cost(self, *arrays: AnyArray) -> tuple[int, int]:
        """The FLOPs of all steps; each input read once, the output written once."""
        shape = joint_shape(*(x.shape for x in arrays))
        flops = sum(step.op.cost(*(x.sample for x in step.inputs))[0] for step in self.trace.steps)  # type: ignore[misc]
        outputs = prod(self._rows(shape).shape if self.trace.closing is not None else shape)
        nbytes = sum(x.size for x in arrays) + outputs
        return (flops + (self.trace.closing is not None)) * prod(shape), nbytes * arrays[0].dtype.itemsize

    def _cases(self) -> list[Case]:
        """Ragged shapes, and pairs that broadcast: those that have the axes of the closing sum."""
        inputs = len(self.trace.inputs)
        shapes = [(s,) for s in RAGGED] if inputs == 1 else [(p, q, *[p] * (inputs - 2)) for p, q in PAIRS]
        positive = any(step.op.cases[0].positive for step in self.trace.steps)
        return [Case(each, positive=positive) for each in shapes if self._fits(joint_shape(*each))]

    def _fits(self, shape: Shape) -> bool:
        closing = self.trace.closing
        try:
            return closing is None or self._rows(shape).n > 0 or closing.op.name == "sum"  # the mean of nothing is NaN
        except ValueError:
            return False


def _chunk(kernel: Kernel, n: int) -> int:
    """The elements of a chunk: a multiple of four, and enough for a grid to hold all chunks of n."""
    return ceil_div(max(kernel.values["CHUNK"], ceil_div(n, MAX_GRID[1])), 4) * 4
