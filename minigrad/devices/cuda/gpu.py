"""What can be read off the device `cuda`: its chip, what a kernel takes, and how far its stream has come."""

import atexit
import ctypes
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from minigrad.devices.array import Array
from minigrad.devices.cuda import compiler as nvcc
from minigrad.devices.cuda import libcuda
from minigrad.devices.cuda.chip import Chip, chip_of
from minigrad.devices.cuda.context import Context
from minigrad.devices.cuda.launch import prepared
from minigrad.devices.cuda.memory import Captured, Memory, PooledBuffer
from minigrad.devices.cuda.prefetch import Sender
from minigrad.devices.device import Arguments, Dim3, Placed
from minigrad.errors import DeviceError
from minigrad.source import Source


class Measures:
    """The part of a GPU that measures; `_driver` is PyCUDA's, `_device` its device."""

    context: Context
    stream: Any
    _driver: Any
    _device: Any

    @cached_property
    def chip(self) -> Chip:
        """What the driver says of this GPU."""
        return chip_of(self)

    def attribute(self, name: str) -> int:
        """One number of the GPU by the driver's name for it: `MULTIPROCESSOR_COUNT`."""
        return self._device.get_attribute(getattr(self._driver.device_attribute, name))

    def resources(self, module: Any, name: str) -> tuple[int, int, int]:
        """What a compiled kernel takes: registers a thread, bytes of static shared memory, bytes of local memory."""
        with self.context.guarded():
            function = module.function(name)
            return tuple(map(function.attribute, (libcuda.REGISTERS, libcuda.SHARED, libcuda.LOCAL)))

    def mark(self) -> Any:
        """An event at this place in the stream."""
        with self.context.guarded():
            return self._driver.Event().record(self.stream)

    def passed(self, event: Any) -> bool:
        """Whether the GPU has come to the event."""
        with self.context.guarded():
            return bool(event.query())

    def between(self, start: Any, stop: Any) -> float:
        """The seconds from one event to another, once the GPU has come to both."""
        with self.context.guarded():
            stop.synchronize()
            return float(start.time_till(stop)) * 1e-3


