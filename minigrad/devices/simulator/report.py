"""What went wrong in a kernel, as a KernelError: which buffer, how far outside, which thread, which line."""

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
(NONE, ACCESS, DIVISION, MISALIGNED, DIVERGENCE, TIMEOUT, ASSERT, SHARED, INTERRUPT, ILLEGAL, STACK, SYSTEM) = range(12)
FAR = 2**32  # bytes from null: an index into nothing, and no address that the system gives


def explain(
    report: "Report", module: "Module", kernel: str, shared: int, timeout: float, arguments: Arguments
) -> Exception:
    """The exception for a launch that failed."""
    if report.kind == INTERRUPT:
        return KeyboardInterrupt(f"{kernel} was interrupted; what it has written is incomplete.")
    if report.kind == SHARED:
        return LaunchError(_too_much_shared(kernel, report.bytes - -(-shared // 16) * 16, shared))
    if report.kind == SYSTEM:
        return MemoryError(f"{kernel}: {report.text.decode()}.")
    file, line = (report.file.decode(), report.line) if report.line else locate(module, report.pc)
    kind, buffer, words = _what(report, arguments, timeout)
    block: Dim3 | None = tuple(report.block) if report.has_thread else None
    thread: Dim3 | None = tuple(report.thread) if report.has_thread else None
    where = [f"block {block}, thread {thread}"] if block else []
    where += [f"{file}({line})"] if line else []
    what, _, way_out = words.partition(" -> ")
    message = f"{kernel}: {what} [{', '.join(where)}]. {way_out}".strip()
    return KernelError(message.replace(" []", ""), kernel, kind, buffer, block, thread, line)


def _what(report: "Report", arguments: Arguments, timeout: float) -> tuple[str, str | None, str]:
    """Kind, buffer, and the words: what went wrong -> the way out."""
    text = report.text.decode(errors="replace")
    if report.kind == ACCESS:
        return _access(report.address, arguments)
    if report.kind == MISALIGNED:
        if report.address < FAR and (nulls := _nulls(arguments)):
            return "null-pointer", nulls[0], _null_words(nulls)
        name, _ = _nearest(report.address, arguments)
        place = f" in {name}" if name else ""
        return "misaligned", name, f"address {report.address:#x}{place} is misaligned: {text} -> Use a multiple as the index."
    if report.kind == DIVISION:
        return "division", None, "integer division by zero -> Check the divisor first."
    if report.kind == DIVERGENCE:
        way_out = "Move the call out of the condition, so that every thread makes it."
        return "barrier-divergence", None, f"not all threads reach the same barrier: of {text} -> {way_out}"
    if report.kind == TIMEOUT:
        way_out = "Look for a loop that does not end; set the device's timeout for a kernel that takes longer."
        return "timeout", None, f"still running after {timeout:g} s -> {way_out}"
    if report.kind == ASSERT:
        return "assert", None, f"assert({text}) failed" if text != "__trap()" else "__trap() was called"
    if report.kind == STACK:
        way_out = "Make its local arrays smaller or its recursion shallower."
        return "illegal-access", None, f"a thread used more than 128 KB of stack -> {way_out}"
    return "illegal-access", None, "an illegal instruction: the compiler found this code to have no meaning"


def _access(address: int, arguments: Arguments) -> tuple[str, str | None, str]:
    if address < FAR and (nulls := _nulls(arguments)):
        return "null-pointer", nulls[0], _null_words(nulls)
    name, array = _nearest(address, arguments)
    if address < FAR or array is None:
        kind = "null-pointer" if address < FAR else "out-of-bounds"
        return kind, None, f"access to address {address:#x}, where there is no buffer -> Check the pointer and its index."
    return "out-of-bounds", name, f"{_outside(address, name, array)} -> Guard the access, as in if (i < n)."


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

    return min(arguments.arrays, key=distance) if arguments.arrays else (None, None)


def _nulls(arguments: Arguments) -> list[str]:
    """The pointer parameters that were given None."""
    return [name for name, address in arguments.pointers() if not address] if hasattr(arguments, "pointers") else []


def _null_words(names: list[str]) -> str:
    return f"{' or '.join(names)} is a null pointer -> Check it before use: if ({names[0]})."


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
    done = subprocess.run([tool, "-i", "-e", str(module.path), hex(pc)], capture_output=True, text=True)
    for frame in done.stdout.splitlines():  # from the innermost inlined function outwards
        path, _, number = frame.partition(" ")[0].rpartition(":")
        for name in module.names:
            if number.isdigit() and path.endswith(name) and Path(path).name == Path(name).name:
                return name, int(number)
    return "", None
