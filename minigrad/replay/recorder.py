"""The effects of a captured training step besides its launches, which every replay repeats."""

from collections.abc import Callable, Iterable
from typing import Any

from minigrad.tape import RequiresGrad, Version
from minigrad.tensor import Tensor

ADDS = (
    "mg.graph: the step adds to a gradient that was there before it, and a replay cannot. "
    "Call optimizer.zero_grad() in the step, before backward."
)


class StepRecorder:
    """Records a step while it is captured (see `tape.Recorder`); `repeat` then repeats its effects for each replay."""

    def __init__(self) -> None:
        self.written: list[Version] = []
        # By id: a leaf whose gradient was set or cleared, its array, and the gradient that it ends with.
        self._grads: dict[int, tuple[Tensor, Any, Tensor | None]] = {}
        self._cleared: set[int] = set()  # leaves, by id, whose gradient was cleared first
        self._older: list[tuple[Tensor, Tensor | None]] = []  # leaves, with the gradient from before the step
        self._settings: list[tuple[Any, tuple]] = []  # optimizers, with the settings in their launches
        self._earlier: list[Any] = []  # those before the last step of a schedule
        self.on_host: list[Callable[[], Any]] = []  # work of the host before each replay
        self._memory: set[int] = set()  # addresses that the captured launches work on
        self._checked = 0

    def sets_grad(self, leaf: Tensor, grad: Tensor | None) -> None:
        """The step clears the gradient of a leaf, or sets another."""
        if id(leaf) not in self._grads:
            self._cleared.add(id(leaf))
        self._grads[id(leaf)] = leaf, leaf.array, grad

    def delivers_grad(self, leaf: Tensor, grad: Tensor) -> None:
        """The backward pass delivers a gradient. Raises RuntimeError where the leaf had one from before the step."""
        if leaf._grad is not None and id(leaf) not in self._grads:
            raise RuntimeError(ADDS)
        self._grads[id(leaf)] = leaf, leaf.array, grad

    def reads_grad(self, leaf: Tensor) -> None:
        """The step reads a gradient; if it is from before the step, the graph is for this gradient only."""
        if id(leaf) not in self._grads and id(leaf) not in self._cleared:
            self._older.append((leaf, leaf._grad))

    def writes(self, version: Version) -> None:
        """The step changes an array in place."""
        self.written.append(version)

    def steps(self, optimizer: Any) -> None:
        """An optimizer updates its parameters; a replay sends its one learning rate. Raises RuntimeError for two."""
        if any(other is optimizer for other in self._earlier):
            raise RuntimeError(
                "mg.graph: a schedule sets the learning rate between two steps of an optimizer, and a replay has one "
                "rate. Capture one step, and call it twice."
            )
        for leaf in optimizer.parameters:
            self.reads_grad(leaf)
        self._settings.append((optimizer, optimizer.launched))
        self.on_host.append(optimizer.send)

    def repeats(self, action: Callable[[], Any], sets_rates: bool = False) -> None:
        """The step does this on the host; a schedule sets learning rates."""
        self.on_host.append(action)
        if sets_rates:
            self._earlier = [optimizer for optimizer, _ in self._settings]

    def finish(self, memory: Iterable[int]) -> None:
        """After the capture: note the addresses that its launches work on."""
        self._memory, self._checked = set(memory), RequiresGrad.changes

    @property
    def frozen_or_thawed(self) -> bool:
        """True if `requires_grad` of a leaf has changed since the capture: then the step launches something else."""
        if (checked := self._checked) == RequiresGrad.changes:
            return False
        self._checked = RequiresGrad.changes
        return any(RequiresGrad.last.get(address, 0) > checked for address in self._memory)

    @property
    def outdated(self) -> bool:
        """True if an optimizer's settings, the array of a leaf, or an older gradient that the step reads is another."""
        moved = any(leaf.array is not array for leaf, array, _ in self._grads.values())
        older = any(leaf._grad is not grad for leaf, grad in self._older)
        others = any(x not in optimizer.settings for optimizer, launched in self._settings for x in launched)
        return moved or older or others

    def undo(self) -> None:
        """After a capture that failed: drop the gradients of leaves, which were never computed."""
        for leaf, *_ in self._grads.values():
            leaf._grad = None

    def repeat(self) -> None:
        """Repeat the effects for a replay. Raises RuntimeError before the first if a leaf has a gradient to add to."""
        if any(leaf._grad is not None and id(leaf) not in self._cleared for leaf, *_ in self._grads.values()):
            raise RuntimeError(ADDS)
        for leaf, _, grad in self._grads.values():
            leaf._grad = grad
            if grad is not None:
                grad.version.count += 1
        for version in self.written:
            version.count += 1
