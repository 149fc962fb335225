"""The checking build of a `.cu` file, and the records of a watched launch.

The build has the instrumentation of the compiler's sanitizers, none of which is linked: the simulator's
`native/hooks.cpp` defines their hooks. Nothing is optimised away (-O0), so that each access in the text is an access in
the counts, with either compiler.
"""

import ctypes
import re
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import numpy as np

from minigrad.devices.host_compiler import GARBAGE, STRICT, VOLATILE, find_compiler
from minigrad.simulator.compiled_file import Recipe
from minigrad.simulator.compiler import KERNEL
from minigrad.simulator.runtime import INT, POINTER, U32, U64, fields, runtime

WATCHED = [
    *KERNEL, "-O0", "-DMINIGRAD_WATCHED", "-fsanitize=thread", GARBAGE, "-ffunction-sections",
    "-fno-omit-frame-pointer",
    # Version 5 counts files from 0, and some addr2line take the second for the first. Lines are read, and no variables.
    "-gdwarf-4", "-g1",
]  # fmt: skip
GCC = [
    "-fsanitize=bounds-strict,float-cast-overflow,shift-exponent",  # strict: of the last member of a struct too
    "-fsanitize-recover=bounds-strict,float-cast-overflow,shift-exponent", "-fsanitize-coverage=trace-pc",
    "--param", "tsan-instrument-func-entry-exit=0", VOLATILE,
]  # fmt: skip
_HIDDEN = (
    "tsan-instrument-func-entry-exit=0", "tsan-instrument-atomics=0",
    "tsan-instrument-read-before-write=1",  # of x += 1 too
    "tsan-distinguish-volatile=1",
    "sanitizer-coverage-prune-blocks=0",  # every basic block, as GCC
)  # fmt: skip
CLANG = [
    "-fno-sanitize=undefined",  # zig adds it where nothing is optimised
    "-fsanitize=alignment,integer-divide-by-zero,array-bounds,float-cast-overflow,shift-exponent",
    "-fsanitize-recover=array-bounds,float-cast-overflow,shift-exponent",
    STRICT, "-fsanitize-coverage=bb,trace-pc",
    *(word for option in _HIDDEN for word in ("-mllvm", f"-{option}")),
]  # fmt: skip
# The linker leaves out functions that nothing calls, as the optimiser does, and with them what is declared only.
NEEDED = ("-Wl,-dead_strip",) if sys.platform == "darwin" else ("-Wl,--gc-sections",)
# Some versions of Clang do not rename the calls that copy structs; the linker does. And memory of malloc is noted.
_WRAPPED = ("memcpy", "memmove", "memset", "malloc")
WRAP = () if sys.platform == "darwin" else tuple(f"-Wl,--wrap={name}" for name in _WRAPPED)


# With it GCC copies by a function, which is instrumented, a struct that is handed over by value; and also one that is
# returned by its name, so that what has a destructor ends once more.
COPIES = "-fno-elide-constructors"
_DESTRUCTOR = re.compile(r"~\s*\w+\s*\(\s*\)[^;{}]*\{")


def recipe(text: str) -> Recipe:
    """The options of the checking build of a text for this machine's compiler."""
    if find_compiler().is_clang:
        return Recipe((*WATCHED, *CLANG), (*NEEDED, *WRAP), note_updates=True)
    copies = () if _DESTRUCTOR.search(text) else (COPIES,)
    return Recipe((*WATCHED, *GCC, *copies), (*NEEDED, *WRAP), evaluate_once=True, note_updates=True)


# The enums and structs of shadow_memory.h and watched_launch.cpp.
Kind = IntEnum("Kind", "READ WRITE ATOMIC ENTER", start=0)  # of an access
ProblemKind = IntEnum(
    "ProblemKind",
    "RACE OUTSIDE UNINITIALISED INDEX EARLY ELEMENT MISSED SKIPPED RETURNED UNNAMED UNSET UNLIKE",
    start=0,
)

PC = (1 << 30) - 1  # the bits above it: volatile or atomic; atomic with block scope
STAMP = np.dtype([("epoch", "u4"), ("thread_clock", "u4"), ("pc", "u4")])
CELL = np.dtype([("write", STAMP), ("reads", STAMP, 2)])
ATOMIC_CELL = np.dtype([("at", STAMP, 2), ("serial", "u8", 2)])
RECORD = np.dtype([
    ("pc", "u4"), ("block", "u4"), ("phase", "u4"), ("warp_ops", "u4"), ("thread", "u2"), ("access", "u1"),
    ("variable", "u1"), ("bytes", "u4"), ("offset", "i8"), ("iteration", "u8"),
])  # fmt: skip
THREAD_BITS = 10
Rows = Any  # a structured array: its fields have no types in NumPy, which mypy needs seconds to find


