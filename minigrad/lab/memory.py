"""timeline: how many bytes are in use after each launch of a step."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import finalize

import numpy as np

from minigrad.devices import canonical, in_use
from minigrad.devices.array import Array
from minigrad.devices.dtypes import device_of
from minigrad.errors import a
from minigrad.optim import Optimizer
from minigrad.replay.graph import Graph
from minigrad.tape import Node
from minigrad.tensor import Tensor


@dataclass(frozen=True)
class Timeline:
    """The launches of a step by kernel, and the bytes that the step held after each, beside what was there before."""

    kernels: tuple[str, ...]
    live: tuple[int, ...]

    @property
    def peak(self) -> int:
        """The most bytes that the step held at a time."""
        return max(self.live, default=0)

    def _table(self) -> Any:
        from minigrad.display import table

        rows = [(i, name, f"{n:,}") for i, (name, n) in enumerate(zip(self.kernels, self.live, strict=True), 1)]
        return table(rows, ("launch", "kernel", "bytes in use"))

    def __repr__(self) -> str:
        return f"{len(self.kernels)} launches, at most {self.peak:,} bytes in use\n{self._table()!r}"

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


def timeline(step: Callable[..., Any], *inputs: Tensor) -> Timeline:
    """Run step(*inputs) on `sim` once, and note the memory that it takes and gives back, launch by launch.

    What was allocated before the step is not counted, nor is it when the step gives it back.
    """
    takes = "a step and its tensors, as (step, x, y)"
    a("show.memory", step, Callable, takes)
    if not inputs:
        raise TypeError(f"show.memory takes {takes}; got no tensor.")
    array = a("show.memory", inputs[0], Tensor, takes).array
    if not isinstance(array, Array) or array.device.is_gpu:
        raise ValueError("show.memory watches the launches of device 'sim'; move model and inputs there: .to('sim').")
    device: Any = array.device
    live, kernels, after = [0], [], []

    def allocate(nbytes: int) -> Any:
        buffer = type(device).allocate(device, nbytes)
        live[0] += nbytes
        finalize(buffer, free, nbytes)
        return buffer

    def free(nbytes: int) -> None:
        live[0] -= nbytes

    def launch(module: Any, name: str, *rest: Any) -> None:
        type(device).launch(device, module, name, *rest)
        kernels.append(name)
        after.append(live[0])

    device.allocate, device.launch = allocate, launch  # for this device alone, until the step is over
    try:
        step(*inputs)
    finally:
        del device.allocate, device.launch
    return Timeline(tuple(kernels), tuple(after))


Block = tuple[str, int]  # a piece of memory: its device and its address


@dataclass(frozen=True)
class Held:
    """What one kind of holder holds on a device."""

    device: str
    holder: str
    arrays: int
    nbytes: int


@dataclass(frozen=True)
class Memory:
    """Who holds which memory, and of each pool: the bytes taken from the driver, and those that wait to be used."""

    held: tuple[Held, ...]
    pools: tuple[tuple[str, int, int], ...]

    def nbytes(self, holder: str = "", device: str = "") -> int:
        """The bytes of the holders whose name begins so, on one device or on all."""
        a("Memory.nbytes", holder, str, "the beginning of a holder's name, e.g. 'tape'")
        device = device and canonical(device)
        return sum(h.nbytes for h in self.held if h.holder.startswith(holder) and device in ("", h.device))

    def _table(self) -> Any:
        from minigrad.display import table

        rows: list[tuple] = [(h.device, h.holder, h.arrays, f"{h.nbytes:,}") for h in self.held]
        rows += [(device, "pool: taken from the driver", "", f"{taken:,}") for device, taken, _ in self.pools]
        rows += [(device, "pool: waiting to be used", "", f"{free:,}") for device, _, free in self.pools]
        return table(rows, ("device", "held by", "arrays", "bytes"))

    def __repr__(self) -> str:
        return repr(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()


def memory() -> Memory:
    """Who holds memory now: parameters, gradients, optimizers, tensors, what the tape keeps for each op, graphs.

    Memory that several hold is counted once, for the first of them in this order. The tape keeps what backward will
    need; it lets go of it when backward has run, or when the result is forgotten.
    """
    seen: set[Block] = set()
    arrays: Counter[tuple[str, str]] = Counter()
    nbytes: Counter[tuple[str, str]] = Counter()
    for holder, where, size in _held(gc.get_objects()):
        if where not in seen:
            seen.add(where)
            arrays[where[0], holder] += 1
            nbytes[where[0], holder] += size
    held = tuple(Held(*key, arrays[key], nbytes[key]) for key in arrays)
    return Memory(tuple(sorted(held, key=lambda h: h.device)), _pools())


def _held(alive: list[Any]) -> Iterator[tuple[str, Block, int]]:
    """Each piece of memory that is held, with the name of its holder, and its bytes; the first to name it has it."""
    yield from ((holder, *_block(array)) for holder, array in _holders(alive))
    for graph in (x for x in alive if type(x) is Graph):  # what lies between its launches, no array knows
        yield from ((f"graph: {graph.name}", block, size) for block, size in graph.pieces)


def _holders(alive: list[Any]) -> Iterator[tuple[str, Any]]:
    """Each array that is held, with the name of its holder."""
    tensors = [x for x in alive if type(x) is Tensor]
    gradients = [x.grad for x in tensors if x.grad is not None]
    yield from (("parameters", x.array) for x in tensors if x.requires_grad and x.is_leaf)
    yield from (("gradients", x.array) for x in gradients)
    for optimizer in (x for x in alive if issubclass(type(x), Optimizer)):  # isinstance would run others' __class__
        yield from ((f"optimizer: {type(optimizer).__name__}", x.array) for x in optimizer.states_held)
    yield from (("tensors", x.array) for x in tensors)
    for node in (x for x in alive if type(x) is Node):
        yield from ((f"tape: {node.op}", array) for array in _kept(node.vjp))
    yield from (("other: constants, captured inputs", x) for x in alive if type(x) is Array and _is_real(x))


def _kept(rule: Any) -> list[Any]:
    """The arrays among what a rule of the tape was given to keep."""
    given = rule.args[0] if isinstance(rule, partial) and rule.args else None
    values = given.values() if isinstance(given, dict) else given if isinstance(given, list) else ()
    return [x for x in values if isinstance(x, Array | np.ndarray)]


def _is_real(array: Array) -> bool:
    """True for an array in a device's memory, False for one in a record of launches."""
    return array.device in in_use()


def _block(array: Any) -> tuple[Block, int]:
    """Where the memory behind an array is, and its bytes: two views of one memory are one block."""
    if isinstance(array, Array):
        return (array.device.name, array.buffer.address), array.buffer.nbytes
    while isinstance(array.base, np.ndarray):
        array = array.base
    return (device_of(array), array.__array_interface__["data"][0]), array.nbytes


def _pools() -> tuple[tuple[str, int, int], ...]:
    """Name, bytes taken and bytes free of the pool of each GPU in use."""
    return tuple((device.name, *device.memory.usage) for device in in_use() if device.is_gpu)  # type: ignore[attr-defined]
