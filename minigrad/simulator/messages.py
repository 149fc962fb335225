"""Lines of the reader's files: of a bad instruction, and of what the compiler complains about."""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Container, Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minigrad.devices.array import Array
from minigrad.devices.device import MAX_SHARED, Arguments, Dim3
from minigrad.devices.hints import hint
from minigrad.errors import CompileError, DeviceError, KernelError, LaunchError
from minigrad.simulator.translate import PTX

if TYPE_CHECKING:
    from minigrad.simulator.module import Module

MOST = 5  # errors shown
ENTRY = "minigrad_run_"  # begins what calls a kernel: where something else is inlined there, it has no line of its own
_PLACE = re.compile(r"(.*):(\d+|\?)(?: \(discriminator \d+\))?")
_ERROR = re.compile(r"^(.+?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$")
_NO_FILE = re.compile(r"'?([\w./]+)'?(?:: No such file| file not found)")
_HEADERS = (
    "Of CUDA's own headers the simulator has those of the runtime and math_constants.h; half precision, cooperative "
    "groups, CUB, Thrust and cuRAND run only on a GPU."
)
_UNKNOWN = re.compile(r"'__\w+' was not declared|undeclared identifier '__\w+'")
# An error inside a header says where the header was used: GCC before the error, Clang and macros after it.
_USED_BEFORE = re.compile(r"^(.+?):(\d+):(?:\d+:)? .*required from")
_USED_AFTER = re.compile(r"^(.+?):(\d+):(?:\d+:)? .*(?:requested here|in expansion of|expanded from)")


class Frame(NamedTuple):
    """A line of a function that an instruction is in; line 0 is unknown."""

    function: str
    path: str
    line: int


def frames(library: Path, pcs: Iterable[int]) -> list[list[Frame]]:
    """Of each address the functions that it is in, from the innermost inlined one outwards; by the debugger's table.

    Raises DeviceError where there is no tool to read it, or where it cannot.
    """
    tool = shutil.which("addr2line") or shutil.which("llvm-addr2line")
    if not tool:
        raise DeviceError(
            "the lines of a kernel are found by addr2line, which is not here. "
            "Debian, Ubuntu: sudo apt install binutils. macOS: brew install binutils."
        )
    command = [tool, "-a", "-i", "-f", "-e", str(library), *map(hex, pcs)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise DeviceError(f"the lines of a kernel are not found: {done.stderr.strip()}")
    answer = done.stdout.splitlines()
    starts = [i for i, line in enumerate(answer) if line.startswith("0x")]
    chunks = [answer[start + 1 : stop] for start, stop in zip(starts, [*starts[1:], None], strict=True)]
    return [[_frame(*pair) for pair in zip(chunk[::2], chunk[1::2], strict=True)] for chunk in chunks]


def _frame(function: str, place: str) -> Frame:
    path, number = _PLACE.fullmatch(place).groups()  # type: ignore[union-attr]
    return Frame(function, path, int(number) if number.isdigit() else 0)


def locate(library: Path, pc: int, names: Iterable[str], own: str = "") -> tuple[str, int] | None:
    """File and line of an instruction; without a tool that tells them, unknown.

    Of the functions that are inlined there it is the innermost; but rather one in the text called `own`.
    """
    if not pc:
        return None
    try:
        # An instruction that the compiler moved has no line; one a little before it has.
        nearby = frames(library, range(pc, pc - 64, -4))
    except DeviceError:
        return None
    by_file = {Path(name).name: name for name in names}  # some compilers put their own folder before it
    for each in nearby:
        written = [f for n, f in enumerate(each) if f.line and not (n and f.function.startswith(ENTRY))]
        found = [(by_file[name], line) for _, path, line in written if (name := Path(path).name) in by_file]
        if found:
            return next((place for place in found if place[0] == own), found[0])
    return None


def compile_message(log: str, parts: Mapping[str, str], own: str) -> CompileError:
    """The compiler's errors with file, line and text; `parts` are the texts by name, `own` is the reader's."""
    lines = log.splitlines()
    at = [i for i, line in enumerate(lines) if _ERROR.match(line)]
    errors: dict[str, None] = {}
    for before, i, after in zip([-1, *at], at, [*at[1:], len(lines)], strict=False):
        file, number, words = _ERROR.match(lines[i]).groups()  # type: ignore[union-attr]
        around = lines[before + 1 : i], lines[i + 1 : after]
        if file not in parts:
            file, number = _used(*around, parts) or (Path(file).name, number)
        elsewhere = _used(*around, [own]) if file != own else None
        where = f"\nused in {_quoted(own, int(elsewhere[1]), parts, ':')}" if elsewhere else ""
        said = any(error.endswith(where) for error in errors)
        errors[_message(file, int(number), words, parts) + where * (not said)] = None
    ptx = [error for error in errors if "inline PTX" in error][:1]  # says all; the others only follow from it
    words = "\n".join(ptx or list(errors)[:MOST]) or log.strip()
    return CompileError(words + hint(words))


def undefined(file: str, message: str) -> CompileError:
    """The error for a function that is declared and used but defined nowhere, which only loading finds."""
    symbol = message.rpartition(": ")[2]
    mangled = re.match(r"_Z(\d+)(\w+)", symbol)  # length, name, parameters
    name = mangled[2][: int(mangled[1])] if mangled else symbol
    return CompileError(f"{file}: error: {name!r} is used but defined nowhere")


def _used(before: list[str], after: list[str], parts: Container[str]) -> tuple[str, str] | None:
    """Where in these files the header was used."""
    found = [*map(_USED_BEFORE.match, before), *map(_USED_AFTER.match, after)]
    return next(((match[1], match[2]) for match in found if match and match[1] in parts), None)


def _message(file: str, number: int, words: str, parts: Mapping[str, str]) -> str:
    if PTX in words:
        words = "inline PTX (asm) runs only on a GPU; the simulator cannot run it. Write this line in CUDA C++."
    if found := _NO_FILE.match(words):
        words = f"there is no file {found[1]}. {_HEADERS}"
    elif _UNKNOWN.search(words):
        end = "" if words.endswith("?") else "."
        words += f"{end} If it is a function of CUDA, the simulator does not have it: it runs only on a GPU."
    return _quoted(file, number, parts, f": error: {words}")


def _quoted(file: str, number: int, parts: Mapping[str, str], words: str) -> str:
    """A place, what is to be said of it, and its line."""
    text = parts.get(file, "").splitlines()
    shown = f"\n    {text[number - 1].strip()}" if 0 < number <= len(text) else ""
    return f"{file}({number}){words}{shown}"


FAR = 2**32  # bytes from null: an index into nothing, and no address that the system gives
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
    "cooperative launch, with no more blocks than run at once. Else end the kernel there, and launch a second one."
)


