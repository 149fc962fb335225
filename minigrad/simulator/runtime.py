"""Device memory of `sim`: every buffer ends at an unmapped page, so that the processor itself checks bounds."""

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
HELD = 512 * 2**20  # bytes that a pool keeps for reuse at most


class Pool:
    """Memory by whole pages, kept after use: mapping it anew costs more than many a kernel.

        | unmapped | canary ... | the buffer | up to 15 bytes of canary | unmapped |

    A buffer begins at a multiple of 16 bytes, for a kernel may read its floats by fours, as it may on a GPU. So it ends
    flush with the unmapped page where its size is such a multiple, and up to 15 bytes before it elsewhere.

    - An access to an unmapped page stops the thread at its line. There are 64 MiB of them on either side, or 64 KiB if
      the process may not have any number of addresses (ulimit -v).
    - A write beside the buffer in its own pages damages the canary, which is looked at after each launch.
    - A read there finds the canary, NaN in every floating type, which then stands in the result. It goes unseen where
      the result does not depend on it, as that of fmax does not. Fresh memory holds the same.
    """

    def __init__(self, runtime: Any):
        self._map, self._unmap = runtime.minigrad_map, runtime.minigrad_unmap
        self._fill, self._damaged = runtime.minigrad_fill, runtime.minigrad_damaged
        self._free: dict[int, list[int]] = {}  # bytes -> addresses; list.append and list.pop need no lock
        self._held = 0

    def allocate(self, nbytes: int) -> "GuardedBuffer":
        """A buffer of its own pages. Raises MemoryError with the number."""
        size = -(-nbytes // PAGE) * PAGE
        base = self._reuse(size) or self._map(size)
        if not base:
            self.trim()
            base = self._map(size)
        if not base:
            raise MemoryError(f"{nbytes} bytes asked for; the system has none. Use smaller arrays, or del some.")
        self._fill(base, size)
        return GuardedBuffer(self, base, size, nbytes)

    def release(self, base: int, size: int) -> None:
        """Take pages back; past the limit, give all that lie unused to the system."""
        self._free.setdefault(size, []).append(base)
        self._held += size
        if self._held > HELD:
            self.trim()

    def trim(self) -> None:
        """Give unused pages back to the system."""
        for size in list(self._free):
            while base := self._reuse(size):
                self._unmap(base, size)

    def _reuse(self, size: int) -> int | None:
        """Unused pages, if there are any: several threads may ask at once."""
        try:
            base = self._free[size].pop()
        except (KeyError, IndexError):
            return None
        self._held -= size
        return base

    def damaged(self, buffers: Sequence["GuardedBuffer"]) -> int:
        """The first of the buffers that was written beside its ends, or -1. Its canary is mended."""
        pairs = [number for buffer in buffers for number in (buffer.address, buffer.nbytes)]
        return self._damaged(len(buffers), (ctypes.c_uint64 * len(pairs))(*pairs))


class GuardedBuffer:
    """Memory that goes back to the pool when this object is collected."""

    __slots__ = ("__weakref__", "_base", "_pool", "_size", "address", "nbytes")

    def __init__(self, pool: Pool, base: int, size: int, nbytes: int):
        self._pool, self._base, self._size, self.nbytes = pool, base, size, nbytes
        self.address = base + size - (nbytes + 15) // 16 * 16

    def __del__(self) -> None:
        self._pool.release(self._base, self._size)


Index = ctypes.c_uint32 * 3


class Order(ctypes.Structure):
    """A launch, as grid.cpp takes it."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("packed", ctypes.c_void_p),
        ("grid", Index),
        ("block", Index),
        ("shared", ctypes.c_uint32),
        ("workers", ctypes.c_uint32),
        ("interruptible", ctypes.c_uint32),
        ("printed", ctypes.c_uint32),
        ("timeout", ctypes.c_double),
    )


class Report(ctypes.Structure):
    """What went wrong, as runtime.h has it."""

    _fields_ = (
        ("cause", ctypes.c_int),
        ("line", ctypes.c_int),
        ("address", ctypes.c_uint64),  # these three are a Fault
        ("bytes", ctypes.c_uint64),
        ("pc", ctypes.c_uint64),
        ("has_thread", ctypes.c_int),
        ("block", Index),
        ("thread", Index),
        ("file", ctypes.c_char * 256),
        ("text", ctypes.c_char * 512),
    )


@once
def runtime() -> Any:
    """The runtime, loaded. Its names are made visible to the kernels that are loaded later."""
    portable = ["-DMINIGRAD_PORTABLE"] if os.environ.get(PORTABLE) == "1" else []
    text = f'#include "{NATIVE / "runtime.cpp"}"\n'
    try:
        library, _ = load("runtime", text, [*RUNTIME, *portable], mode=ctypes.RTLD_GLOBAL)
    except BuildError as error:
        command = find_compiler().command[0]
        raise DeviceError(f"device 'sim': {command} does not compile the simulator.\n{error}") from error
    library.minigrad_launch.argtypes = [ctypes.c_void_p]
    library.minigrad_report.restype = ctypes.POINTER(Report)
    library.minigrad_output.restype = ctypes.c_void_p
    library.minigrad_map.argtypes, library.minigrad_map.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.minigrad_unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.minigrad_fill.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.launching = threading.RLock()  # the runtime has one launch at a time; who watches holds it around one
    os.register_at_fork(after_in_child=lambda: setattr(library, "launching", threading.RLock()))
    return library
