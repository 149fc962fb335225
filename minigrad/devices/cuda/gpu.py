"""GPU: an NVIDIA GPU as a device, by the CUDA driver and PyCUDA."""

import atexit
import ctypes
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from minigrad.devices import gpu_name
from minigrad.devices.array import Array
from minigrad.devices.cuda import compiler as nvcc
from minigrad.devices.cuda import libcuda
from minigrad.devices.cuda.chip import Chip, chip_of
from minigrad.devices.cuda.context import Context
from minigrad.devices.cuda.graph import CapturedGraph
from minigrad.devices.cuda.launch import prepared
from minigrad.devices.cuda.memory import Allocator
from minigrad.devices.cuda.pool import PooledBuffer
from minigrad.devices.cuda.prefetch import Prefetcher
from minigrad.devices.device import Arguments, Dim3, PlacedLaunch
from minigrad.devices.dtypes import sized
from minigrad.errors import DeviceError
from minigrad.source import Source


class GPU:
    """One NVIDIA GPU by its number: its context, a memory pool, and the modules compiled for it.

    Raises DeviceError where PyCUDA, the driver or a GPU of that number is missing.
    """

    is_gpu = repeats = True

    def __init__(self, number: int) -> None:
        self._driver, self.number, self.name = _driver(), number, gpu_name(number)
        self.count = count()
        if number >= self.count:
            raise DeviceError(
                f"device 'cuda:{number}' is not here: the GPUs of this machine are "
                f"{', '.join(f'cuda:{n}' for n in range(self.count))}. Choose one of these."
            )
        self._device = self._driver.Device(number)
        compute = self._device.compute_capability()
        self.arch = "sm_{}{}{}".format(*compute, "a" * (compute >= (9, 0)))  # "a": with features of this one generation
        self.processors = self.attribute("MULTIPROCESSOR_COUNT")
        self.context = Context(self._driver, self._device)
        self.label, self.stream = self.context.label, self.context.stream
        self._modules: dict[tuple, libcuda.LoadedModule] = {}
        self.memory = Allocator(self.context)
        self.allocate = self.memory.allocate
        self.sender = Prefetcher(self, self._driver)
        atexit.register(self.close)

    # --- memory ---

    def upload(self, address: int, host: np.ndarray) -> None:
        """Copy a host array to the device, in the order of the stream."""
        instead = "Pass what changes as an argument; numbers stay the same."
        with self.context.uncaptured("sends data to the GPU", instead):
            self._driver.memcpy_htod_async(address, host, self.stream)

    def download(self, address: int, host: np.ndarray) -> None:
        """Copy to the host, after every launch before it."""
        instead = "Return the tensor, and read it after the step."
        with self.context.uncaptured("reads a tensor on the host", instead):
            self._driver.memcpy_dtoh_async(host, address, self.stream)
            self.context.wait()

    def copy(self, target: int, source: int, nbytes: int) -> None:
        self.context.call(self.context.library.cuMemcpyDtoDAsync_v2, target, source, nbytes)

    def zero(self, address: int, nbytes: int) -> None:
        self.context.call(self.context.library.cuMemsetD8Async, address, 0, nbytes)

    @contextmanager
    def page_locked(self, nbytes: int) -> Iterator[np.ndarray]:
        """Host memory, as bytes, that the GPU reads by itself: uploads run at the speed of the link."""
        with self.context.guarded():
            memory = self._driver.pagelocked_empty(nbytes, np.uint8)
        try:
            yield memory
        finally:
            with self.context.guarded():
                memory.base.free()

    # --- kernels ---

    def build(self, source: Source, defines: Mapping[str, str], kernel: str) -> libcuda.LoadedModule:
        """Compile the file for this GPU and load it, or take it from memory or the disk cache."""
        key = (source, tuple(sorted(defines.items())), *(path.stat().st_mtime_ns for path in source.included))
        if key not in self._modules:
            image = nvcc.cubin(source, defines, self.arch)
            with self.context.guarded():
                self._modules[key] = libcuda.LoadedModule(self.context.library, image)
        return self._modules[key]

    def store(self, module: libcuda.LoadedModule, name: str, host: np.ndarray) -> np.ndarray:
        """Set a __constant__ or __device__ variable. Returns the bytes that it had."""
        with self.context.guarded():
            address, size = module.variable(name)
        before = np.empty(size, np.uint8)
        self.download(address, before)
        self.upload(address, sized(name, host, size))
        return before

    def launch(self, module: Any, name: str, grid: Dim3, block: Dim3, shared: int, arguments: Arguments) -> None:
        calls = self.queued(PlacedLaunch(module, name, grid, block, shared, arguments, arguments.places))
        with self.context.lock:
            self.memory.touch([array for _, array in arguments.arrays])
            self.context.queue(calls)

    def queued(self, launch: PlacedLaunch) -> list[libcuda.DriverCall]:
        """The calls that queue a launch, each time they are made."""
        return prepared(self.context, launch, self.processors)

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
            if context.capturing or context.dead or context.barred:
                context.must_live()
                self.memory.touch(arrays)
            context.launched.append(program.steps)
            for step in program.steps:
                if step():  # the driver has rejected a DriverCall
                    context.retry(step)
        return made

    def synchronize(self) -> None:
        """Wait for the stream; during a capture nothing runs, so no wait. Raises KernelError where a kernel failed."""
        with self.context.guarded():
            self.context.wait()

    def finish(self) -> None:
        """Wait for all that this process has queued on the GPU, on streams of other libraries too."""
        with self.context.guarded():
            self._driver.Context.synchronize()

    # --- graphs ---

    def replay(self, captured: CapturedGraph) -> None:
        with self.context.lock:
            self.context.queue([captured.launch])

    def touch(self, *arrays: Array) -> None:
        """Let the graph that this thread captures, if any, keep these arrays."""
        with self.context.lock:
            self.memory.touch(arrays)

    # --- measurements ---

    @cached_property
    def chip(self) -> Chip:
        """The numbers of this GPU that bound a kernel."""
        return chip_of(self)

    def attribute(self, name: str) -> int:
        """One number of the GPU by the driver's name for it: `MULTIPROCESSOR_COUNT`."""
        return self._device.get_attribute(getattr(self._driver.device_attribute, name))

    @property
    def place(self) -> tuple[str, str]:
        """The machine and the bus address, the same for every process that works on this GPU."""
        return platform.node(), self._device.pci_bus_id()

    @property
    def total_memory(self) -> int:
        """Bytes of global memory."""
        return self._device.total_memory()

    def resources(self, module: Any, name: str) -> tuple[int, int, int]:
        """Registers per thread, bytes of static shared memory and bytes of local memory of a compiled kernel."""
        with self.context.guarded():
            read = partial(libcuda.attribute, self.context.library, module.function(name))
            return read(libcuda.REGISTERS), read(libcuda.SHARED), read(libcuda.LOCAL)

    def mark(self) -> Any:
        """An event at this place in the stream."""
        with self.context.guarded():
            return self._driver.Event().record(self.stream)

    def passed(self, event: Any) -> bool:
        """True once the GPU has reached the event."""
        with self.context.guarded():
            return bool(event.query())

    def between(self, start: Any, stop: Any) -> float:
        """Seconds between two events; waits for both."""
        with self.context.guarded():
            stop.synchronize()
            return float(start.time_till(stop)) * 1e-3

    def close(self) -> None:
        """Return everything to the driver, in order: at exit nothing may be left to be freed without a context."""
        if self.context.dead:  # nothing can be freed, and PyCUDA would complain of each piece: so none is collected
            for lost in (self.memory, self.stream):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(lost))
            return
        with self.context.current():
            self.memory.close()
            while self._modules:
                self._modules.popitem()[1].unload()
            del self.stream, self.sender, self.context.stream
        self.context.primary.detach()


def count() -> int:
    """The GPUs of this machine. Raises DeviceError where PyCUDA, the driver or every GPU is missing."""
    return int(_driver().Device.count())


@cache
def _driver() -> Any:
    """pycuda.driver, initialised. Raises DeviceError with the missing part."""
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
