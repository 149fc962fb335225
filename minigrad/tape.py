"""The tape: a node for every operation that is recorded, and the backward pass over the nodes.

A node holds its parents and a rule `vjp` (vector-Jacobian product: the gradient of the output in, those of the inputs
out). The rule holds arrays, never nodes, so a graph has no reference cycles: memory is freed with the last reference.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Protocol, Union

Vjp = Callable[[Any], Sequence]
Parent = Union["Node", Any, None]  # a node, a leaf tensor, or None for an input that requires no gradient
Saved = tuple[str, "Version"]  # an array that a rule saves: its name in the rule, and its version


class Version:
    """Counts the writes to an array. Tensors that share memory (detach, reshape) share it."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Node:
    """One recorded operation: its parents, its rule, and the versions of the arrays that the rule saved."""

    __slots__ = ("__weakref__", "op", "output", "parents", "saved", "shape", "vjp")

    def __init__(self, op: str, parents: tuple[Parent, ...], vjp: Vjp, saved: Sequence[Saved], array: Any):
        self.op, self.parents = op, parents
        self.saved: Sequence = [(name, version, version.count) for name, version in saved] if saved else ()
        self.vjp: Any = vjp  # None once the graph was freed
        self.shape = array.shape
        self.output = weakref.ref(array)  # weak: only pictures read it, and the tape keeps no values alive

    def check(self) -> None:
        """Raise RuntimeError where the rule was freed, or an array that it saved has been changed."""
        if self.vjp is None:
            raise RuntimeError(
                f"backward: the tape behind {self.op} was freed by an earlier backward. "
                "Write backward(retain_graph=True) the first time, or run the forward pass again."
            )
        for name, version, count in self.saved:
            if version.count != count:
                raise RuntimeError(
                    f"backward: {self.op} kept {name} at version {count}, and it has been changed in place "
                    f"since (now version {version.count}). Change it after backward, or change a copy."
                )

    def free(self) -> None:
        """Release the rule and all that it saved."""
        self.vjp, self.saved = None, []


def outputs(node: Node, arrays: Sequence[Any]) -> list[Node]:
    """A node for each of several outputs: it passes its gradient to the node of the operation.

    The operation's rule then receives one tuple, with None for each output that no gradient reaches.
    """

    def rule(i: int) -> Vjp:
        return lambda dy: (tuple(dy if i == j else None for j in range(len(arrays))),)

    return [Node(f"{node.op}[{i}]", (node,), rule(i), (), array) for i, array in enumerate(arrays)]


class Recorder(Protocol):
    """The interface of `mg.graph`: a step that is being captured reports its effects besides kernel launches."""

    def reads_grad(self, leaf: Any) -> None:
        """The step reads `leaf.grad`."""

    def sets_grad(self, leaf: Any, grad: Any) -> None:
        """The step sets or clears `leaf.grad`."""

    def delivers_grad(self, leaf: Any, grad: Any) -> None:
        """The backward pass delivers a gradient to a leaf."""

    def writes(self, version: Version) -> None:
        """The step changes an array in place."""

    def steps(self, optimizer: Any) -> None:
        """An optimizer updates its parameters."""

    def repeats(self, action: Callable[[], Any], sets_rates: bool = False) -> None:
        """The step does this on the host, perhaps for learning rates: not now, but before each replay."""


class Tracer(Protocol):
    """The interface of `mg.fuse`: while a function is traced, its ops are recorded and not run."""

    def trace(self, op: Any, inputs: Sequence[Any], params: Mapping[str, Any]) -> Any:
        """Record one op of the function; returns the symbolic value of its output."""


class _Mode(threading.local):
    enabled = True  # operations are recorded
    recorder: Recorder | None = None
    tracer: Tracer | None = None


mode, _lock = _Mode(), threading.Lock()
FOLLOWERS: list[Callable[[], Callable]] = []  # each starts with a backward pass: called with its leaves, then None


class RequiresGrad:
    """The changes of any leaf's `requires_grad`, numbered, so that a captured step finds those of its own leaves."""

    changes = 0
    last: ClassVar[dict[int, int]] = {}  # the number of the last change, by the address of the leaf on its device

    @classmethod
    def note(cls, address: int) -> None:
        """A leaf at this address now requires a gradient, or no longer."""
        with _lock:
            cls.changes += 1
            cls.last[address] = cls.changes


def grad_enabled() -> bool:
    """True where this thread records operations."""
    return mode.enabled


@contextmanager
def _within(name: str, value: Any) -> Iterator[None]:
    before = getattr(mode, name)
    setattr(mode, name, value)
    try:
        yield
    finally:
        setattr(mode, name, before)


def no_grad() -> AbstractContextManager[None]:
    """Record nothing: `with no_grad(): w -= 0.1 * w.grad`. Also a function decorator."""
    return _within("enabled", False)


def recording(recorder: Recorder) -> AbstractContextManager[None]:
    """Report this thread's operations to a step that is being captured."""
    return _within("recorder", recorder)


def tracing(tracer: Tracer) -> AbstractContextManager[None]:
    """Hand this thread's operations to a function that is being fused."""
    return _within("tracer", tracer)


def topological_order(root: Parent) -> list[Any]:
    """Every node and leaf behind `root`, consumers first, a leaf right after its last one: the order of backward."""
    visited, postorder = set[int](), list[Any]()
    stack = [(root, False)]
    while stack:  # a loop, not recursion: a graph may be a hundred thousand nodes deep
        at, parents_done = stack.pop()
        if parents_done:
            postorder.append(at)
        elif at is not None and id(at) not in visited:
            visited.add(id(at))
            stack.append((at, True))
            if isinstance(at, Node):
                stack.extend([(parent, False) for parent in sorted(at.parents, key=lambda x: isinstance(x, Node))])
    return postorder[::-1]


def gradients(root: Parent, dy: Any, add: Callable[[Any, Any], Any]) -> Iterator[tuple[Any, Any]]:
    """The backward pass from `root`: yields each node or leaf with its complete gradient.

    The arrays that rules saved are checked before the first rule runs: if one has changed, no gradient is touched.
    """
    order = topological_order(root)
    for at in order:
        if isinstance(at, Node):
            at.check()
    arrived = {id(root): dy}
    for at in order:
        total = arrived.pop(id(at), None)
        if total is None:
            continue
        if isinstance(at, Node):
            for parent, part in zip(at.parents, at.vjp(total), strict=True):
                if parent is not None and part is not None:
                    known = arrived.get(id(parent))
                    arrived[id(parent)] = part if known is None else _sum(known, part, add)
        yield at, total


def _sum(known: Any, part: Any, add: Callable[[Any, Any], Any]) -> Any:
    """Two gradients added; tuples, of an operation with several outputs, output by output."""
    if isinstance(known, tuple):
        return tuple(b if a is None else a if b is None else add(a, b) for a, b in zip(known, part, strict=True))
    return add(known, part)
