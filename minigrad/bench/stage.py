"""A work set up on a device: inputs that no cache holds, the calls to time, and the check of what they return."""

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from itertools import cycle
from math import prod
from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.bench.agree import Reference
from minigrad.bench.work import Work
from minigrad.check import ValueMismatch
from minigrad.convert import dtype_of
from minigrad.op import Op

RANDOM = 2**26  # numbers that are drawn; a larger array repeats them
ALIGN = 64  # elements: windows begin where 16-byte loads may
WINDOWS = 50  # sets of inputs to rotate through
TOLERANCE = {"float32": 1e-4, "tf32": 2e-3, "bfloat16": 1e-2}  # of the largest element: 24, 11 and 8 bits


class Pool:
    """Random numbers on the device and on the host; inputs are windows of them, so that sets are many and cheap."""

    def __init__(self, device: Any, elements: int, positive: bool, dtype: np.dtype):
        self.numbers = numbers(min(1 << elements.bit_length(), RANDOM), positive).astype(dtype, copy=False)
        self.array = Array.empty(device, (elements,), dtype)
        for start in range(0, elements, len(self.numbers)):
            device.upload(self.array.address + dtype.itemsize * start, self.numbers[: elements - start])

    def window(self, start: int, shape: tuple[int, ...]) -> Array:
        """An array within the pool."""
        whole = self.array
        return Array(whole.device, shape, whole.dtype, whole.buffer, whole.address + whole.dtype.itemsize * start)

    def host(self, start: int, shape: tuple[int, ...]) -> np.ndarray:
        """The same numbers on the host."""
        first, count = start % len(self.numbers), prod(shape)
        stop = first + count
        tiled = self.numbers if stop <= len(self.numbers) else np.resize(self.numbers, stop)
        return tiled[first:stop].reshape(shape)


@cache
def numbers(count: int, positive: bool) -> np.ndarray:
    """Standard normal numbers, or as a case makes them positive. Never zeros: they hide faults, and can run faster."""
    drawn = np.random.default_rng(0).standard_normal(count, np.float32)
    return np.abs(drawn) + np.float32(0.5) if positive else drawn


class Stage:
    """One work on one device, ready to be checked and called."""

    def __init__(self, work: Work, device: Any, cache: int = 0):
        self.work, self.device = work, device
        self.dry = work.dry()
        shapes = work.shapes()
        kind = dtype_of(work.dtype)
        dy = [(self.dry.output, kind)] if work.way == "backward" else []
        self._places, self._set = _places([*shapes, *dy])
        self.windows = min(WINDOWS, max(1, -(-2 * cache // max(1, kind.itemsize * self._set))))
        self.pool = Pool(device, self.windows * self._set, work.case.positive, kind)
        self._given = [x if isinstance(x, np.ndarray) and x.dtype.kind != "f" else None for x in work.case.inputs]
        self._own = [None if x is None else Array.upload(device, x) for x in self._given]
        self.inputs = [self._arrays(i) for i in range(self.windows)]

    def _arrays(self, window: int) -> list[Array]:
        """A set of inputs, and the upstream gradient behind them where the work goes backward."""
        places = [(window * self._set + start, shape) for start, shape in self._places]
        own = [*self._own, *[None] * (len(places) - len(self._own))]
        return [own_ or self.pool.window(*place) for own_, place in zip(own, places, strict=True)]

    def hosts(self) -> list[np.ndarray]:
        """The first set of inputs as NumPy arrays."""
        given = [*self._given, *[None] * (len(self._places) - len(self._given))]
        return [self.pool.host(*place) if x is None else x for x, place in zip(given, self._places, strict=True)]

    def reference_call(self) -> Callable[[], list[np.ndarray]]:
        """NumPy's version, on the first set of inputs."""
        return results(self.work, self.work.op, self.hosts())

    @cached_property
    def wanted(self) -> list[Reference]:
        """What NumPy says for the first set of inputs."""
        return [Reference(self.device, y) for y in self.reference_call()()]

    def calls(self, op: Op | None = None) -> Callable[[], Sequence[Any]]:
        """A function that runs the op on the next set of inputs each time."""
        chosen = op or self.work.chosen
        each = cycle([results(self.work, chosen, arrays) for arrays in self.inputs])
        return lambda: next(each)()

    def check(self, got: Sequence[Array], who: str) -> None:
        """Raise ValueMismatch where a result for the first set is wrong: that is not timed. NaN is wrong."""
        for array, reference in zip(got, self.wanted, strict=True):
            allowed = TOLERANCE[self.work.unit]
            if not (error := reference.error(array)) <= allowed:
                raise ValueMismatch(
                    f"{self.work.title} by {who} is off by {error:.2g} of the largest element; a benchmark allows "
                    f"{allowed:g}. It is not timed: run mg.check.op(mg.{self.work.op.name}, device='cuda')."
                )


def results(work: Work, op: Op, arrays: Sequence[Any]) -> Callable[[], list[Any]]:
    """The call that makes the results: the output, or the gradients; what comes before a backward pass is done here."""
    inputs = list(arrays[: len(work.case.inputs)])
    if work.way == "forward":
        params = op.prepare(*inputs, **work.case.params) if op.prepare else work.case.params
        return lambda: [op.run(inputs, params)]
    _, pull = op.pullback(inputs, work.case.params)
    dy = arrays[-1]
    return lambda: [grad for grad in pull(dy) if grad is not None]


def _places(shapes: Sequence[tuple[tuple[int, ...], np.dtype]]) -> tuple[list[tuple[int, tuple[int, ...]]], int]:
    """Where each array of a set begins, in elements, and the length of a set."""
    places, at = [], 0
    for shape, _ in shapes:
        places.append((at, shape))
        at += -(-prod(shape) // ALIGN) * ALIGN
    return places, at
