"""Calls of the CUDA driver that PyCUDA has not, or at several times the cost: launches, and graphs of them."""

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from minigrad.errors import LaunchError

RELAXED = 2  # the mode of a capture in which memory may be taken
NON_BLOCKING = 1  # a stream that does not wait for the default stream, where others launch: that costs each launch time
SHARED, LOCAL, REGISTERS, MOST_SHARED = 1, 3, 4, 8  # the driver's numbers for what is known of a function


class Refused(Exception):
    """What a call that failed says."""


def load() -> Any:
    """The library that PyCUDA has loaded. Python's own lock is kept during its calls.

    None of them waits for a kernel to end; only where the GPU's queue is full does one wait for a place in it. Other
    threads get their turn after each call even so. A call that gave the lock up would get it back from a thread that
    computes after that one's turn, of 5 ms, and nearly every call is a thousand times shorter.
    """
    library = ctypes.PyDLL("libcuda.so.1")
    library.cuMemcpyDtoDAsync_v2.argtypes = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    library.cuMemsetD8Async.argtypes = ctypes.c_uint64, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p
    return library


def why(library: Any, call: str, status: int) -> Refused:
    """The driver's words for the status of a call."""
    text = ctypes.c_char_p()
    library.cuGetErrorString(status, ctypes.byref(text))
    return Refused(f"{call} failed: {(text.value or b'status %d' % status).decode()}")


class Module:
    """Compiled code, loaded into the current context."""

    def __init__(self, library: Any, image: bytes):
        self._library, self._handle = library, ctypes.c_void_p()
        self.functions: dict[str, Function] = {}
        self.call("cuModuleLoadData", ctypes.byref(self._handle), image)

    def function(self, name: str) -> "Function":
        """One of its kernels."""
        if name not in self.functions:
            handle = ctypes.c_void_p()
            self.call("cuModuleGetFunction", ctypes.byref(handle), self._handle, name.encode())
            self.functions[name] = Function(self, ctypes.c_void_p.from_param(handle.value))
        return self.functions[name]

    def call(self, name: str, *arguments: Any) -> None:
        """Call the driver. Raises Refused."""
        if status := getattr(self._library, name)(*arguments):
            raise why(self._library, name, status)

    def unload(self) -> None:
        """Give it back to the driver."""
        self.call("cuModuleUnload", self._handle)


class Function:
    """A kernel of a module."""

    def __init__(self, module: Module, handle: Any):
        self.module, self.handle = module, handle

    def attribute(self, number: int) -> int:
        """What the driver knows of it: REGISTERS a thread; bytes of SHARED memory a block, of LOCAL memory a thread."""
        value = ctypes.c_int()
        self.module.call("cuFuncGetAttribute", ctypes.byref(value), number, self.handle)
        return value.value

    def allow_shared(self, nbytes: int) -> None:
        """Let launches ask for so much dynamic shared memory."""
        self.module.call("cuFuncSetAttribute", self.handle, MOST_SHARED, nbytes)


class LaunchConfig(ctypes.Structure):
    """The extents of a launch as the driver takes them: CUlaunchConfig."""

    _fields_ = [
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


class Context:
    """The primary context, to be made current on a thread that has none."""

    def __init__(self, library: Any, handle: int):
        self._get, self._set = library.cuCtxGetCurrent, library.cuCtxSetCurrent
        self._handle, self._found = handle, ctypes.c_void_p()
        self._place = ctypes.byref(self._found)

    def claim(self) -> bool:
        """Make it current where the thread has no context. Whether it is current then: another stays as it is."""
        self._get(self._place)
        if self._found.value is None:
            self._set(ctypes.c_void_p(self._handle))
            return True
        return self._found.value == self._handle


class Queue(partial):
    """A call of the driver with its arguments, called with nothing: it gives the driver's status."""

    name = ""  # of a kernel
    refusal: Callable[[Exception], str]  # what to say where it is refused
    keep: Any = None  # what the arguments point to


class Capture:
    """What is queued on a stream is noted instead, from `begin` until `end`."""

    def __init__(self, library: Any, stream: int):
        self._library, self._stream = library, ctypes.c_void_p(stream)

    def begin(self) -> None:
        """From now on."""
        self._call("cuStreamBeginCapture_v2", self._stream, RELAXED)

    def end(self) -> "Replay":
        """What was noted, ready to be launched as one."""
        graph = self._ended()
        try:
            count, made = ctypes.c_size_t(), ctypes.c_void_p()
            self._call("cuGraphGetNodes", graph, None, ctypes.byref(count))
            self._call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_ulonglong(0))
        finally:
            self._library.cuGraphDestroy(graph)
        return Replay(self._library, made, self._stream, count.value)

    def abandon(self) -> None:
        """Forget what was noted; the stream is as before. What something forbidden has ended is over by itself."""
        with suppress(LaunchError):
            self._library.cuGraphDestroy(self._ended())

    def _ended(self) -> ctypes.c_void_p:
        graph = ctypes.c_void_p()
        self._call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        return graph

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            refused = why(self._library, name, status)
            raise LaunchError(f"{refused}; this step cannot be captured. Run it without graph.")


class Replay:
    """A captured sequence of launches."""

    def __init__(self, library: Any, made: ctypes.c_void_p, stream: ctypes.c_void_p, nodes: int):
        self._library, self._made, self.nodes = library, made, nodes
        self.queue = Queue(library.cuGraphLaunch, made, stream)
        self.queue.refusal = lambda error: f"the GPU refused to replay a graph: {error}. Make a new mg.graph."

    def close(self) -> None:
        """Give the graph back to the driver."""
        self._library.cuGraphExecDestroy(self._made)
