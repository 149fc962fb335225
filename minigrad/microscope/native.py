"""The checking build: the same `.cu`, with the instrumentation of the compiler's sanitizers, none of which is linked.

Its calls are answered by `native/hooks.cpp` of the simulator. Nothing is optimised away (-O0), so that an access in
the text is an access in the counts, with either compiler.
"""

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from minigrad.devices.host_compiler import GARBAGE, VOLATILE, find_compiler
from minigrad.simulator.compiler import KERNEL
from minigrad.simulator.module import Recipe
from minigrad.simulator.runtime import runtime

WATCHED = [
    *KERNEL, "-O0", "-DMINIGRAD_WATCHED", "-fsanitize=thread", GARBAGE,
    "-gdwarf-4",  # in version 5 files count from 0, and some addr2line take the second for the first
]  # fmt: skip
GCC = [
    "-fsanitize=bounds", "-fsanitize-recover=bounds", "-fsanitize-coverage=trace-pc",
    "--param", "tsan-instrument-func-entry-exit=0", VOLATILE,
]  # fmt: skip
_HIDDEN = (
    "tsan-instrument-func-entry-exit=0", "tsan-instrument-atomics=0",
    "tsan-instrument-read-before-write=1",  # of x += 1, too
    "tsan-distinguish-volatile=1",
    "sanitizer-coverage-prune-blocks=0",  # and every block of code, as GCC
)  # fmt: skip
CLANG = [
    "-fno-sanitize=undefined",  # which zig adds by itself where nothing is optimised
    "-fsanitize=alignment,integer-divide-by-zero,array-bounds", "-fsanitize-recover=array-bounds",
    "-fsanitize-coverage=bb,trace-pc",
    *(word for option in _HIDDEN for word in ("-mllvm", f"-{option}")),
]  # fmt: skip
# Where Clang has not renamed the copies of structs, the linker does.
WRAP = [] if sys.platform == "darwin" else [f"-Wl,--wrap={name}" for name in ("memcpy", "memmove", "memset")]


def recipe() -> Recipe:
    """The options for the compiler that this machine has."""
    is_clang = find_compiler().is_clang
    return Recipe([*WATCHED, *(CLANG if is_clang else GCC)], WRAP, once=not is_clang)


Kind = IntEnum("Kind", "READ WRITE ATOMIC ENTER", start=0)  # of an access: Access in watch.h
Wrong = IntEnum("Wrong", "RACE OUTSIDE UNINITIALISED INDEX", start=0)

PC = (1 << 30) - 1  # the bits above say whether an access was volatile or atomic, and for its block alone
STAMP = np.dtype([("epoch", "u4"), ("place", "u4"), ("pc", "u4")])
CELL = np.dtype([("write", STAMP), ("reads", STAMP, 2)])
PAIR = np.dtype([("at", STAMP, 2), ("serial", "u8", 2)])
RECORD = np.dtype([
    ("pc", "u4"), ("block", "u4"), ("phase", "u4"), ("sync", "u4"), ("thread", "u2"), ("access", "u1"),
    ("variable", "u1"), ("bytes", "u4"), ("offset", "i8"), ("turn", "u8"),
])  # fmt: skip
THREAD_BITS = 10