class Finding(NamedTuple):
    """What is known of a fault: the kind and buffer of the KernelError, what happened, and the way out."""

    kind: str
    what: str
    way_out: str = ""
    buffer: str | None = None


def explain(
    report: Any, module: "Module", kernel: str, shared: int, timeout: float, arguments: Arguments
) -> BaseException:
    """The exception for a launch that failed; `report` is what the runtime tells of it."""
    if report.cause == Cause.INTERRUPT:
        return KeyboardInterrupt(f"{kernel} was interrupted; what it has written is incomplete.")
    if report.cause == Cause.SHARED:
        return _too_much_shared(kernel, report.bytes - (shared + 15) // 16 * 16, shared)
    if report.cause == Cause.SYSTEM:
        return MemoryError(f"{kernel}: {report.text.decode() or 'the system has no memory for a worker'}.")
    own = module.source.name if module.source.before else ""  # a text in place of a file's kernel
    file, line = locate(module.path, report.pc, module.parts, own) or (report.file.decode(), report.line or None)
    finding = _find(report, module, kernel, timeout, arguments)
    block, thread = _dim3(report.block, report.has_thread), _dim3(report.thread, report.has_thread)
    where = [f"block {block}, thread {thread}"] if block else []
    where += [f"{file}({line})"] if line else []
    message = f"{kernel}: {', '.join([finding.what, *where])}. {finding.way_out}".strip()
    reason, address = f"{finding.what}. {finding.way_out}".strip(), report.address or None
    place = (block, thread, line, file or None, address)
    return KernelError(message, kernel, finding.kind, finding.buffer, *place, reason)


def damage(kernel: str, name: str, array: Array) -> KernelError:
    """The error for a canary that a launch overwrote."""
    return KernelError(
        f"{kernel}: wrote outside {name} ({array.size} elements, {array.nbytes} bytes), within a page of its ends. "
        "Guard the access, as in if (i < n), and look for a negative index.",
        kernel,
        "out-of-bounds",
        name,
    )


def _find(report: Any, module: "Module", kernel: str, timeout: float, arguments: Arguments) -> Finding:
    text = report.text.decode(errors="replace")
    match report.cause:
        case Cause.ACCESS | Cause.MISALIGNED if report.address < FAR:
            return _null(report.address, _null_pointers(module, kernel, arguments))
        case Cause.ACCESS:
            return _outside(report.address, arguments)
        case Cause.MISALIGNED:
            return _misaligned(report.address, re.sub(r"'|const |struct ", "", text), arguments)
        case Cause.SHARED_ACCESS:
            return _outside_shared(ctypes.c_int64(report.address).value, report.bytes)
        case Cause.DIVISION:
            return Finding("division", "integer division by zero", "Check the divisor first.")
        case Cause.DIVERGENCE:
            way_out = "Move the call out of the condition, so that every thread makes it."
            if "have returned" in text:
                way_out = (
                    "Move the call out of the condition, and let no thread return before it: what it must not touch "
                    "goes behind a guard, as in if (i < n)."
                )
            return Finding("barrier-divergence", f"not all threads reach the same call; {text}", way_out)
        case Cause.TIMEOUT if text:  # so many blocks run, and all seem to wait
            what = f"still running after {timeout:g} s; {text} run at once here, and these wait for memory to change"
            way_out = (
                f"If for one that has not begun: {GRID} Else set the device's timeout for a kernel that takes longer."
            )
            return Finding("timeout", what, way_out)
        case Cause.TIMEOUT:
            way_out = "Look for a loop that does not end; set the device's timeout for a kernel that takes longer."
            return Finding("timeout", f"still running after {timeout:g} s", way_out)
        case Cause.WAITING:
            what = f"waits for another block to change memory; {text} run at once here, and all of these wait"
            return Finding("timeout", what, GRID[0].upper() + GRID[1:])
        case Cause.ASSERT:
            return Finding("assert", f"assert({text}) failed" if text != "__trap()" else "__trap() was called")
        case Cause.STACK:
            way_out = "Make its local arrays smaller or its recursion shallower."
            return Finding("illegal-access", "a thread used more than 128 KB of stack", way_out)
    return Finding("illegal-access", "an illegal instruction: the compiler found this code to have no meaning")


def _null(address: int, names: list[str]) -> Finding:
    if not names:
        return Finding("null-pointer", f"access to address {address:#x}, through a null pointer", "Check the pointer.")
    way_out = f"Check it before use: if ({names[0]})."
    return Finding("null-pointer", f"{' or '.join(names)} is a null pointer", way_out, names[0])


def _outside(address: int, arguments: Arguments) -> Finding:
    name, array = _nearest(address, arguments)
    if name is None or array is None:
        return Finding("out-of-bounds", f"access to address {address:#x}, where no buffer is", "Check the index.")
    index, past = (address - array.address) // array.dtype.itemsize, address - array.address - array.nbytes
    place = "past the end" if past >= 0 else "before the start"
    what = f"{name}[{index}] is {place} of {name} ({array.size} element{'s' * (array.size != 1)})"
    return Finding("out-of-bounds", what, "Guard the access, as in if (i < n).", name)


def _outside_shared(past: int, size: int) -> Finding:
    distance = f"{past} bytes past" if past >= 0 else f"{-past} bytes before"
    what = f"access {distance} the end of the block's shared memory ({size} bytes)"
    return Finding("out-of-bounds", what, "Check the index, and the size given to the launch.")


def _misaligned(address: int, rule: str, arguments: Arguments) -> Finding:
    """`rule` is, e.g., "float4 must begin at a multiple of 16 bytes"."""
    rule = f"{'an' if rule[0] in 'aeiou' else 'a'} {rule}"
    name, array = _nearest(address, arguments)
    if name is None or array is None or not 0 <= address - array.address < array.nbytes:
        return Finding("misaligned", f"access to address {address:#x}; {rule}", "Check the pointer's alignment.")
    index = (address - array.address) // array.dtype.itemsize
    return Finding("misaligned", f"access to {name}[{index}]; {rule}", "Make the index a multiple.", name)


def _nearest(address: int, arguments: Arguments) -> tuple[str, Array] | tuple[None, None]:
    """The pointer argument whose memory is nearest to the address."""

    def distance(pair: tuple[str, Array]) -> int:
        start = pair[1].address
        return max(start - address, address - (start + pair[1].nbytes) + 1, 0)

    found = min(arguments.arrays, key=distance, default=None)
    return found if found and distance(found) < REACH else (None, None)


def _null_pointers(module: "Module", kernel: str, arguments: Arguments) -> list[str]:
    """The pointer parameters that were given None."""
    params, fields = module.source.kernels[kernel].params, arguments.packed._fields_
    values = [getattr(arguments.packed, field[0]) for field in fields]
    return [param.name for param, value in zip(params, values, strict=True) if param.pointer and value is None]


def _too_much_shared(kernel: str, static: int, dynamic: int) -> LaunchError:
    and_dynamic = f" and dynamic of {dynamic} bytes" if dynamic else ""
    return LaunchError(
        f"{kernel}: static shared memory of {static} bytes{and_dynamic}; a block may use {MAX_SHARED}. "
        "Choose a smaller tile."
    )


def _dim3(index: Any, known: int) -> Dim3 | None:
    return (index[0], index[1], index[2]) if known else None