class GPU(Measures):
    """One NVIDIA GPU: its context, a memory pool, and what has been compiled for it."""

    name = "cuda"
    repeats = True

    def __init__(self) -> None:
        self._driver = _driver()
        self._device = self._driver.Device(int(os.environ.get("CUDA_DEVICE", "0")))
        compute = self._device.compute_capability()
        self.arch = "sm_{}{}{}".format(*compute, "a" * (compute >= (9, 0)))  # "a": what only this generation has, too
        self.processors = self.attribute("MULTIPROCESSOR_COUNT")
        self.context = Context(self._driver, self._device)
        self.label, self.stream = self.context.label, self.context.stream
        self._modules: dict[tuple, libcuda.Module] = {}
        self.memory = Memory(self.context)
        self.sender = Sender(self, self._driver)
        atexit.register(self.close)

    # --- memory ---

    def allocate(self, nbytes: int) -> PooledBuffer:
        """Memory from the pool. Raises MemoryError with the number."""
        return self.memory.allocate(nbytes)

    def upload(self, address: int, host: np.ndarray) -> None:
        """Copy a host array to the device, in the order of the stream."""
        with self.context.guarded():
            self.context.must_not_capture(
                "sends data to the GPU", "Pass what changes as an argument; numbers stay the same."
            )
            self._driver.memcpy_htod_async(address, host, self.stream)

    def download(self, address: int, host: np.ndarray) -> None:
        """Copy to the host, after every launch before it."""
        with self.context.guarded():
            self.context.must_not_capture(
                "reads a tensor on the host", "Return the tensor, and read it after the step."
            )
            self._driver.memcpy_dtoh_async(host, address, self.stream)
            self.context.wait()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the device."""
        self.context.call(self.context.library.cuMemcpyDtoDAsync_v2, target, source, nbytes)

    def zero(self, address: int, nbytes: int) -> None:
        """Fill with zero bytes."""
        self.context.call(self.context.library.cuMemsetD8Async, address, 0, nbytes)

    # --- kernels ---

    def build(self, source: Source, defines: Mapping[str, str]) -> libcuda.Module:
        """Compile for this GPU and load; what has been compiled is kept in memory and on disk."""
        key = (source, tuple(sorted(defines.items())), *(path.stat().st_mtime_ns for path in source.included))
        if key not in self._modules:
            image = nvcc.cubin(source, defines, self.arch)
            with self.context.guarded():
                self._modules[key] = libcuda.Module(self.context.library, image)
        return self._modules[key]

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        """Queue a kernel on the stream."""
        packed = arguments.packed
        at = [ctypes.addressof(packed) + getattr(type(packed), field).offset for field, *_ in packed._fields_]
        steps = self.queued(Placed(module, name, grid, block, shared, packed, at, arguments.maps))
        with self.context.lock:
            self.memory.touch([array for _, array in arguments.arrays])
            self.context.take(steps)

    def queued(self, launch: Placed) -> list[libcuda.Queue]:
        """What queues a launch, with the values of its parameters that are found at their places then."""
        return prepared(self.context, launch)

    def repeat(self, program: Any, arrays: Sequence[Array]) -> list[PooledBuffer]:
        """Queue a program's launches, copies and fills on these arrays and on new memory, which is returned."""
        context, made, addresses = self.context, [], []
        with context.lock:
            for x in arrays:
                addresses.append(x.address)
            for nbytes in program.sizes:
                buffer = self.memory.pool.allocate(nbytes)
                made.append(buffer)
                addresses.append(buffer.address)
            for number, offset in program.moved:
                addresses.append(addresses[number] + offset)
            program.table[:] = addresses
            if context.capturing or context.dead:
                context.must_live()
                self.memory.touch(arrays)
            context.launched.append(program.steps)
            for step in program.steps:
                if step():  # a Queue, whose call the driver has refused
                    context.again(step)
        return made

    def synchronize(self) -> None:
        """Wait for the stream. Raises KernelError where a kernel went wrong. In a capture nothing runs: no wait."""
        with self.context.guarded():
            self.context.wait()

    def finish(self) -> None:
        """Wait for all that this process has queued on the GPU, on streams of other libraries too."""
        with self.context.guarded():
            self._driver.Context.synchronize()

    # --- graphs ---

    def replay(self, captured: Captured) -> None:
        """Queue a captured graph."""
        with self.context.lock:
            self.context.take([captured.replay.queue])  # type: ignore[union-attr]

    def touch(self, *arrays: Array) -> None:
        """Note what a graph that this thread is capturing works on."""
        with self.context.lock:
            self.memory.touch(arrays)

    def close(self) -> None:
        """Give everything back, in order: at exit nothing may be left to be freed without a context."""
        if self.context.dead:  # nothing can be given back, and PyCUDA would complain of each piece that goes: none does
            for lost in (self.memory, self.stream):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(lost))
            return
        with self.context.current():
            self.memory.close()
            while self._modules:
                self._modules.popitem()[1].unload()
            del self.stream, self.sender, self.context.stream
        self.context.detach()


def _driver() -> Any:
    """pycuda.driver, initialised. Raises DeviceError with what is missing."""
    try:
        import pycuda.driver as driver
    except ImportError as error:
        raise DeviceError(
            f"device 'cuda' needs PyCUDA, which does not load here ({error}). "
            "With an NVIDIA GPU: python -m minigrad.lab.install_cuda. Without: kernels run on 'sim'."
        ) from error
    try:
        driver.init()
        driver.Device(0)
    except driver.Error as error:
        raise DeviceError(
            f"device 'cuda': the driver finds no GPU ({error}). Without one, kernels run on 'sim'."
        ) from error
    return driver
