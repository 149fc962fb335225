"""Effects: what a captured step does beside launching, so that every replay can do it too."""

from collections.abc import Iterable
from typing import Any

from minigrad.devices.array import Array
from minigrad.tape import Version, captures
from minigrad.tensor import Tensor

ADDS = (
    "mg.graph: the step adds to a gradient that was there before it, and a replay cannot. "
    "Call optimizer.zero_grad() in the step, before backward."
)


class Effects:
    """Filled by tensors and optimizers while the step is captured; `repeat` does the same again."""

    def __init__(self) -> None:
        self.written: list[Version] = []
        # By id: a leaf whose gradient was set or forgotten, its array, and the gradient that it ends with.
        self._grads: dict[int, tuple[Tensor, Any, Tensor | None]] = {}
        self._cleared: set[int] = set()  # leaves, by id, whose gradient was forgotten before
        self._older: list[tuple[Tensor, Tensor | None]] = []  # leaves, with a gradient from before that was read
        self._settings: list[tuple[Any, tuple]] = []  # optimizers, with the numbers that they used
        self._memory: set[int] = set()  # the addresses of what the launches work on
        self.turned = False  # whether a leaf over it has been frozen or thawed since

    def sets(self, leaf: Tensor, grad: Tensor | None) -> None:
        """The gradient of a leaf is forgotten, or another put in its place."""
        if id(leaf) not in self._grads:
            self._cleared.add(id(leaf))
        self._grads[id(leaf)] = leaf, leaf.array, grad

    def gives(self, leaf: Tensor, grad: Tensor) -> None:
        """A leaf gets a gradient. Raises RuntimeError where it had one that is older than the step."""
        if leaf._grad is not None and id(leaf) not in self._grads:
            raise RuntimeError(ADDS)
        self._grads[id(leaf)] = leaf, leaf.array, grad

    def looks_at(self, leaf: Tensor) -> None:
        """Somebody reads a gradient; where it is older than the step, another one will need another graph."""
        if id(leaf) not in self._grads and id(leaf) not in self._cleared:
            self._older.append((leaf, leaf._grad))

    def reads(self, optimizer: Any) -> None:
        """An optimizer steps with the numbers that it has now."""
        for leaf in optimizer.parameters:
            self.looks_at(leaf)
        self._settings.append((optimizer, optimizer.settings))

    def watch(self, memory: Iterable[int]) -> None:
        """After a capture: these are the addresses of what its launches work on."""
        self._memory = set(memory)
        captures.add(self)

    def turns(self, leaf: Tensor) -> None:
        """A leaf is frozen or thawed; where the graph works on it, the step needs another."""
        self.turned |= isinstance(leaf.array, Array) and leaf.array.buffer.address in self._memory

    @property
    def changed(self) -> bool:
        """Whether the graph would take the wrong step: an optimizer has other numbers, a leaf moved, or had another
        gradient that the step reads. `turned` is apart: then the step is another, which has not run yet."""
        moved = any(leaf.array is not array for leaf, array, _ in self._grads.values())
        older = any(leaf._grad is not grad for leaf, grad in self._older)
        others = any(optimizer.settings != settings for optimizer, settings in self._settings)
        return moved or older or others

    def undo(self) -> None:
        """After a capture that failed: the gradients that leaves got were never computed."""
        for leaf, *_ in self._grads.values():
            leaf._grad = None

    def repeat(self) -> None:
        """Do it again. Raises RuntimeError, and does nothing, where a gradient is there that was not."""
        if any(leaf._grad is not None and id(leaf) not in self._cleared for leaf, *_ in self._grads.values()):
            raise RuntimeError(ADDS)
        for leaf, _, grad in self._grads.values():
            leaf._grad = grad
            if grad is not None:
                grad.version.count += 1
        for version in self.written:
            version.count += 1
