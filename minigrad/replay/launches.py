"""Launches recorded once, then replayed on other arrays of the same specs: the fast way to call an op again.

The function runs once on arrays without memory, and a device without a GPU records its allocations and launches. A
replay allocates memory, writes addresses into the packed arguments and launches: it checks and computes nothing again.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minigrad.devices.array import Array, Spec, array_over, spec_of
from minigrad.devices.device import Arguments, Dim3, PlacedLaunch, Step
from minigrad.devices.dry_run import FakeBuffer
from minigrad.source import Source

SLOT = 48  # bits of an address; the bits above them hold the number of the array, from 1


class Unrecordable(Exception):
    """The function reads or sends data while it runs, so its launches alone are not what it does."""


class Program:
    """The launches of a function from a list of arrays of these specs to arrays, or None. Raises Unrecordable."""

    def __init__(self, function: Callable[[Sequence[Array]], Sequence[Any]], specs: Sequence[Spec]):
        self.device: Any = specs[0].device  # one that `repeats`
        recording = RecordingDevice(self.device, len(specs))
        results = function([recording.input(number, spec) for number, spec in enumerate(specs)])
        self.sizes = recording.sizes
        starts = [(number, spec.offset) for number, spec in enumerate(specs)]
        starts += [(len(specs) + number, 0) for number in range(len(self.sizes))]
        within = [at for at in recording.moved if at not in starts]
        self.moved = [(number, offset - starts[number][1]) for number, offset in within]  # from the start of its array
        places = [*starts, *within]
        self.table = (ctypes.c_uint64 * len(places))()  # the kernels' pointers, where the driver reads them
        words = {at: ctypes.addressof(self.table) + 8 * i for i, at in enumerate(places)}
        self.steps = [step for made in recording.steps for step in made(lambda address: words[place(address)])]
        self.outputs = [None if array is None else self._output(array, specs) for array in results]

    def __call__(self, arrays: Sequence[Array]) -> list[Any]:
        """Replay the launches on these arrays."""
        made = self.device.repeat(self, arrays)
        return [output and output.of(arrays, made) for output in self.outputs]

    def _output(self, array: Array, inputs: Sequence[Spec]) -> "Output":
        """The location of an output: new memory or an input. Raises Unrecordable for part of one."""
        number, offset = place(array.address)
        spec = spec_of(self.device, array.shape, array.dtype, offset, array.channels_last)
        if (new := number - len(inputs)) >= 0 and not offset:
            return Output(spec, new=new)
        if new < 0 and (offset, array.dtype) == (inputs[number].offset, inputs[number].dtype):
            return Output(spec, input=number)
        raise Unrecordable


@dataclass(frozen=True)
class Output:
    """An output of a program: the spec, and the number of the new buffer or of the input that holds it."""

    spec: Spec
    new: int = -1
    input: int = -1

    def of(self, arrays: Sequence[Array], made: Sequence[Any]) -> Array:
        """The output of one replay."""
        if self.new >= 0:
            return array_over(made[self.new], self.spec)
        array = arrays[self.input]
        return array if array.spec is self.spec else array.reshape(self.spec.shape)


def replayed(function: Callable[[Sequence[Array]], Sequence[Any]], specs: Sequence[Spec]) -> Callable[..., Any]:
    """The function with its launches recorded now and replayed at every call, on other arrays of the same specs.

    The function itself where it reads or sends data while it runs.
    """
    try:
        return Program(function, specs)
    except Unrecordable:
        return function


def replayed_one(function: Callable[[Sequence[Array]], Any], specs: Sequence[Spec]) -> Callable[..., Any]:
    """As `replayed`, for a function that returns one array."""
    program = replayed(lambda arrays: (function(arrays),), specs)
    if not isinstance(program, Program):
        return function
    repeat, output = program.device.repeat, program.outputs[0]
    assert output
    if output.new < 0:
        return lambda arrays: output.of(arrays, repeat(program, arrays))
    number, spec = output.new, output.spec  # the path of every call: it does no more than this
    return lambda arrays: array_over(repeat(program, arrays)[number], spec)


class RecordingDevice:
    """A device that records what a function allocates and launches: its addresses are numbers, and nothing runs."""

    repeats = False

    def __init__(self, device: Any, inputs: int):
        self.device, self.name, self._inputs = device, device.name, inputs
        self.is_gpu, self.arch, self.processors = device.is_gpu, device.arch, device.processors
        self.sizes: list[int] = []
        # Each makes its steps from a function that gives the place of an address in the table.
        self.steps: list[Callable[[Callable[[int], int]], Sequence[Step]]] = []
        self.moved: dict[tuple[int, int], None] = {}  # places within arrays

    def input(self, number: int, spec: Spec) -> Array:
        """An input of the function."""
        start = number + 1 << SLOT
        buffer = FakeBuffer(start, spec.nbytes)
        return Array(self, spec.shape, spec.dtype, buffer, start + spec.offset, spec.channels_last)

    def allocate(self, nbytes: int) -> FakeBuffer:
        """Memory with the next number."""
        self.sizes.append(nbytes)
        return FakeBuffer(self._inputs + len(self.sizes) << SLOT, nbytes)

    def build(self, source: Source, defines: Mapping[str, str], kernel: str) -> Any:
        """Compile for the device itself."""
        return self.device.build(source, defines, kernel)

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Record a launch. A replay takes addresses of arrays from the table, all else from the packed arguments."""
        packed, pointers = arguments.packed, {}
        for i, (field, kind, *_) in enumerate(packed._fields_):
            if kind is ctypes.c_void_p and (address := getattr(packed, field)) is not None:
                pointers[i] = self._used(address)
        pointers |= {i: self._used(given.address) for i, given in arguments.maps}

        def step(word: Callable[[int], int]) -> Sequence[Step]:
            places = [word(pointers[i]) if i in pointers else own for i, own in enumerate(arguments.places)]
            return self.device.queued(PlacedLaunch(module, name, grid, block, shared, arguments, places))

        self.steps.append(step)

    def _used(self, address: int) -> int:
        """The address itself; one inside an array gets a word of its own in the table."""
        if (at := place(address))[1]:
            self.moved[at] = None
        return address

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Record a copy."""
        to, at = self._used(target), self._used(source)

        def step(word: Callable[[int], int]) -> Sequence[Step]:
            there, here = (ctypes.c_uint64.from_address(word(address)) for address in (to, at))
            return [lambda: self.device.copy(there.value, here.value, nbytes)]

        self.steps.append(step)

    def zero(self, address: int, nbytes: int) -> None:
        """Record a fill."""
        at = self._used(address)

        def step(word: Callable[[int], int]) -> Sequence[Step]:
            here = ctypes.c_uint64.from_address(word(at))
            return [lambda: self.device.zero(here.value, nbytes)]

        self.steps.append(step)

    def _reject(self, *arguments: Any) -> None:
        raise Unrecordable

    upload = download = synchronize = _reject


def place(address: int) -> tuple[int, int]:
    """The number of the array that holds a recorded address, from 0, and the offset in it."""
    return (address >> SLOT) - 1, address & (1 << SLOT) - 1
