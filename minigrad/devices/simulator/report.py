"""What went wrong in a kernel, as a KernelError: which buffer, how far outside, which thread, which line."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from minigrad.array import Array
from minigrad.devices.base import MAX_SHARED, Arguments, Dim3
from minigrad.errors import KernelError, LaunchError

if TYPE_CHECKING:
    from minigrad.devices.simulator import Module
    from minigrad.devices.simulator.runtime import Report

# In the order of runtime.h.
(
    NONE, ACCESS, DIVISION, MISALIGNED, DIVERGENCE, TIMEOUT,
    ASSERT, SHARED, INTERRUPT, ILLEGAL, STACK, SYSTEM, SHARED_ACCESS,
) = range(13)  # fmt: skip
FAR = 2**32  # bytes from null: an index into nothing, and no address that the system gives
REACH = 2**35  # bytes from a buffer: as far as an int can index float4s


def explain(
    report: "Report", module: "Module", kernel: str, shared: int, timeout: float, arguments: Arguments
) -> BaseException:
    """The exception for a launch that failed."""
    if report.kind == INTERRUPT:
        return KeyboardInterrupt(f"{kernel} was interrupted; what it has written is incomplete.")
    if report.kind == SHARED:
        return LaunchError(_too_much_shared(kernel, report.bytes - -(-shared // 16) * 16, shared))
    if report.kind == SYSTEM:
        return MemoryError(f"{kernel}: {report.text.decode()}.")
    file, line = (report.file.decode(), report.line) if report.line else locate(module, report.pc)
    kind, buffer, words = _what(report, arguments, _nulls(module, kernel, arguments), timeout)
    block: Dim3 | None = tuple(report.block) if report.has_thread else None
    thread: Dim3 | None = tuple(report.thread) if report.has_thread else None
    what, _, way_out = words.partition(" -> ")
    where = [f"block {block}, thread {thread}"] if block else []
    where += [f"{file}({line})"] if line else []
    message = f"{kernel}: {', '.join([what, *where])}. {way_out}".strip()
    return KernelError(message, kernel, kind, buffer, block, thread, line)


def _what(report: "Report", arguments: Arguments, nulls: list[str], timeout: float) -> tuple[str, str | None, str]:
    """Kind, buffer, and the words: what went wrong -> the way out."""
    text = report.text.decode(errors="replace")
    if report.kind in (ACCESS, MISALIGNED) and report.address < FAR:
        return _null(report.address, nulls)
    if report.kind == ACCESS:
        name, array = _nearest(report.address, arguments)
        if name is None or array is None:
            return (
                "out-of-bounds",
                None,
                f"access to address {report.address:#x}, where no buffer is -> Check the index.",
            )
        return "out-of-bounds", name, f"{_outside(report.address, name, array)} -> Guard the access, as in if (i < n)."
    if report.kind == SHARED_ACCESS:
        past = ctypes.c_int64(report.address).value
        distance = f"{past} bytes past the end of" if past >= 0 else f"{-past} bytes before the end of"
        what = f"access {distance} the block's shared memory ({report.bytes} bytes)"
        return "out-of-bounds", None, f"{what} -> Check the index, and the size given to the launch."
    if report.kind == MISALIGNED:
        return _misaligned(
            report.address, text.replace("'", "").replace("const ", "").replace("struct ", ""), arguments
        )
    if report.kind == DIVISION:
        return "division", None, "integer division by zero -> Check the divisor first."
    if report.kind == DIVERGENCE:
        way_out = "Move the call out of the condition, so that every thread makes it."
        return "barrier-divergence", None, f"not all threads reach the same call; {text} -> {way_out}"
    if report.kind == TIMEOUT:
        way_out = "Look for a loop that does not end; set the device's timeout for a kernel that takes longer."
        return "timeout", None, f"still running after {timeout:g} s -> {way_out}"
    if report.kind == ASSERT:
        return "assert", None, f"assert({text}) failed" if text != "__trap()" else "__trap() was called"
    if report.kind == STACK:
        way_out = "Make its local arrays smaller or its recursion shallower."
        return "illegal-access", None, f"a thread used more than 128 KB of stack -> {way_out}"
    return "illegal-access", None, "an illegal instruction: the compiler found this code to have no meaning"


def _null(address: int, nulls: list[str]) -> tuple[str, str | None, str]:
    if not nulls:
        return "null-pointer", None, f"access to address {address:#x}, through a null pointer -> Check the pointer."
    return "null-pointer", nulls[0], f"{' or '.join(nulls)} is a null pointer -> Check it before use: if ({nulls[0]})."


def _misaligned(address: int, text: str, arguments: Arguments) -> tuple[str, str | None, str]:
    name, array = _nearest(address, arguments)
    if name is None or array is None or not 0 <= address - array.address < array.nbytes:
        return "misaligned", None, f"access to address {address:#x}; a {text} -> Check the alignment of the pointer."
    index = (address - array.address) // array.dtype.itemsize
    return "misaligned", name, f"access to {name}[{index}]; a {text} -> Make the index a multiple."


def _outside(address: int, name: str, array: Array) -> str:
    """How far from the array the address is."""
    index, past = (address - array.address) // array.dtype.itemsize, address - array.address - array.nbytes
    distance = f"{past} bytes past the end of" if past >= 0 else f"{array.address - address} bytes before the start of"
    return f"{name}[{index}] is {distance} {name} ({array.size} elements, {array.nbytes} bytes)"


def _nearest(address: int, arguments: Arguments) -> tuple[str, Array] | tuple[None, None]:
    """The pointer argument whose memory is nearest to the address."""

    def distance(pair: tuple[str, Array]) -> int:
        start = pair[1].address
        return max(start - address, address - (start + pair[1].nbytes) + 1, 0)

    found = min(arguments.arrays, key=distance, default=None)
    return found if found and distance(found) < REACH else (None, None)


def _nulls(module: "Module", kernel: str, arguments: Arguments) -> list[str]:
    """The pointer parameters that were given None."""
    params, fields = module.source.kernels[kernel].params, arguments.packed._fields_
    values = [getattr(arguments.packed, field[0]) for field in fields]
    return [param.name for param, value in zip(params, values, strict=True) if param.pointer and value is None]


def damage(kernel: str, name: str, array: Array) -> KernelError:
    """The error for a canary that a launch overwrote."""
    return KernelError(
        f"{kernel}: wrote outside {name} ({array.size} elements, {array.nbytes} bytes), within 4096 bytes of its ends. "
        "Guard the access, as in if (i < n), and look for a negative index.",
        kernel, "out-of-bounds", name,
    )  # fmt: skip


def _too_much_shared(kernel: str, static: int, dynamic: int) -> str:
    and_dynamic = f" and dynamic of {dynamic} bytes" if dynamic else ""
    return (
        f"{kernel}: static shared memory of {static} bytes{and_dynamic}; a block may use {MAX_SHARED}. "
        "Choose a smaller tile."
    )


def locate(module: "Module", pc: int) -> tuple[str, int | None]:
    """File and line of an instruction, by the debugger's line table; without a tool to read it, unknown."""
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if not pc or not tool:
        return "", None
    nearby = [
        hex(pc - back) for back in range(0, 64, 4)
    ]  # an instruction that was moved has no line; one before it has
    done = subprocess.run([tool, "-i", "-e", str(module.path), *nearby], capture_output=True, text=True)
    by_file = {Path(name).name: name for name in module.names}  # some compilers put their own folder before it
    for frame in done.stdout.splitlines():  # from the innermost inlined function outwards
        path, _, number = frame.partition(" ")[0].rpartition(":")
        if number.isdigit() and Path(path).name in by_file:
            return by_file[Path(path).name], int(number)
    return "", None
