"""The error of a failed launch: what went wrong, in which thread and line, and the way out."""

import ctypes
import re
from enum import IntEnum
from math import lcm
from typing import Any, NamedTuple

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_ASKED, MAX_SHARED, Arguments
from minigrad.errors import KernelError, LaunchError
from minigrad.simulator.compiled_file import CompiledFile
from minigrad.simulator.diagnostics import locate

NULL_SPAN = 2**32  # bytes from null: an index into a null pointer; the system allocates nothing there
REACH = 2**35  # bytes from a buffer: as far as an int can index float4s

# In the order of runtime.h.
Cause = IntEnum(
    "Cause",
    "NONE ACCESS DIVISION MISALIGNED DIVERGENCE TIMEOUT ASSERT SHARED INTERRUPT ILLEGAL STACK SYSTEM SHARED_ACCESS "
    "WAITING",
    start=0,
)

GRID = (
    "on a GPU too, a block that waits may keep the other from its place: a barrier for the whole grid needs a "
    "cooperative launch, with no more blocks than run at once: mg.kernel(..., cooperative=True). Else end the kernel "
    "there, and launch a second one."
)


LONGER = "set get('sim').timeout of minigrad.devices for a kernel that takes longer."


class Diagnosis(NamedTuple):
    """A fault in words: kind and buffer as in KernelError, what happened, and the way out."""

    kind: str
    what: str
    way_out: str = ""
    buffer: str | None = None


def explain(
    report: Any, file: CompiledFile, kernel: str, shared: int, timeout: float, arguments: Arguments
) -> BaseException:
    """The exception for a failed launch, made from the runtime's FaultReport."""
    if report.cause == Cause.INTERRUPT:
        return KeyboardInterrupt(f"{kernel} was interrupted; what it has written is incomplete.")
    if report.cause == Cause.SHARED:
        static, dynamic = report.bytes - (shared + 15) // 16 * 16, f" and dynamic of {shared} bytes" if shared else ""
        return LaunchError(
            f"{kernel}: static shared memory of {static} bytes{dynamic}; a block may use "
            f"{MAX_SHARED if shared <= MAX_SHARED else MAX_ASKED}. "
            "Choose a smaller tile."
        )
    if report.cause == Cause.SYSTEM:
        return MemoryError(f"{kernel}: {report.text.decode() or 'the system has no memory for a worker'}.")
    own = file.source.name if file.source.before else ""  # a text in place of a file's kernel
    name, line = locate(file.path, report.pc, file.parts, own) or (report.file.decode(), report.line or None)
    found = _diagnose(report, file, kernel, timeout, arguments)
    block, thread = (tuple(i) if report.has_thread else None for i in (report.block, report.thread))
    where = [f"block {block}, thread {thread}"] if block else []
    where += [f"{name}({line})"] if line else []
    message = f"{kernel}: {', '.join([found.what, *where])}. {found.way_out}".strip()
    reason, address = f"{found.what}. {found.way_out}".strip(), report.address or None
    return KernelError(message, kernel, found.kind, found.buffer, block, thread, line, name or None, address, reason)


def damage(kernel: str, name: str, array: Array) -> KernelError:
    """The error for an array with an overwritten canary next to it."""
    message = (
        f"{kernel}: wrote outside {name} ({array.size} elements, {array.nbytes} bytes), within a page of its ends. "
        "Guard the access, as in if (i < n), and look for a negative index."
    )
    return KernelError(message, kernel, "out-of-bounds", name)