class WatchRequest(ctypes.Structure):
    """The launch to watch."""

    _fields_ = fields(
        (U64, "packed packed_bytes blocks grid limit"),
        (POINTER, "kernel foreign"),
        (U64, "foreign_bits"),
        (U32, "vectors buffers shared reversed keep_history cooperative"),
        (POINTER, "bytes elements starts"),
    )


class ShadowedVariable(ctypes.Structure):
    """A buffer, a __device__ variable or a shared array, with the shadow memory of its elements."""

    _fields_ = fields(
        (U64, "start bytes"),
        (POINTER, "cells atomics"),
        (U64, "count"),
        (U32, "shift shared element align partial dims"),
        (U32 * 8, "extent"),
        (ctypes.c_char * 64, "name"),
    )


class Finding(ctypes.Structure):
    """A problem as the runtime reports it."""

    _fields_ = fields(
        (INT, "kind access variable"),
        (U32, "count pc block thread other_access other_pc other_block other_thread"),
        (INT, "line column"),
        (ctypes.c_int64, "offset"),
        (ctypes.c_char_p, "file type"),
        (U32, "differs extent"),
        (ctypes.c_double, "value"),
    )


class WatchResult(ctypes.Structure):
    """The runtime's records, valid until the end of the watch."""

    _fields_ = fields(
        (ctypes.POINTER(ShadowedVariable), "variable"),
        (ctypes.POINTER(Finding), "findings"),
        (POINTER, "records block_epochs"),
        (U64, "variables found count full"),
        (U32, "fenced order_dependent lost cooperative"),
    )


class Observations:
    """The findings of the runtime in the watched launch so far, copied, and its records, which it hands over."""

    def __init__(self) -> None:
        result = WatchResult()
        runtime().minigrad_watch_result(ctypes.byref(result))
        self.variables = [_copy(result.variable[i]) for i in range(result.variables)]
        self.findings = [_copy(result.findings[i]) for i in range(result.found)]
        self.records = _kept(result.records, result.count)
        self.full: int = result.full  # where there were more records than the limit: the limit; records is empty then
        self.fenced = bool(result.fenced)  # some thread has passed a fence
        self.order_dependent = bool(result.order_dependent)  # on which block came first to a word, or on a release
        self.cooperative = bool(result.cooperative)
        self.lost = bool(result.lost)  # there were more findings than the runtime keeps
        self._block_epochs = result.block_epochs

    def blocks(self, epochs: np.ndarray, count: int) -> np.ndarray:
        """The block of each epoch, in a grid of `count` blocks; only during the watch."""
        starts = _array(self._block_epochs, count, np.dtype("u4"))
        return np.searchsorted(starts[starts > 0], epochs, "right") - 1

    def cells(self, number: int) -> np.ndarray:
        """The shadow cells of a variable; only during the watch."""
        return _array(self.variables[number].cells, self.variables[number].count, CELL)

    def atomics(self, number: int) -> np.ndarray | None:
        """The shadow cells for atomics, if the variable had any; only during the watch."""
        variable = self.variables[number]
        return _array(variable.atomics, variable.count, ATOMIC_CELL) if variable.atomics else None


@contextmanager
def watch(request: WatchRequest, buffers: Sequence[tuple[int, int]]) -> Iterator[np.ndarray]:
    """Watch the launches in the block. Yields the addresses for the buffers, each (bytes, bytes of an element).

    Raises MemoryError. The caller holds the runtime's lock.
    """
    sizes = np.array([size for size, _ in buffers], np.uint64)
    elements = np.array([element for _, element in buffers], np.uint32)
    starts = np.zeros(len(buffers), np.uint64)
    request.buffers = len(buffers)
    request.bytes, request.elements, request.starts = sizes.ctypes.data, elements.ctypes.data, starts.ctypes.data
    library = runtime()
    try:
        if not library.minigrad_watch_begin(ctypes.byref(request)):
            raise MemoryError(f"the system has no memory to watch arrays of {int(sizes.sum())} bytes; inspect fewer.")
        yield starts
    finally:
        library.minigrad_watch_end()


def _copy(one: Any) -> Any:
    return type(one).from_buffer_copy(one)


def _kept(address: int | None, count: int) -> Rows:
    """The records where they are, which may be hundreds of megabytes; freed with the last view of them."""
    if not address or not count:
        return np.zeros(0, RECORD)
    library = runtime()
    library.minigrad_keep_records()
    memory = (ctypes.c_char * (count * RECORD.itemsize)).from_address(address)
    weakref.finalize(memory, library.minigrad_free_records, ctypes.c_void_p(address)).atexit = False
    return np.frombuffer(memoryview(memory), RECORD)


def _array(address: int | None, count: int, dtype: np.dtype) -> np.ndarray:
    if not address or not count:
        return np.zeros(0, dtype)
    return np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype)
