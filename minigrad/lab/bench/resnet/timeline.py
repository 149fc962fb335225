"""A timeline of one training step on the GPU: microseconds by layer, op and way, next to their FLOPs and bytes.

The step runs eagerly while a kernel holds the GPU back, so that nothing waits for the host, with an event before every
call of an op. A layer without kernels of its own, as a reshape, takes no time and has no row.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from minigrad.devices.array import Array
from minigrad.lab.bench.measure import Measurement
from minigrad.lab.bench.timer import LONGEST, Call, Timing
from minigrad.nn import Module
from minigrad.op import Op
from minigrad.optim import Optimizer
from minigrad.tensor import Tensor

REPEATS = 5
# Ops that run at the rate of the mode.
PRODUCTS = ("attention", "conv2d", "conv2d_relu", "matmul", "matmul_transposed", "self_attention")


@dataclass
class Part:
    """One op of one layer, one way: its costs over all its calls in a step, and its kernels."""

    layer: str
    op: str
    way: str
    flops: int = 0
    nbytes: int = 0
    kernels: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """layer1.0.conv1, conv2d, backward"""
        return ", ".join(filter(None, (self.layer, self.op, self.way)))


class StepWatch:
    """Follows a step through layers, ops, their gradients and the update: `part` is the one that launches now."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self._names: dict[int, str] = {}  # of the modules of the network that is running, by id
        self._layer, self._inside, self.part = "", False, Part("", "other", "")

    def begin(self, layer: str, op: str, way: str) -> Part:
        """From here on launches belong to this part."""
        part = Part(layer, op, way)
        self.part = self.parts.setdefault(part.title, part)
        return self.part

    def module(self, plain: Callable) -> Callable:
        """Module.__call__, which notes the layer."""

        def call(module: Module, *inputs: Any, **named: Any) -> Any:
            outer, names = self._layer, self._names
            paths = ((id(below), path.split(".")[:-1]) for path, below in module.named_modules())
            self._names = names or {at: ".".join(part.strip("_") for part in parts) for at, parts in paths}
            self._layer = self._names.get(id(module), outer)
            try:
                return plain(module, *inputs, **named)
            finally:
                self._layer, self._names = outer, names

        return call

    def op(self, plain: Callable) -> Callable:
        """Op.__call__, which notes the op and its costs; ops that it calls itself are a part of it."""

        def call(op: Op, *args: Any, **named: Any) -> Any:
            if self._inside:
                return plain(op, *args, **named)
            part, self._inside = self.begin(self._layer, op.name, "forward"), True
            try:
                y = plain(op, *args, **named)
            finally:
                self._inside = False
            flops, nbytes = cost_of(op, args, named)
            part.flops, part.nbytes = part.flops + flops, part.nbytes + nbytes
            for each in y if isinstance(y, tuple) else (y,):
                if each.node is not None:
                    each.node.vjp = partial(self._pull, self._layer, op, flops, each.node.vjp)
            return y

        return call

    def _pull(self, layer: str, op: Op, flops: int, vjp: Callable, dy: Any) -> Any:
        """The rule of a node; a sum of two gradients behind it is a part of it."""
        part, grads = self.begin(layer, op.name, "backward"), vjp(dy)
        saved = vjp.args[0] if isinstance(vjp, partial) else ()
        given = dy if isinstance(dy, tuple) else (dy,)
        moved = [x for x in (*given, *saved, *grads) if isinstance(x, Array)]
        part.nbytes += sum({x.address: x.nbytes for x in moved}.values())  # each array once
        part.flops += flops * min(op.backward_flops, sum(grad is not None for grad in grads))
        return grads

    def update(self, plain: Callable) -> Callable:
        """Optimizer.step, which reads gradients and reads and writes parameters and states."""

        def step(optimizer: Optimizer) -> None:
            part = self.begin("", type(optimizer).__name__, "update")
            plain(optimizer)
            for i, p in enumerate(optimizer.parameters):
                part.nbytes += 3 * p.array.nbytes + 2 * sum(s.array.nbytes for s in optimizer._states_of(i, p))

        return step


def cost_of(op: Op, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[int, int]:
    """FLOPs and bytes of a call; none where they are not counted, or where an input is a number."""
    inputs, params = op.inputs.split(args, named)
    if not op.cost or not all(isinstance(x, Tensor) for x in inputs):
        return 0, 0
    return op.cost(*(x.array for x in inputs), **params)


class LaunchLog(deque):
    """In place of a context's log of launches: with an event before each group of launches, and the part it is of."""

    def __init__(self, old: Sequence[Any], mark: Callable[[], Any], watch: StepWatch):
        super().__init__(old, 4)
        self._mark, self._watch = mark, watch
        self.events: list[tuple[Any, Part]] = []

    def append(self, steps: Any) -> None:
        """The driver's calls that are queued next; none where an op only passes an array on."""
        super().append(steps)
        if not steps:
            return
        part, names = self._watch.part, (getattr(step, "name", "") for step in steps)
        part.kernels = tuple(dict.fromkeys([*part.kernels, *filter(None, names)]))
        self.events.append((self._mark(), part))


@contextmanager
def watched(gpu: Any) -> Iterator[LaunchLog]:
    """Within it the log grows with every launch on this GPU, from any thread."""
    watch = StepWatch()
    log = LaunchLog(gpu.context.launched, gpu.mark, watch)
    methods = ((Module, "__call__", watch.module), (Op, "__call__", watch.op), (Optimizer, "step", watch.update))
    plain = [getattr(owner, name) for owner, name, _ in methods]
    try:
        gpu.context.launched = log
        for (owner, name, replace), method in zip(methods, plain, strict=True):
            setattr(owner, name, replace(method))
        yield log
    finally:
        for (owner, name, _), method in zip(methods, plain, strict=True):
            setattr(owner, name, method)
        gpu.context.launched = deque(log, 4)


def timeline(step: Call, gpu: Any, clock: Any, unit: str) -> dict[str, Measurement]:
    """The parts of a step by title, in the order of their first launch; unit: the arithmetic of its products.

    The first call of the step, which compiles, is not timed. With the host's time where it took too long to queue.
    """
    step()
    runs: dict[str, list[float]] = {}
    host = False
    for _ in range(REPEATS):
        gpu.finish()
        clock.hold(LONGEST)
        with watched(gpu) as log:
            step()
            end = gpu.mark()
        host |= gpu.passed(log.events[0][0])
        total, parts = Counter[str](), {part.title: part for _, part in log.events}
        for (event, part), after in zip(log.events, [*(event for event, _ in log.events[1:]), end], strict=True):
            total[part.title] += gpu.between(event, after)
        for title, seconds in total.items():
            runs.setdefault(title, []).append(seconds)
    found = {}
    for title, part in parts.items():
        rate = unit if part.op in PRODUCTS else "float32"
        timing = Timing.of(runs[title], host)
        found[title] = Measurement(title, part.kernels, timing, part.flops, part.nbytes, rate)
    return found
