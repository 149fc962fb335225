"""Driver calls that PyCUDA lacks or makes slowly: their errors, loaded code, and calls that are queued."""

import ctypes
from collections.abc import Callable
from functools import partial
from typing import Any

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
        self.functions: dict[str, Any] = {}  # the handles of its kernels
        checked(library, "cuModuleLoadData", ctypes.byref(self._handle), image)

    def function(self, name: str) -> Any:
        """The handle of one of its kernels. Raises DriverError."""
        if name not in self.functions:
            handle = ctypes.c_void_p()
            checked(self._library, "cuModuleGetFunction", ctypes.byref(handle), self._handle, name.encode())
            self.functions[name] = ctypes.c_void_p.from_param(handle.value)
        return self.functions[name]

    def variable(self, name: str) -> tuple[int, int]:
        """The address and the bytes of a __constant__ or __device__ variable, also a static one. Raises DriverError."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        given = ctypes.byref(address), ctypes.byref(size), self._handle
        try:
            checked(self._library, "cuModuleGetGlobal_v2", *given, name.encode())
        except DriverError:
            checked(self._library, "cuModuleGetGlobal_v2", *given, f"_ZL{len(name)}{name}".encode())
        return address.value, size.value

    def unload(self) -> None:
        checked(self._library, "cuModuleUnload", self._handle)


def attribute(library: Any, function: Any, number: int) -> int:
    """REGISTERS per thread of a kernel, or bytes of static SHARED memory per block or of LOCAL memory per thread."""
    value = ctypes.c_int()
    checked(library, "cuFuncGetAttribute", ctypes.byref(value), number, function)
    return value.value


def blocks_at_once(library: Any, function: Any, threads: int, shared: int) -> int:
    """The blocks of a kernel that one multiprocessor runs at once."""
    value, dynamic = ctypes.c_int(), ctypes.c_size_t(shared)
    checked(library, "cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(value), function, threads, dynamic)
    return value.value


class LaunchAttribute(ctypes.Structure):
    """A property of a launch and its value, a union of 64 bytes: CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_int), ("rest", ctypes.c_int * 15)]


COOPERATIVE = LaunchAttribute(id=2, value=1)  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE: all blocks run at once, or none


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
