"""Program: the launches of a function of arrays, noted once, then repeated on other arrays of the same specs.

The function runs once on arrays whose memory does not exist; what it allocates and launches is noted. A repetition
takes memory, writes its addresses into the packed arguments and launches: nothing is checked or worked out again.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minigrad.array import Array
from minigrad.devices.base import Arguments, Dim3, Step
from minigrad.devices.dry import Nowhere
from minigrad.source import Source
from minigrad.spec import ALIGNED, Spec, spec_of

SLOT = 48  # an address has so many bits; above them stands the number of the array, from 1


class Unplanned(Exception):
    """The function reads or sends data while it runs, so its launches alone are not what it does."""


class Program:
    """The launches of `function`, which takes arrays of these specs and gives arrays, or None. Raises Unplanned."""

    def __init__(self, function: Callable[..., Sequence[Any]], specs: Sequence[Spec]):
        self.device: Any = specs[0].device  # a Repeater
        notes = Notes(self.device, len(specs))
        given = function(*(notes.input(number, spec) for number, spec in enumerate(specs)))
        self.sizes, self.steps = notes.sizes, notes.steps
        self.outputs = [None if array is None else self._output(array, specs) for array in given]

    def __call__(self, arrays: Sequence[Array]) -> list[Any]:
        """The function on these arrays."""
        addresses = [array.address for array in arrays]
        made = [self.device.allocate(nbytes) for nbytes in self.sizes]
        addresses += [buffer.address for buffer in made]
        self.device.repeat(self.steps, addresses)
        return [output and output(arrays, made) for output in self.outputs]

    def _output(self, array: Array, inputs: Sequence[Spec]) -> Callable[[Sequence[Array], list[Any]], Array]:
        """What makes an output, from the inputs and the new memory."""
        number, offset = place(array.address)
        spec = spec_of(self.device, array.shape, array.dtype, offset)
        if offset >= ALIGNED:
            raise Unplanned
        if number >= len(inputs):
            return lambda arrays, made: Array.like(spec, made[number - len(inputs)])
        if spec is inputs[number]:
            return lambda arrays, made: arrays[number]
        return lambda arrays, made: arrays[number].reshape(spec.shape)


class Notes:
    """The device on which a function is noted: its memory is numbers, and nothing runs on it."""

    repeats = False

    def __init__(self, device: Any, inputs: int):
        self.device, self.name, self._inputs = device, device.name, inputs
        self.sizes: list[int] = []
        self.steps: list[Step] = []

    def input(self, number: int, spec: Spec) -> Array:
        """An input of the function."""
        start = number + 1 << SLOT
        return Array(self, spec.shape, spec.dtype, Nowhere(start, spec.nbytes), start + spec.offset)

    def allocate(self, nbytes: int) -> Nowhere:
        """Memory with the next number."""
        self.sizes.append(nbytes)
        return Nowhere(self._inputs + len(self.sizes) << SLOT, nbytes)

    def build(self, source: Source, defines: Mapping[str, str]) -> Any:
        """Compiled for the device itself."""
        return self.device.build(source, defines)

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Note a launch, and where its packed arguments hold addresses."""
        packed = arguments.packed
        words = (ctypes.c_uint64 * (ctypes.sizeof(packed) // 8)).from_buffer(packed)
        fields = [(field, kind) for field, kind, *_ in packed._fields_ if kind is ctypes.c_void_p]
        pointers = [
            (getattr(type(packed), field).offset // 8, *place(getattr(packed, field)))
            for field, _ in fields
            if getattr(packed, field) is not None
        ]
        queue = self.device.queued(module, name, grid, block, shared, arguments)

        def step(addresses: list[int]) -> None:
            for word, number, offset in pointers:
                words[word] = addresses[number] + offset
            queue()

        self.steps.append(step)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Note a copy."""
        (to, there), (at, here) = place(target), place(source)
        self.steps.append(lambda addresses: self.device.copy(addresses[to] + there, addresses[at] + here, nbytes))

    def zero(self, address: int, nbytes: int) -> None:
        """Note a fill."""
        number, offset = place(address)
        self.steps.append(lambda addresses: self.device.zero(addresses[number] + offset, nbytes))

    def upload(self, address: int, host: np.ndarray) -> None:
        """Cannot be repeated."""
        raise Unplanned

    def download(self, address: int, host: np.ndarray) -> None:
        """Cannot be repeated."""
        raise Unplanned

    def synchronize(self) -> None:
        """Cannot be repeated."""
        raise Unplanned


def place(address: int) -> tuple[int, int]:
    """The number of the array that a noted address is in, from 0, and how far it is from its start."""
    return (address >> SLOT) - 1, address & (1 << SLOT) - 1
