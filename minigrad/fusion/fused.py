"""The fused op: its reference, the ops one by one; its launches; and the memory traffic that fusion saves."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from minigrad import display
from minigrad.create import extents
from minigrad.devices.array import Array
from minigrad.devices.dry_run import DryRun, RecordedLaunch
from minigrad.devices.dtypes import FLOATS, check_dtype
from minigrad.display import Table, table
from minigrad.fusion.launches import Launches
from minigrad.fusion.trace import Constant, Trace, Value
from minigrad.fusion.write import FusedSource, formula
from minigrad.kernels.view import Shape
from minigrad.op import OPS, AnyArray, Case, Op
from minigrad.ops.elementwise import PAIRS, RAGGED, joint_shape, must_broadcast
from minigrad.source import Listing

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
            rows += [(way, m.kernel, _mb(m.read), _mb(m.written)) for m in launches]
            total = f"all {len(launches)} launches"
            rows += [(way, total, _mb(sum(m.read for m in launches)), _mb(sum(m.written for m in launches)))]
        return table(rows, ("", "kernel", "MB read", "MB written"))

    def __repr__(self) -> str:
        return f"{self.table()!r}\n{self._summary()}"

    def _repr_html_(self) -> str:
        return f"{self.table()._repr_html_()}<p>{self._summary()}</p>"

    def _summary(self) -> str:
        one, other = (f"{nbytes(launches) / MB:.0f}" for launches in (self.op_by_op, self.fused))
        return f"{one} MB op by op, {other} MB fused: {self.times:.1f} times less."


def nbytes(launches: Sequence[LaunchTraffic]) -> int:
    """The bytes that these launches read and write."""
    return sum(m.read + m.written for m in launches)


def _traffic(launch: RecordedLaunch) -> LaunchTraffic:
    const = {param.name: param.const for param in launch.source.signature(launch.kernel).params}

    def size(read: bool) -> int:
        return sum({x.address: x.nbytes for name, x in launch.arrays if const[name] == read}.values())

    return LaunchTraffic(launch.kernel, size(True), size(False))


def _mb(count: int) -> str:
    return f"{count / MB:.1f}"


Pull = Callable[[Any], tuple]


def pullback(trace: Trace, arrays: Sequence[Any]) -> tuple[Any, Pull]:
    """The output by the ops themselves, and a function from its gradient to those of the inputs (None: not reached)."""
    values = dict(zip(map(id, trace.inputs), arrays, strict=True))
    steps = [*trace.steps, *([trace.closing] if trace.closing is not None else [])]
    pulls: list[Pull] = []
    for step in steps:
        inputs = [constant(x, arrays[0]) if isinstance(x, Constant) else values[id(x)] for x in step.inputs]
        wanted = tuple(isinstance(x, Value) and x.sample.dtype.kind == "f" for x in step.inputs)
        values[id(step)], pull = step.op.pullback(inputs, step.params, wanted)
        pulls.append(pull)

    def backward(dy: Any) -> tuple:
        gradients = {id(steps[-1] if steps else trace.output): dy}
        for step, pull in zip(reversed(steps), reversed(pulls), strict=True):
            if step.op.backward is None or (total := gradients.pop(id(step), None)) is None:
                continue
            for x, part in zip(step.inputs, pull(total), strict=True):
                if part is not None and isinstance(x, Value):
                    known = gradients.get(id(x))
                    gradients[id(x)] = part if known is None else OPS["add"].run([known, part], {})
        return tuple(gradients.get(id(x)) for x in trace.inputs)

    return values[id(steps[-1] if steps else trace.output)], backward


def constant(x: Constant, like: Any) -> Any:
    """A number of the function as an array on the device of `like`."""
    host = x.sample.astype(like.dtype) if x.sample.dtype.kind == "f" else x.sample
    return Array.upload(like.device, host) if isinstance(like, Array) else host


class Fused(Op):
    """The op that `mg.fuse` returns. `fn` is the function, `source` the CUDA C++ generated from it."""

    def __init__(self, fn: Callable, cases: Sequence[Case] = ()):
        name = getattr(fn, "__name__", "")
        name = name if name.isidentifier() and name.isascii() else "fused"
        self.fn, self.trace = fn, Trace(fn)
        self.code = FusedSource(name, self.trace, formula(self.trace))
        self.launches = Launches(self.trace, self.code)
        forward, backward = self._reference()
        super().__init__(
            name,
            forward,
            backward if self.code.wanted else None,
            kernels=self.launches.kernels(),
            launch=self.launches.forward,
            launch_backward=self.launches.backward,
            prepare=self._prepare,
            cost=self._cost,
            broadcasts=True,
            listed=False,
        )
        self.cases = tuple(cases or self._cases())

    @property
    def source(self) -> Listing:
        """The CUDA C++ of both kernels."""
        return Listing(self.launches.source.name, 1, self.code.text.rstrip())

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
        _name_arguments(forward, inputs)
        _name_arguments(backward, ["dy", *reread, "shapes"])
        return forward, backward

    # --- shapes and counts ---

    def _prepare(self, *arrays: AnyArray) -> dict:
        must_broadcast(self.name, *arrays)
        if self.trace.closing is not None:
            self.launches.rows(joint_shape(*(x.shape for x in arrays)))
        return {}

    def _cost(self, *arrays: AnyArray) -> tuple[int, int]:
        """The FLOPs of all steps; each input read once, the output written once."""
        shape = joint_shape(*(x.shape for x in arrays))
        flops = sum(step.op.cost(*(x.sample for x in step.inputs))[0] for step in self.trace.steps)  # type: ignore[misc]
        outputs = prod(self.launches.rows(shape).shape if self.trace.closing is not None else shape)
        nbytes = sum(x.size for x in arrays) + outputs
        return (flops + (self.trace.closing is not None)) * prod(shape), nbytes * arrays[0].dtype.itemsize

    def _cases(self) -> list[Case]:
        """Ragged shapes, and pairs that broadcast: those that have the axes of the closing sum."""
        inputs = len(self.trace.inputs)
        shapes = [(s,) for s in RAGGED] if inputs == 1 else [(p, q, *[p] * (inputs - 2)) for p, q in PAIRS]
        positive = any(step.op.cases[0].positive for step in self.trace.steps)
        return [Case(each, positive=positive) for each in shapes if self._fits(joint_shape(*each))]

    def _fits(self, shape: Shape) -> bool:
        if (closing := self.trace.closing) is None:
            return True
        try:
            n = self.launches.rows(shape).n
        except ValueError:
            return False
        return n > 0 or closing.op.name == "sum"  # the mean of nothing is NaN


def _name_arguments(function: Callable, names: Sequence[str]) -> None:
    """Set the names of the arguments of a variadic function."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
