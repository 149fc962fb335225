"""graph: a training step captured as a CUDA graph, so that a whole step costs the host one launch."""

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any, Protocol

from minigrad.devices import is_gpu
from minigrad.devices.array import Array
from minigrad.errors import require, warn
from minigrad.replay.recorder import StepRecorder
from minigrad.rounding import autocast, current
from minigrad.tape import mode, recording
from minigrad.tensor import Tensor

PLAIN = (type(None), bool, int, float, str)  # values that a result may contain besides tensors: those of the capture
OFTEN = 4  # captures in a row after which a warning says that something changes in every step


class Ranks(Protocol):
    """The ranks of a job, of which this process is one: all of them run a step with collectives, or all replay it."""

    agreed: int  # the checksum of the collectives of this rank since it was set to 0; 0 before the first
    first: str  # the name of the first

    def numbers(self, call: str, calls: int, number: int) -> tuple[int, ...]:
        """The numbers of all ranks, once they have come here with the same call and checksum of calls."""


RANKS: list[Ranks] = []  # of the job, where this process is a rank of one


def graph(step: Callable[..., Any]) -> "Graph":
    """`fast = mg.graph(step)`, then `loss = fast(x, y)`: each call takes one step, as step(x, y) does.

    The first call runs the step, the second captures its launches, and every later one replays them at once: the host
    has nothing to do but that. Arguments are tensors, one at least; for each set of shapes there is a graph of its own,
    and in a step with collectives for the shapes of all ranks.
    It returns the same tensors every time, with new values; numbers are those of the capture. The step must clear the
    gradients that it computes (zero_grad) and read nothing on the host: no .item() in it. Each replay takes the present
    learning rate, and a schedule steps with it. If another setting of an optimizer has changed, or a gradient that the
    step reads has been replaced, the step is captured again, which takes longer than just running it; a warning says
    so if that happens every time. `sim` and `numpy` just run the step.
    """
    return Graph(require("mg.graph", step, Callable, "a function of tensors"))


class Graph:
    """A step of tensors; see `mg.graph`."""

    def __init__(self, step: Callable[..., Any]):
        self.step = step
        self.replays = self.captures = 0
        self._in_a_row = 0  # captures of known inputs with no replay between them
        self._ran: set[tuple] = set()
        self._captured: dict[tuple, _Capture] = {}
        self._device = ""
        self._meet: Callable[[int], tuple[int, ...]] | None = None  # where the step has collectives: see `_key`
        self._numbers: dict[tuple, int] = {}

    def __call__(self, *inputs: Tensor) -> Any:
        """Take one step."""
        arrays = [require("mg.graph", x, Tensor, "a step whose arguments are tensors").array for x in inputs]
        if any(x.requires_grad for x in inputs):
            raise TypeError("mg.graph: an argument requires a gradient; let the step close over its parameters.")
        self._device = inputs[0].device if inputs else ""
        if mode.recorder:  # the step is part of another that is being captured
            return self.step(*inputs)
        if not arrays or not all(isinstance(array, Array) and array.device.is_gpu for array in arrays):
            return self.step(*inputs)
        like = self._key((current(), autocast.current() is None, *[array.spec for array in arrays]))
        captured = self._captured.get(like)
        if captured is not None and captured.recorder.frozen_or_thawed:
            self._captured.pop(like, None)  # another thread may have removed it
            self._ran.discard(like)
            captured = None
        if captured is None or captured.recorder.outdated:
            if like not in self._ran:  # fills the caches: a capture must not compile
                return self._first(like, inputs)
            self._note_capture(again=captured is not None)
            captured = self._captured[like] = _Capture(self.step, inputs)
        else:
            captured.recorder.repeat()
            self._in_a_row = 0
        self.replays += 1
        return captured.replay(inputs)

    def _key(self, like: tuple) -> tuple:
        """The key of a capture: the specs of the inputs, and where the step has collectives the keys of all ranks."""
        return (*like, *self._meet(self._numbers.setdefault(like, len(self._numbers)))) if self._meet else like

    def _first(self, like: tuple, inputs: Sequence[Tensor]) -> Any:
        """Run the step, and note that the next call captures it, and its collectives."""
        outside = [ranks.agreed for ranks in RANKS] or [0]  # those of a step that calls this one
        for ranks in RANKS:
            ranks.agreed = 0
        result = self.step(*inputs)
        for ranks in RANKS:
            if ranks.agreed and not self._meet:
                self._meet = partial(ranks.numbers, f"{ranks.first} in mg.graph({self.name})", ranks.agreed)
                like = self._key(like)
            ranks.agreed = max(ranks.agreed, *outside)
        self._ran.add(like)
        return result

    def _note_capture(self, again: bool) -> None:
        self.captures += 1
        self._in_a_row += again
        if self._in_a_row == OFTEN:
            warn(
                f"mg.graph: the step was captured anew {OFTEN} times in a row, and that takes longer than running it. "
                "Change the numbers of an optimizer once in many steps, make gradients and their update in one step, "
                "or run the step without mg.graph.",
                RuntimeWarning,
            )

    @property
    def name(self) -> str:
        """The name of the step."""
        return getattr(self.step, "__name__", "a step")

    @property
    def pieces(self) -> list[tuple[tuple[str, int], int]]:
        """The memory of its graphs in pieces: device and address, and bytes."""
        captures = [*self._captured.values()]
        return [((c.device.name, at), size) for c in captures for at, (_, size) in c.captured.pool.pieces.items()]

    def __repr__(self) -> str:
        name = self.name
        if self._device and not is_gpu(self._device):
            return f"graph of {name}: on {self._device!r} there are no graphs, so the step runs as it is"
        if not self._captured:
            return f"graph of {name}: not captured yet; the second call does that"
        graphs = "; ".join(map(repr, self._captured.values()))
        return f"graph of {name}: {graphs}; captured {self.captures} and replayed {self.replays} times"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