class Order(ctypes.Structure):
    """What is to be watched."""

    _fields_ = (
        ("packed", ctypes.c_uint64),
        ("packed_bytes", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("grid", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("kernel", ctypes.c_void_p),
        ("vectors", ctypes.c_uint32),
        ("buffers", ctypes.c_uint32),
        ("shared", ctypes.c_uint32),
        ("reversed", ctypes.c_uint32),
        ("careful", ctypes.c_uint32),
        ("bytes", ctypes.c_void_p),
        ("elements", ctypes.c_void_p),
        ("starts", ctypes.c_void_p),
    )


class Variable(ctypes.Structure):
    """A buffer or a shared array, with what is remembered of each of its elements."""

    _fields_ = (
        ("start", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("cells", ctypes.c_void_p),
        ("atomics", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("shift", ctypes.c_uint32),
        ("shared", ctypes.c_uint32),
        ("element", ctypes.c_uint32),
        ("align", ctypes.c_uint32),
        ("dims", ctypes.c_uint32),
        ("extent", ctypes.c_uint32 * 8),
        ("name", ctypes.c_char * 64),
    )


class Finding(ctypes.Structure):
    """Something wrong, as the runtime tells it."""

    _fields_ = (
        ("wrong", ctypes.c_int32),
        ("access", ctypes.c_int32),
        ("variable", ctypes.c_int32),
        ("count", ctypes.c_uint32),
        ("pc", ctypes.c_uint32),
        ("block", ctypes.c_uint32),
        ("thread", ctypes.c_uint32),
        ("other_access", ctypes.c_uint32),
        ("other_pc", ctypes.c_uint32),
        ("other_block", ctypes.c_uint32),
        ("other_thread", ctypes.c_uint32),
        ("line", ctypes.c_int32),
        ("column", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("file", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
    )


class Answer(ctypes.Structure):
    """What was seen, valid up to the end of the watch."""

    _fields_ = (
        ("variable", ctypes.POINTER(Variable)),
        ("findings", ctypes.POINTER(Finding)),
        ("records", ctypes.c_void_p),
        ("block_epochs", ctypes.c_void_p),
        ("variables", ctypes.c_uint64),
        ("found", ctypes.c_uint64),
        ("count", ctypes.c_uint64),
        ("full", ctypes.c_uint64),
        ("fenced", ctypes.c_uint32),
        ("turnable", ctypes.c_uint32),
        ("lost", ctypes.c_uint32),
    )


@dataclass
class Seen:
    """A copy of the answer."""

    variables: list[Variable]
    findings: list[Finding]
    records: np.ndarray
    _begun: int | None
    full: int  # where there were more records than room for them: that room; records is empty then
    fenced: bool  # some thread has passed a fence
    turnable: bool  # what happens may hang on who came first to a word: a release, or blocks that both change it
    lost: bool  # there was no room for some of what was found

    def blocks(self, epochs: np.ndarray, count: int) -> np.ndarray:
        """The block in which each epoch was, of so many; only while the watch lasts."""
        begun = _array(self._begun, count, np.dtype("u4"))
        return np.searchsorted(begun[begun > 0], epochs, "right") - 1

    def cells(self, number: int) -> np.ndarray:
        """What is remembered of each element of a variable; only while the watch lasts."""
        variable = self.variables[number]
        return _array(variable.cells, variable.count, CELL)

    def atomics(self, number: int) -> np.ndarray | None:
        """The same of its atomics, if there were some."""
        variable = self.variables[number]
        return _array(variable.atomics, variable.count, PAIR) if variable.atomics else None


@contextmanager
def watch(order: Order, buffers: Sequence[tuple[int, int]]) -> Iterator[np.ndarray]:
    """While it lasts, a launch is watched; gives the addresses at which the buffers, (bytes, element), have to be.

    Raises MemoryError. The caller holds the runtime's lock.
    """
    sizes = np.array([size for size, _ in buffers], np.uint64)
    elements = np.array([element for _, element in buffers], np.uint32)
    starts = np.zeros(len(buffers), np.uint64)
    order.buffers = len(buffers)
    order.bytes, order.elements, order.starts = sizes.ctypes.data, elements.ctypes.data, starts.ctypes.data
    library = runtime()
    try:
        if not library.minigrad_watch_begin(ctypes.byref(order)):
            raise MemoryError(f"the system has no memory to watch arrays of {int(sizes.sum())} bytes; inspect fewer.")
        yield starts
    finally:
        library.minigrad_watch_end()


def seen() -> Seen:
    """What the launch that is watched has done so far."""
    answer = Answer()
    runtime().minigrad_watch_result(ctypes.byref(answer))
    variables = [_copy(answer.variable[i]) for i in range(answer.variables)]
    return Seen(
        variables,
        [_copy(answer.findings[i]) for i in range(answer.found)],
        _array(answer.records, answer.count, RECORD),
        answer.block_epochs,
        answer.full,
        bool(answer.fenced),
        bool(answer.turnable),
        bool(answer.lost),
    )


def statics(buffers: int) -> list[tuple[int, bytes]]:
    """Where each __device__ variable lies and what is in it; before the launch they alone follow so many buffers."""
    return [(one.start, ctypes.string_at(one.start, one.bytes)) for one in seen().variables[buffers:]]


def _copy(one: Any) -> Any:
    return type(one).from_buffer_copy(one)


def _array(address: int | None, count: int, dtype: np.dtype) -> np.ndarray:
    if not address or not count:
        return np.zeros(0, dtype)
    return np.frombuffer(ctypes.string_at(address, count * dtype.itemsize), dtype)
