"""Memory accounting: `mg.memory()` lists the holders of memory now, `timeline` the bytes in use during a step."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import finalize

import numpy as np

from minigrad.devices import canonical, in_use
from minigrad.devices.array import Array
from minigrad.devices.dtypes import device_of
from minigrad.display import Table, Tabular, table
from minigrad.errors import require
from minigrad.optim import Optimizer
from minigrad.replay.graph import Graph
from minigrad.tape import Node
from minigrad.tensor import Tensor


@dataclass(frozen=True, repr=False)
class Timeline(Tabular):
    """The kernels that a step launches, and the bytes that it holds after each launch."""

    kernels: tuple[str, ...]
    live: tuple[int, ...]

    @property
    def peak(self) -> int:
        return max(self.live, default=0)

    def table(self) -> Table:
        caption = f"{len(self.kernels)} launches, at most {self.peak:,} bytes in use"
        rows = [(i, name, f"{n:,}") for i, (name, n) in enumerate(zip(self.kernels, self.live, strict=True), 1)]
        return table(rows, ("launch", "kernel", "bytes in use"), caption)


def timeline(step: Callable[..., Any], *inputs: Tensor) -> Timeline:
    """Run step(*inputs) once on `sim`, and count the bytes that it allocates and frees, launch by launch.

    Memory from before the step is not counted, even if the step frees it.
    """
    takes = "a step and its tensors, as (step, x, y)"
    require("show.memory", step, Callable, takes)
    if not inputs:
        raise TypeError(f"show.memory takes {takes}; got no tensor.")
    array = require("show.memory", inputs[0], Tensor, takes).array
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

    device.allocate, device.launch = allocate, launch  # for this device, until the step is over
    try:
        step(*inputs)
    finally:
        del device.allocate, device.launch
    return Timeline(tuple(kernels), tuple(after))


Block = tuple[str, int]  # an allocation: its device and its address


@dataclass(frozen=True)
class Held:
    """The memory of one kind of holder on a device."""

    device: str
    holder: str
    arrays: int
    nbytes: int


@dataclass(frozen=True, repr=False)
class Memory(Tabular):
    """Memory by holder; pools: device, bytes taken from the driver, and bytes of these that are free."""

    held: tuple[Held, ...]
    pools: tuple[tuple[str, int, int], ...]

    def nbytes(self, holder: str = "", device: str = "") -> int:
        """The bytes of all holders with this prefix, on one device or on all."""
        require("Memory.nbytes", holder, str, "the beginning of a holder's name, e.g. 'tape'")
        device = device and canonical(device)
        return sum(h.nbytes for h in self.held if h.holder.startswith(holder) and device in ("", h.device))

    def table(self) -> Table:
        rows: list[tuple] = [(h.device, h.holder, h.arrays, f"{h.nbytes:,}") for h in self.held]
        rows += [(device, "pool: taken from the driver", "", f"{taken:,}") for device, taken, _ in self.pools]
        rows += [(device, "pool: waiting to be used", "", f"{free:,}") for device, _, free in self.pools]
        return table(rows, ("device", "held by", "arrays", "bytes"))


def memory() -> Memory:
    """The holders of memory now: parameters, gradients, optimizers, tensors, arrays saved on the tape by op, graphs.

    Shared memory is counted once, for the first holder in this order. The tape frees the arrays that it saved for
    backward when backward has run, or when the result is freed.
    """
    seen: set[Block] = set()
    sizes: dict[tuple[str, str], list[int]] = {}  # by device and holder, one for each allocation
    for holder, where, nbytes in _held(gc.get_objects()):
        if where not in seen:
            seen.add(where)
            sizes.setdefault((where[0], holder), []).append(nbytes)
    held = [Held(*key, len(each), sum(each)) for key, each in sizes.items()]
    gpus: list[Any] = [device for device in in_use() if device.is_gpu]
    pools = tuple((gpu.name, *gpu.memory.usage) for gpu in gpus)
    return Memory(tuple(sorted(held, key=lambda h: h.device)), pools)


def _held(objects: list[Any]) -> Iterator[tuple[str, Block, int]]:
    """(holder, allocation, bytes) in the order of precedence."""
    by_type: dict[type, list[Any]] = {}  # isinstance would call a foreign __class__
    for x in objects:
        by_type.setdefault(type(x), []).append(x)
    yield from ((holder, *_block(array)) for holder, array in _holders(by_type))
    for graph in by_type.get(Graph, ()):  # its intermediate results belong to no array
        yield from ((f"graph: {graph.name}", block, size) for block, size in graph.pieces)


def _holders(by_type: dict[type, list[Any]]) -> Iterator[tuple[str, Any]]:
    """(holder, array) in the order of precedence."""
    tensors = by_type.get(Tensor, [])
    yield from (("parameters", x.array) for x in tensors if x.requires_grad and x.is_leaf)
    yield from (("gradients", x.grad.array) for x in tensors if x.grad is not None)
    for kind in (kind for kind in by_type if issubclass(kind, Optimizer)):
        states = (x for made in by_type[kind] for row in made._states for x in row)
        yield from ((f"optimizer: {kind.__name__}", x.array) for x in states)
    yield from (("tensors", x.array) for x in tensors)
    for node in by_type.get(Node, ()):
        first = node.vjp.args[:1] if isinstance(node.vjp, partial) else ()  # of a rule: the list of what it saves
        saved = (x for values in first if isinstance(values, list) for x in values)
        yield from ((f"tape: {node.op}", x) for x in saved if isinstance(x, Array | np.ndarray))
    real = (x for x in by_type.get(Array, ()) if x.device in in_use())  # and not of a record of launches
    yield from (("other: constants, captured inputs", x) for x in real)


def _block(array: Any) -> tuple[Block, int]:
    """The allocation behind an array, and its bytes; views of one array share it."""
    if isinstance(array, Array):
        return (array.device.name, array.buffer.address), array.buffer.nbytes
    while isinstance(array.base, np.ndarray):
        array = array.base
    return (device_of(array), array.__array_interface__["data"][0]), array.nbytes
