"""timeline: how many bytes are in use after each launch of a step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import finalize

from minigrad.array import Array
from minigrad.require import a
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
        from minigrad.show.tables import table

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
    if not isinstance(array, Array) or array.device.name != "sim":
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
