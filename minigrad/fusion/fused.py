"""Traffic: what the kernels of a fused function read and write, beside those of its operations one by one."""

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
from minigrad.fusion.write import Written, formula
from minigrad.kernels.view import Shape
from minigrad.op import OPS, AnyArray, Case, Op
from minigrad.ops.elementwise import PAIRS, RAGGED, joint_shape, must_broadcast
from minigrad.source import Listing

MB = 1e6


class Moved(NamedTuple):
    """What one launch moves, in bytes: each array that it is given counts once."""

    kernel: str
    read: int
    written: int


@dataclass(frozen=True)
class Traffic:
    """The launches of a forward and a backward pass, op by op and fused."""

    op_by_op: tuple[Moved, ...]
    fused: tuple[Moved, ...]

    @staticmethod
    def of(op: "Fused", *shapes: Any, dtype: str = "float32") -> "Traffic":
        """Worked out by a dry run, for inputs of these shapes."""
        kind = check_dtype(dtype, FLOATS)
        if len(shapes) != len(op.trace.inputs):
            raise TypeError(
                f"{op.name}.traffic takes a shape for each of {len(op.trace.inputs)} inputs; got {len(shapes)}."
            )

        def launches(pullback: Callable[[Sequence[Array]], tuple]) -> tuple[Moved, ...]:
            device = DryRun()
            y, pull = pullback([Array.empty(device, extents((shape,)), kind) for shape in shapes])
            if op.backward:
                pull(Array.empty(device, y.shape, y.dtype))
            return tuple(map(_moved, device.launches))

        return Traffic(launches(lambda xs: pullback(op.trace, xs)), launches(lambda xs: op.pullback(xs, {})))

    @property
    def times(self) -> float:
        """How many times as many bytes move op by op; 1 where none move."""
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
        return f"{self.table()!r}\n{self._words()}"

    def _repr_html_(self) -> str:
        return f"{self.table()._repr_html_()}<p>{self._words()}</p>"

    def _words(self) -> str:
        one, other = (f"{nbytes(launches) / MB:.0f}" for launches in (self.op_by_op, self.fused))
        return f"{one} MB op by op, {other} MB fused: {self.times:.1f} times less."


def nbytes(launches: Sequence[Moved]) -> int:
    """All bytes that they move."""
    return sum(m.read + m.written for m in launches)


def _moved(launch: RecordedLaunch) -> Moved:
    """What a launch is given to read and to write."""
    const = {param.name: param.const for param in launch.source.signature(launch.kernel).params}

    def size(read: bool) -> int:
        return sum({x.address: x.nbytes for name, x in launch.arrays if const[name] == read}.values())

    return Moved(launch.kernel, size(True), size(False))


def _mb(count: int) -> str:
    return f"{count / MB:.1f}"


Pull = Callable[[Any], tuple]


def value(trace: Trace, arrays: Sequence[Any]) -> Any:
    """The output for these arrays, by the ops themselves."""
    return pullback(trace, arrays)[0]


def pullback(trace: Trace, arrays: Sequence[Any]) -> tuple[Any, Pull]:
    """The output, and what turns its gradient into those of the inputs; None for one that it does not reach."""
    made = dict(zip(map(id, trace.inputs), arrays, strict=True))
    steps = [*trace.steps, *([trace.closing] if trace.closing is not None else [])]
    pulls: list[Pull] = []
    for step in steps:
        inputs = [constant(x, arrays[0]) if isinstance(x, Constant) else made[id(x)] for x in step.inputs]
        wanted = tuple(isinstance(x, Value) and x.sample.dtype.kind == "f" for x in step.inputs)
        made[id(step)], pull = step.op.pullback(inputs, step.params, wanted)
        pulls.append(pull)

    def backward(dy: Any) -> tuple:
        arrived = {id(steps[-1] if steps else trace.output): dy}
        for step, pull in zip(reversed(steps), reversed(pulls), strict=True):
            if step.op.backward is None or (total := arrived.pop(id(step), None)) is None:
                continue
            for x, part in zip(step.inputs, pull(total), strict=True):
                if part is not None and isinstance(x, Value):
                    known = arrived.get(id(x))
                    arrived[id(x)] = part if known is None else OPS["add"].run([known, part], {})
        return tuple(arrived.get(id(x)) for x in trace.inputs)

    return made[id(steps[-1] if steps else trace.output)], backward


def constant(x: Constant, like: Any) -> Any:
    """A number of the function as an array beside this one."""
    host = x.sample.astype(like.dtype) if x.sample.dtype.kind == "f" else x.sample
    return Array.upload(like.device, host) if isinstance(like, Array) else host


class Fused(Op):
    """What `mg.fuse` makes: an op like any other. `fn` is the function, `source` the CUDA C++ written of it."""

    def __init__(self, fn: Callable, cases: Sequence[Case] = ()):
        name = getattr(fn, "__name__", "")
        name = name if name.isidentifier() and name.isascii() else "fused"
        self.fn, self.trace = fn, Trace(fn)
        self.written = Written(name, self.trace, formula(self.trace))
        self.launches = Launches(self.trace, self.written)
        forward, backward = self._reference()
        super().__init__(
            name,
            forward,
            backward if self.written.wanted else None,
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
        """The CUDA C++ of both kernels, as it was written."""
        return Listing(self.launches.source.name, 1, self.written.text.rstrip())

    def traffic(self, *shapes: Any, dtype: str = "float32") -> Traffic:
        """The bytes of a forward and a backward pass for inputs of these shapes, fused and op by op."""
        return Traffic.of(self, *shapes, dtype=dtype)

    def __repr__(self) -> str:
        return f"{display.text(self)}\n\n{self.source!r}"

    def _repr_html_(self) -> str:
        return display.html(self) + self.source._repr_html_()

    # --- the truth: the ops themselves, one after the other ---

    def _reference(self) -> tuple[Callable, Callable]:
        """The NumPy forward and gradient, which name what they take as those of a room do."""
        inputs, reread = ([x.name for x in xs] for xs in (self.trace.inputs, self.written.reread))

        def forward(*xs: np.ndarray) -> np.ndarray:
            return value(self.trace, xs)

        def backward(dy: np.ndarray, shapes: tuple, **kept: np.ndarray) -> tuple:
            one = np.ones((), dy.dtype)  # stands for an input that no gradient reads
            xs = [kept.get(name, np.broadcast_to(one, s)) for name, s in zip(inputs, shapes, strict=True)]
            return pullback(self.trace, xs)[1](dy)

        forward.__doc__, backward.__doc__ = self.written.formula, self.written.gradient
        _takes(forward, inputs)
        _takes(backward, ["dy", *reread, "shapes"])
        return forward, backward

    # --- shapes and counts ---

    def _prepare(self, *arrays: AnyArray) -> dict:
        """Check the shapes."""
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
        """Ragged shapes, and pairs that broadcast; as many of them as have the axes that are summed."""
        inputs = len(self.trace.inputs)
        shapes = [(s,) for s in RAGGED] if inputs == 1 else [(p, q, *[p] * (inputs - 2)) for p, q in PAIRS]
        positive = any(step.op.cases[0].positive for step in self.trace.steps)
        return [Case(given, positive=positive) for given in shapes if self._fits(joint_shape(*given))]

    def _fits(self, shape: Shape) -> bool:
        if (closing := self.trace.closing) is None:
            return True
        try:
            n = self.launches.rows(shape).n
        except ValueError:
            return False
        return n > 0 or closing.op.name == "sum"  # the mean of nothing is NaN


def _takes(function: Callable, names: Sequence[str]) -> None:
    """Let a function say by which names it takes its arguments."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    function.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
