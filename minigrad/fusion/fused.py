"""Fused: a function of elementwise operations as one op, with one kernel forward and one backward."""

import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from minigrad import card
from minigrad.fusion import reference
from minigrad.fusion.formula import formula
from minigrad.fusion.launches import Launches
from minigrad.fusion.trace import Trace
from minigrad.fusion.traffic import Traffic
from minigrad.fusion.write import Written
from minigrad.listing import Listing
from minigrad.op import AnyArray, Case, Op
from minigrad.ops.elementwise import PAIRS, RAGGED, joint_shape, must_broadcast
from minigrad.view import Shape


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
