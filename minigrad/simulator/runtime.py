"""The C++ runtime of `sim`, loaded, and its device memory, which ends at unmapped pages."""

import ctypes
import mmap
import os
import threading
from collections.abc import Sequence
from typing import Any

from minigrad.devices.caches import once
from minigrad.devices.host_compiler import BuildError, find_compiler
from minigrad.errors import DeviceError
from minigrad.simulator.compiler import NATIVE, PORTABLE, RUNTIME, load

PAGE = mmap.PAGESIZE
MAX_RESIDENT = 16384  # threads of a cooperative launch, as in runtime.h
MAX_FREE = 512 * 2**20  # bytes that a pool keeps for reuse


class PagePool:
    """Device memory in whole pages, reused, as mapping new pages takes longer than many kernels.

        | unmapped | canary ... | the buffer | up to 15 bytes of canary | unmapped |

    A buffer begins at a multiple of 16 bytes, as on a GPU, so that a kernel may read it as float4s. It ends at the
    unmapped page if its size is a multiple of 16 bytes too, else up to 15 bytes before it.

    - An access to an unmapped page stops the thread at its line. 64 MiB are unmapped on either side, or 64 KiB if the
      address space of the process is limited (ulimit -v).
    - A write next to the buffer within its pages damages the canary, which is checked after each launch.
    - A read there returns the canary, NaN in every floating type, which shows in the result unless an operation drops
      it, as fmax does. Fresh memory is filled with it too.
    """

    def __init__(self, runtime: Any):
        self._map, self._unmap = runtime.minigrad_map, runtime.minigrad_unmap
        self._fill, self._damaged = runtime.minigrad_fill, runtime.minigrad_damaged
        self._free: dict[int, list[int]] = {}  # bytes -> addresses; list.append and list.pop need no lock
        self._free_bytes = 0

    def allocate(self, nbytes: int) -> "PageBuffer":
        """A buffer in pages of its own. Raises MemoryError."""
        size = -(-nbytes // PAGE) * PAGE
        base = self._reuse(size) or self._map(size)
        if not base:
            self.trim()
            base = self._map(size)
        if not base:
            raise MemoryError(f"{nbytes} bytes asked for; the system has none. Use smaller arrays, or del some.")
        self._fill(base, size)
        return PageBuffer(self, base, size, nbytes)

    def release(self, base: int, size: int) -> None:
        """Take pages back; above the limit, return all free pages to the system."""
        self._free.setdefault(size, []).append(base)
        self._free_bytes += size
        if self._free_bytes > MAX_FREE:
            self.trim()

    def trim(self) -> None:
        """Return the free pages to the system."""
        for size in list(self._free):
            while base := self._reuse(size):
                self._unmap(base, size)

    def _reuse(self, size: int) -> int | None:
        """Free pages of that size, if any; several threads may call this at once."""
        try:
            base = self._free[size].pop()
        except (KeyError, IndexError):
            return None
        self._free_bytes -= size
        return base

    def damaged(self, buffers: Sequence["PageBuffer"]) -> int:
        """The number of the first buffer with a damaged canary, which is restored; -1: none."""
        pairs = [number for buffer in buffers for number in (buffer.address, buffer.nbytes)]
        return self._damaged(len(buffers), (ctypes.c_uint64 * len(pairs))(*pairs))


class PageBuffer:
    """Memory that returns to the pool when this object is collected."""

    __slots__ = ("__weakref__", "_base", "_pool", "_size", "address", "nbytes")

    def __init__(self, pool: PagePool, base: int, size: int, nbytes: int):
        self._pool, self._base, self._size, self.nbytes = pool, base, size, nbytes
        self.address = base + size - (nbytes + 15) // 16 * 16

    def __del__(self) -> None:
        self._pool.release(self._base, self._size)


INT, U32, U64, POINTER = ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p


def fields(*groups: tuple[Any, str]) -> list[tuple[str, Any]]:
    """The fields of a C struct, from (type, names) in the order of its declaration."""
    return [(name, kind) for kind, names in groups for name in names.split()]


class LaunchRequest(ctypes.Structure):
    """The struct of that name in grid.cpp."""

    _fields_ = fields(
        (POINTER, "kernel packed"),
        (U32 * 3, "grid block"),
        (U32, "shared workers interruptible cooperative printed"),
        (ctypes.c_double, "timeout"),
    )


class FaultReport(ctypes.Structure):
    """The struct of that name in runtime.h, with its Fault: address, bytes and pc."""

    _fields_ = fields(
        (INT, "cause line"),
        (U64, "address bytes pc"),
        (INT, "has_thread"),
        (U32 * 3, "block thread"),
        (ctypes.c_char * 256, "file"),
        (ctypes.c_char * 512, "text"),
    )


@once
def runtime() -> Any:
    """The runtime library, loaded with global symbols for the kernels that are loaded later."""
    portable = ["-DMINIGRAD_PORTABLE"] if os.environ.get(PORTABLE) == "1" else []
    text = f'#include "{NATIVE / "runtime.cpp"}"\n'
    try:
        library, _ = load("runtime", text, (*RUNTIME, *portable), mode=ctypes.RTLD_GLOBAL)
    except BuildError as error:
        command = find_compiler().command[0]
        raise DeviceError(f"device 'sim': {command} does not compile the simulator.\n{error}") from error
    library.minigrad_launch.argtypes = [ctypes.c_void_p]
    library.minigrad_report.restype = ctypes.POINTER(FaultReport)
    library.minigrad_output.restype = ctypes.c_void_p
    library.minigrad_map.argtypes, library.minigrad_map.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.minigrad_unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.minigrad_fill.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.launching = threading.RLock()  # one launch at a time; a watch holds it around the launch
    os.register_at_fork(after_in_child=lambda: setattr(library, "launching", threading.RLock()))
    return library
