"""Effects: what a captured step does beside launching, so that every replay can do it too."""

from typing import Any

from minigrad.tape import Version
from minigrad.tensor import Tensor

ADDS = (
    "mg.graph: the step adds to a gradient that was there before it, and a replay cannot. "
    "Call optimizer.zero_grad() in the step, before backward."
)


class Effects:
    """Filled by tensors and optimizers while the step is captured; `repeat` does the same again."""

    def __init__(self) -> None:
        self.written: list[Version] = []
        # By id: a leaf that got a gradient, its array, and the gradient that it ends with.
        self._grads: dict[int, tuple[Tensor, Any, Tensor | None]] = {}
        self._cleared: set[int] = set()  # leaves, by id, whose gradient was forgotten before
        self._settings: list[tuple[Any, tuple]] = []  # optimizers, with the numbers that they used

    def clears(self, leaf: Tensor) -> None:
        """The gradient of a leaf is forgotten."""
        if id(leaf) in self._grads:
            self._grads[id(leaf)] = leaf, leaf.array, None
        else:
            self._cleared.add(id(leaf))

    def gives(self, leaf: Tensor, grad: Tensor) -> None:
        """A leaf gets a gradient. Raises RuntimeError where it had one that is older than the step."""
        if leaf.grad is not None and id(leaf) not in self._grads:
            raise RuntimeError(ADDS)
        self._grads[id(leaf)] = leaf, leaf.array, grad

    def reads(self, optimizer: Any) -> None:
        """An optimizer steps with the numbers that it has now."""
        self._settings.append((optimizer, optimizer.settings))

    @property
    def changed(self) -> bool:
        """Whether the graph would take the wrong step: an optimizer has other numbers, a leaf was moved or frozen."""
        moved = any(leaf.array is not array or not leaf.requires_grad for leaf, array, _ in self._grads.values())
        return moved or any(optimizer.settings != settings for optimizer, settings in self._settings)

    def undo(self) -> None:
        """After a capture that failed: the gradients that leaves got were never computed."""
        for leaf, *_ in self._grads.values():
            leaf.grad = None

    def repeat(self) -> None:
        """Do it again. Raises RuntimeError, and does nothing, where a gradient is there that was not."""
        if any(leaf.grad is not None and id(leaf) not in self._cleared for leaf, *_ in self._grads.values()):
            raise RuntimeError(ADDS)
        for leaf, _, grad in self._grads.values():
            leaf.grad = grad
            if grad is not None:
                grad.version.count += 1
        for version in self.written:
            version.count += 1
