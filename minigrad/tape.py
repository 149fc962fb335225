"""The tape: which operation made which array, and the walk back along it.

A node keeps its parents and a rule `vjp` (vector-Jacobian product: the gradient of the output in, those of the inputs
out). The rule holds arrays, never nodes, so a graph has no reference cycles: memory is free when the last name goes.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Union

from minigrad.devices.caches import Alive

if TYPE_CHECKING:
    from minigrad.fusion.trace import Trace
    from minigrad.replay.effects import Effects
    from minigrad.tensor import Tensor

Vjp = Callable[[Any], Sequence]
Parent = Union["Node", "Tensor", None]
Saved = tuple[str, "Version"]  # an array that a rule keeps, by its name in the rule


class Version:
    """Counts the writes to an array. Tensors that share memory (detach, reshape) share it."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Node:
    """One recorded operation: its parents, its rule, and what the rule kept."""

    __slots__ = ("__weakref__", "op", "output", "parents", "saved", "shape", "vjp")

    def __init__(self, op: str, parents: tuple[Parent, ...], vjp: Vjp, saved: Sequence[Saved], array: Any):
        self.op, self.parents = op, parents
        self.saved: Sequence = [(name, version, version.count) for name, version in saved] if saved else ()
        self.vjp: Vjp | None = vjp
        self.shape = array.shape
        self.output = weakref.ref(array)  # for pictures only: the tape does not keep values alive

    def check(self) -> None:
        """Raise RuntimeError where the rule is gone, or an array that it kept was changed."""
        if self.vjp is None:
            raise RuntimeError(
                f"backward: the graph behind {self.op} was freed by an earlier backward. "
                "Write backward(retain_graph=True) the first time, or run the forward pass again."
            )
        for name, version, count in self.saved:
            if version.count != count:
                raise RuntimeError(
                    f"backward: {self.op} kept {name} at version {count}, and it has been changed in place "
                    f"since (now version {version.count}). Change it after backward, or change a copy."
                )

    def pull(self, dy: Any) -> Sequence:
        """The gradients of the parents, by the rule."""
        return self.vjp(dy)  # type: ignore[misc]

    def free(self) -> None:
        """Let go of what the rule kept."""
        self.vjp, self.saved = None, []


class _Mode(threading.local):
    enabled = True
    effects: "Effects | None" = None
    trace: "Trace | None" = None


mode = _Mode()


captures: Alive["Effects"] = Alive()  # the graphs that there are


def turn(leaf: "Tensor", wanted: bool) -> None:
    """Let a leaf require a gradient or none, and tell every graph where that is new."""
    if wanted != leaf._requires_grad:
        leaf._requires_grad = wanted
        for effects in captures.all():
            effects.turns(leaf)


def grad_enabled() -> bool:
    """Whether operations are being recorded on this thread."""
    return mode.enabled


def effects() -> "Effects | None":
    """Where a step that is being captured on this thread notes what it does."""
    return mode.effects


@contextmanager
def noted(effects: "Effects") -> Iterator[None]:
    """Within it, this thread's operations are those of a step that is being captured."""
    mode.effects = effects
    try:
        yield
    finally:
        mode.effects = None


def trace() -> "Trace | None":
    """Where the operations of a function that is being fused on this thread are noted, instead of being run."""
    return mode.trace


@contextmanager
def traced(trace: "Trace") -> Iterator[None]:
    """Within it, this thread's operations are those of a function that is being fused."""
    before, mode.trace = mode.trace, trace
    try:
        yield
    finally:
        mode.trace = before


@contextmanager
def no_grad() -> Iterator[None]:
    """Within it nothing is recorded: `with no_grad(): w -= 0.1 * w.grad`. Also a function decorator."""
    before, mode.enabled = mode.enabled, False
    try:
        yield
    finally:
        mode.enabled = before


def order(root: Parent) -> list[Any]:
    """Every node and leaf below `root`, each after all of those that it feeds: the order of the backward pass."""
    done: set[int] = set()
    post: list[Any] = []
    stack = [(root, False)]
    while stack:  # a loop, not recursion: a graph may be a hundred thousand nodes deep
        at, ready = stack.pop()
        if ready:
            post.append(at)
        elif at is not None and id(at) not in done:
            done.add(id(at))
            stack.append((at, True))
            if isinstance(at, Node):
                stack.extend([(parent, False) for parent in at.parents])
    return post[::-1]


def ready(root: Parent) -> list[Any]:
    """As `order`, with every rule checked before the first one runs: a backward that is refused has changed nothing."""
    walk = order(root)
    for at in walk:
        if isinstance(at, Node):
            at.check()
    return walk


def gradients(root: Parent, dy: Any, add: Callable[[Any, Any], Any]) -> Iterator[tuple[Any, Any]]:
    """Walk back from `root`: yields each node or leaf with the gradient that has reached it, complete."""
    arrived = {id(root): dy}
    for at in ready(root):
        total = arrived.pop(id(at), None)
        if total is None:
            continue
        if isinstance(at, Node):
            for parent, part in zip(at.parents, at.pull(total), strict=True):
                if parent is not None and part is not None:
                    known = arrived.get(id(parent))
                    if isinstance(part, dict):  # of an operation with several outputs, by output
                        arrived[id(parent)] = {**(known or {}), **part}
                    else:
                        arrived[id(parent)] = part if known is None else add(known, part)
        yield at, total