def _diagnose(report: Any, file: CompiledFile, kernel: str, timeout: float, arguments: Arguments) -> Diagnosis:
    text = report.text.decode(errors="replace")
    match report.cause:
        case Cause.ACCESS | Cause.MISALIGNED if report.address < NULL_SPAN:
            return _null(report.address, file, kernel, arguments)
        case Cause.ACCESS | Cause.MISALIGNED if 0 < report.address >> 47 < 2**17 - 1:
            way_out = "Check the pointer, which nothing may have set, and the index."
            return Diagnosis("illegal-access", "an access to an address that no memory has", way_out)
        case Cause.ACCESS:
            return _outside(report.address, arguments)
        case Cause.MISALIGNED:
            return _misaligned(report.address, re.sub(r"'|const |struct ", "", text), arguments)
        case Cause.SHARED_ACCESS:
            past = ctypes.c_int64(report.address).value
            place = f"{f'{past} bytes' if past else 'right'} behind" if past >= 0 else f"{-past} bytes before"
            what = f"an access begins {place} the end of the block's shared memory ({report.bytes} bytes)"
            return Diagnosis("out-of-bounds", what, "Check the index, and the size given to the launch.")
        case Cause.DIVISION:
            what = "integer division by zero, or of the lowest number by -1"
            return Diagnosis("division", what, "Check the divisor first.")
        case Cause.DIVERGENCE:
            way_out = "Move the call out of the condition, so that every thread makes it."
            if "leaves it out" in text:
                way_out = (
                    "Name in the mask every lane that makes the call, as 0xffffffff for a whole warp; or let the lanes "
                    "of the mask alone make it."
                )
            if "have returned" in text:
                way_out = (
                    "Move the call out of the condition, and let no thread return before it: what it must not touch "
                    "goes into a guard, as in if (i < n)."
                )
            return Diagnosis("barrier-divergence", f"not all threads reach the same call; {text}", way_out)
        case Cause.TIMEOUT if "begun" in text:  # of a cooperative launch
            what = f"still running after {timeout:g} s; {text}, and the others wait for their turn"
            way_out = (
                "It comes where a block waits by an atomic or calls __nanosleep(), as grid_barrier of grid_barrier.cuh "
                f"does. Else {LONGER}"
            )
            return Diagnosis("timeout", what, way_out)
        case Cause.TIMEOUT | Cause.WAITING if text and arguments.cooperative:
            after = f"still running after {timeout:g} s; " * (report.cause == Cause.TIMEOUT)
            what = f"{after}{text} wait for memory to change, and none is left that changes it"
            way_out = (
                "At a barrier of the grid each block must arrive as often as the others expect, with all its threads, "
                "at a counter that begins at 0."
            )
            return Diagnosis("timeout", what, way_out)
        case Cause.TIMEOUT if text:  # the number of running blocks, all of which seem to wait
            what = f"still running after {timeout:g} s; {text} run at once here, and these wait for memory to change"
            return Diagnosis("timeout", what, f"If for one that has not begun: {GRID} Else {LONGER}")
        case Cause.TIMEOUT:
            way_out = f"Look for a loop that does not end; {LONGER}"
            return Diagnosis("timeout", f"still running after {timeout:g} s", way_out)
        case Cause.WAITING:
            what = f"waits for another block to change memory; {text} run at once here, and all of these wait"
            return Diagnosis("timeout", what, GRID[0].upper() + GRID[1:])
        case Cause.ASSERT if text == "grid_group::sync":
            way_out = "There all blocks run at once, so that they can meet: mg.kernel(..., cooperative=True)."
            return Diagnosis("assert", f"{text} outside a cooperative launch", way_out)
        case Cause.ASSERT:
            return Diagnosis("assert", f"assert({text}) failed" if text != "__trap()" else "__trap() was called")
        case Cause.STACK:
            way_out = "Make its local arrays smaller or its recursion shallower."
            return Diagnosis("illegal-access", "a thread used more than 128 KB of stack", way_out)
    return Diagnosis("illegal-access", "an illegal instruction: the compiler found this code to have no meaning")


def _null(address: int, file: CompiledFile, kernel: str, arguments: Arguments) -> Diagnosis:
    """Names the pointer parameters that received None, any of which may be the one."""
    pairs = zip(file.source.kernels[kernel].params, arguments.packed._fields_, strict=True)
    names = [p.name for p, field in pairs if p.pointer and getattr(arguments.packed, field[0]) is None]
    if not names:
        what = f"access to address {address:#x}, through a null pointer"
        return Diagnosis("null-pointer", what, "Check the pointer.")
    way_out = f"Check it before use: if ({names[0]})."
    return Diagnosis("null-pointer", f"{' or '.join(names)} is a null pointer", way_out, names[0])


def _outside(address: int, arguments: Arguments) -> Diagnosis:
    name, array = _nearest(address, arguments)
    if name is None or array is None:
        return Diagnosis("out-of-bounds", f"access to address {address:#x}, where no buffer is", "Check the index.")
    index, past = (address - array.address) // array.dtype.itemsize, address - array.address - array.nbytes
    place = "past the end" if past >= 0 else "before the start"
    what = f"{name}[{index}] is {place} of {name} ({array.size} element{'s' * (array.size != 1)})"
    return Diagnosis("out-of-bounds", what, "Guard the access, as in if (i < n).", name)


def _misaligned(address: int, rule: str, arguments: Arguments) -> Diagnosis:
    """`rule` is, e.g., "float4 must begin at a multiple of 16 bytes"."""
    rule = f"{'an' if rule[0] in 'aeiou' else 'a'} {rule}"
    name, array = _nearest(address, arguments)
    if name is None or array is None or not 0 <= address - array.address < array.nbytes:
        return Diagnosis("misaligned", f"access to address {address:#x}; {rule}", "Check the pointer's alignment.")
    index, inside = divmod(address - array.address, array.dtype.itemsize)
    if inside:
        way_out = "Copy by memcpy what begins at any byte, or read single bytes."
        what = f"access to byte {inside} of {name}[{index}]; {rule}"
        return Diagnosis("misaligned", what, way_out, name)
    step = lcm(int(re.findall(r"(\d+) bytes$", rule)[0]), array.dtype.itemsize) // array.dtype.itemsize
    way_out = f"Let it begin at a multiple of {step} elements of {name}."
    return Diagnosis("misaligned", f"access to {name}[{index}]; {rule}", way_out, name)


def _nearest(address: int, arguments: Arguments) -> tuple[str, Array] | tuple[None, None]:
    """The array argument nearest to the address."""

    def distance(pair: tuple[str, Array]) -> int:
        start = pair[1].address
        return max(start - address, address - (start + pair[1].nbytes) + 1, 0)

    found = min(arguments.arrays, key=distance, default=None)
    return found if found and distance(found) < REACH else (None, None)