class _Capture:
    """The graph for inputs of certain specs: arrays that they are copied into, the launches, and the results."""

    def __init__(self, step: Callable[..., Any], inputs: Sequence[Tensor]):
        self.recorder = StepRecorder()
        self.device: Any = inputs[0].array.device
        self.arrays = [Array.empty(x.array.device, x.shape, x.dtype, x.array.channels_last) for x in inputs]
        given = [Tensor(array) for array in self.arrays]
        try:
            with recording(self.recorder), self.device.memory.capture() as self.captured:
                outputs = step(*given)
            self.outputs = outputs  # from here on __del__ has a graph to drop
            self.outputs = outputs = _detached(outputs)
            if any(x.version is version for x in given for version in self.recorder.written):
                raise RuntimeError("mg.graph: the step changes an input in place; a replay would change a copy of it.")
            if not self.captured.nodes:
                raise RuntimeError("mg.graph: the step launched nothing on the GPU; is its model there? .to('cuda')")
        except BaseException:
            self.recorder.undo()
            raise
        self.recorder.written += [x.version for x in _tensors(outputs)]
        self.recorder.finish(buffer.address for buffer in self.captured.held)

    def replay(self, inputs: Sequence[Tensor]) -> Any:
        """Copy the inputs, queue the launches, and return the tensors that will hold the results."""
        with self.device.context.lock:  # no other thread may replay between the copies and the launches
            for action in self.recorder.on_host:
                action()
            for array, x in zip(self.arrays, inputs, strict=True):
                array.copy_from(x.array)
            self.device.replay(self.captured)
        return self.outputs

    def __repr__(self) -> str:
        inputs = ", ".join(f"{array.dtype} {array.shape}" for array in self.arrays)
        return f"{self.captured.nodes} launches and copies for {inputs} in {self.captured.pool.held} bytes"

    def __del__(self) -> None:
        if hasattr(self, "outputs"):
            self.device.memory.drop(self.captured)


def _detached(result: Any) -> Any:
    """The result with its tensors detached, as a replay records nothing. Raises TypeError for other objects."""
    if isinstance(result, Tensor):
        return result.detach()
    if isinstance(result, dict):
        return {key: _detached(part) for key, part in result.items()}
    if isinstance(result, list | tuple):
        parts = map(_detached, result)
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)  # a named tuple or another
    return require("mg.graph", result, PLAIN, "a step that returns tensors, in tuples, lists or dicts")


def _tensors(result: Any) -> list[Tensor]:
    """The tensors of a result."""
    if isinstance(result, dict | list | tuple):
        result = result.values() if isinstance(result, dict) else result
        return [x for part in result for x in _tensors(part)]
    return [result] if isinstance(result, Tensor) else []
