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
        self._grads: dict[int, tuple[Tensor, Tensor]] = {}  # leaves and the gradients that they got, by id
        self._cleared: set[int] = set()  # leaves, by id, whose gradient was forgotten before
        self._settings: list[tuple[Any, tuple]] = []  # optimizers, with the numbers that they used

    def clears(self, leaf: Tensor) -> None:
        """The gradient of a leaf is forgotten."""
        if id(leaf) not in self._grads:
            self._cleared.add(id(leaf))

    def gives(self, leaf: Tensor, grad: Tensor) -> None:
        """A leaf gets a gradient. Raises RuntimeError where it had one that is older than the step."""
        if leaf.grad is not None and id(leaf) not in self._grads:
            raise RuntimeError(ADDS)
        self._grads[id(leaf)] = leaf, grad

    def reads(self, optimizer: Any) -> None:
        """An optimizer steps with the numbers that it has now."""
        self._settings.append((optimizer, optimizer.settings))

    @property
    def changed(self) -> bool:
        """Whether an optimizer has other numbers by now, so that the graph would take the wrong step."""
        return any(optimizer.settings != settings for optimizer, settings in self._settings)

    def repeat(self) -> None:
        """Do it again. Raises RuntimeError, and does nothing, where a gradient is there that was not."""
        if any(leaf.grad is not None and id(leaf) not in self._cleared for leaf, _ in self._grads.values()):
            raise RuntimeError(ADDS)
        for leaf, grad in self._grads.values():
            leaf.grad = grad
        for version in self.written:
            version.count += 1
