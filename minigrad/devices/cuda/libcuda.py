"""Driver calls that PyCUDA lacks or makes slowly: loading code, cuLaunchKernelEx, stream capture, graph launch."""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from minigrad.errors import LaunchError

RELAXED = 2  # the capture mode in which memory may be allocated
NON_BLOCKING = 1  # a stream that does not wait for the default stream, where others launch: that costs each launch time
SHARED, LOCAL, REGISTERS, MAX_DYNAMIC_SHARED = 1, 3, 4, 8  # CU_FUNC_ATTRIBUTE_... of a function


class DriverError(Exception):
    """A call that the driver rejected, in the driver's words."""


def load() -> Any:
    """The library that PyCUDA has loaded. Python keeps its global lock during these calls.

    None of them waits for a kernel to end; only where the GPU's queue is full does one wait for a free entry. Other
    threads still get their turn after each call. A call that released the lock would get it back from a computing
    thread only after that thread's time slice of 5 ms, and nearly every call is a thousand times shorter.
    """
    library = ctypes.PyDLL("libcuda.so.1")
    library.cuMemcpyDtoDAsync_v2.argtypes = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    library.cuMemsetD8Async.argtypes = ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p
    return library


def error_of(library: Any, call: str, status: int) -> DriverError:
    """The driver's words for the status of a call."""
    text = ctypes.c_char_p()
    library.cuGetErrorString(status, ctypes.byref(text))
    return DriverError(f"{call} failed: {(text.value or b'status %d' % status).decode()}")


def checked(library: Any, name: str, *arguments: Any) -> None:
    """Call the driver. Raises DriverError."""
    if status := getattr(library, name)(*arguments):
        raise error_of(library, name, status)


class LoadedModule:
    """A cubin, loaded into the current context."""

    def __init__(self, library: Any, image: bytes):
        self._library, self._handle = library, ctypes.c_void_p()
        self.functions: dict[str, KernelFunction] = {}
        checked(library, "cuModuleLoadData", ctypes.byref(self._handle), image)

    def function(self, name: str) -> "KernelFunction":
        """One of its kernels. Raises DriverError."""
        if name not in self.functions:
            handle = ctypes.c_void_p()
            checked(self._library, "cuModuleGetFunction", ctypes.byref(handle), self._handle, name.encode())
            self.functions[name] = KernelFunction(self._library, ctypes.c_void_p.from_param(handle.value))
        return self.functions[name]

    def unload(self) -> None:
        """Return it to the driver."""
        checked(self._library, "cuModuleUnload", self._handle)


class KernelFunction:
    """A kernel of a loaded module."""

    def __init__(self, library: Any, handle: Any):
        self._library, self.handle = library, handle

    def attribute(self, number: int) -> int:
        """REGISTERS per thread, or bytes of static SHARED memory per block or of LOCAL memory per thread."""
        value = ctypes.c_int()
        checked(self._library, "cuFuncGetAttribute", ctypes.byref(value), number, self.handle)
        return value.value

    def allow_shared(self, nbytes: int) -> None:
        """Let launches ask for this much dynamic shared memory."""
        checked(self._library, "cuFuncSetAttribute", self.handle, MAX_DYNAMIC_SHARED, nbytes)


class LaunchConfig(ctypes.Structure):
    """The extents of a launch as the driver takes them: CUlaunchConfig."""

    _fields_ = [
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


class DriverCall(partial):
    """A driver function with its arguments; called with nothing, it returns the driver's status."""

    name = ""  # of the kernel, if it launches one
    message: Callable[[Exception], str]  # the error message where the driver rejects it
    keep: Any = None  # memory that the arguments point to


class StreamCapture:
    """Record what is queued on a stream, from `begin` until `end`, and run none of it."""

    def __init__(self, library: Any, stream: int):
        self._library, self._stream = library, ctypes.c_void_p(stream)

    def begin(self) -> None:
        """Start to record. Raises LaunchError."""
        self._call("cuStreamBeginCapture_v2", self._stream, RELAXED)

    def end(self) -> "GraphExec":
        """The recorded graph, ready to be launched. Raises LaunchError."""
        graph = self._end()
        try:
            count, instance = ctypes.c_size_t(), ctypes.c_void_p()
            self._call("cuGraphGetNodes", graph, None, ctypes.byref(count))
            self._call("cuGraphInstantiateWithFlags", ctypes.byref(instance), graph, ctypes.c_ulonglong(0))
        finally:
            self._library.cuGraphDestroy(graph)
        return GraphExec(self._library, instance, self._stream, count.value)

    def abandon(self) -> None:
        """Drop the record. A capture that a forbidden call has spoilt ends by itself: its error is of no interest."""
        with suppress(LaunchError):
            self._library.cuGraphDestroy(self._end())

    def _end(self) -> ctypes.c_void_p:
        graph = ctypes.c_void_p()
        self._call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        return graph

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            checked(self._library, name, *arguments)
        except DriverError as error:
            raise LaunchError(f"{error}; this step cannot be captured. Run it without graph.") from error


class GraphExec:
    """A captured sequence of launches, copies and fills."""

    def __init__(self, library: Any, instance: ctypes.c_void_p, stream: ctypes.c_void_p, nodes: int):
        self._library, self._instance, self.nodes = library, instance, nodes
        self.call = DriverCall(library.cuGraphLaunch, instance, stream)
        self.call.message = lambda error: f"the GPU rejected the replay of a graph: {error}. Make a new mg.graph."

    def close(self) -> None:
        """Return the graph to the driver."""
        self._library.cuGraphExecDestroy(self._instance)
