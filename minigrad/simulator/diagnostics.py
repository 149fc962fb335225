"""Source lines for the host compiler's errors, and for the addresses of instructions."""

import re
import shutil
import subprocess
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from minigrad.devices.hints import hint
from minigrad.devices.leave_out import Rejection
from minigrad.errors import CompileError, DeviceError
from minigrad.simulator.translate import PTX

MAX_ERRORS = 5  # shown
ENTRY = "minigrad_run_"  # prefix of the function that calls a kernel: code inlined into it has no line of its own
_CALL = re.compile(r"^(.*)\n(.*):(?:(\d+)|\?)(?: \(discriminator \d+\))?$", re.M)
_ERROR = re.compile(r"^(.+?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$")
_LIBRARY = re.compile("(?:cub|thrust|cuda)/|curand")  # which runs only on a GPU
_NO_FILE = re.compile(r"'?([\w./]+)'?(?:: No such file| file not found)")
_HEADERS = (
    "Of CUDA's own headers the simulator has those of the runtime, of half precision, bfloat16, cooperative groups and "
    "mma.h; CUB, Thrust and cuRAND run only on a GPU."
)
_TENSOR_CORES = (
    "mma_bf16, mma_tf32, load_matrices and load_transposed are these instructions, here as well: "
    'write #include "matmul/mma.cuh"; or take the fragments of mma.h'
)
# A pattern in the message, one in the line, and what it means.
_ON_A_GPU = (
    ("", r"\b(?:tex(?:[123]D|ture|ref)|surf[123]D|(?:cuda|CU)(?:[Tt]ex|[Ss]urf)\w*Object|surface\s*<)",
     "textures and surfaces run only on a GPU; read the array itself."),
    ("expected|<<<", "<<<", "a kernel that launches another one runs only on a GPU; launch both from Python."),
    ("declared|name|namespace|class", r"\b(?:cub|thrust)::",
     "CUB and Thrust run only on a GPU; cooperative groups have reduce and scan, here as well."),
    ("declared|name|namespace|class", r"\bcuda::",
     "libcu++ runs only on a GPU; atomicAdd and its family, and the barriers of cooperative groups, here as well."),
    ("", r"\b(?:this_cluster|cluster_group)\b",
     "clusters of blocks run only on a GPU; all blocks can meet, this_grid().sync(), in a cooperative launch."),
    ("", r"\bbarrier_(?:arrive|wait)\b",
     "a barrier in two steps runs only on a GPU; write sync() in place of barrier_wait, and no barrier_arrive."),
    ("", r"\bblock_tile_memory\b",
     "tiles of more than 32 threads run only on a GPU; without block_tile_memory take tiles of 32 or the block."),
    ("declared", r"\bcurand", "random numbers of cuRAND run only on a GPU; give the kernel an array of them."),
    ("declared|name|class", r"\bwmma::",
     "fragments of tensor cores are in mma.h: write #include <mma.h>. It has no products of less than 8 bits."),
    ("initialized", r"\b__shared__\b", "a __shared__ variable has no first value; let a thread set it, then wait."),
    ("call to 'shared", r"\b__shared__\b",
     "the extent of a __shared__ array must be a positive constant. For one that the launch gives write extern "
     "__shared__ float s[]; and launch with shared=, its bytes."),
    ("minigrad::Slot", r"\b__shared__\b", "a member of a class is not __shared__; declare it outside of the class."),
    ("declared", r"\b__(?:shfl\w*|ballot|any|all)\b(?<!_sync)",
     "since CUDA 9 it ends in _sync and begins with the mask of its lanes: __shfl_down_sync(0xffffffff, x, 1)."),
)  # fmt: skip
# What the translation puts ahead of a function does not compile, as a name that it uses is a type or several functions.
_TWO_THINGS = re.compile(r"argument to 'decltype' must be|'decltype' cannot resolve address|\bminigrad::Outer<")
_SHARED = re.compile(r"\b__shared__\b[^;]*?\b(\w+)\s*(?:\[[^;]*)?;")
_ALONE = (
    "inline PTX",
    "one name",
    *(why for *_, why in _ON_A_GPU if "only on a GPU" in why),
)  # other errors only follow from it
_OWN = re.compile(r"\bminigrad(?:_|::)")
_TYPE_OF = re.compile(r"\bminigrad_(\w+)_type\b")  # of the shared variable of that name
# Not of half precision, whose header is named by a hint.
_UNKNOWN = re.compile(r"(?:(undeclared identifier )|)'__(?!\w*(?:half|bfloat)|h[a-z])\w+'(?(1)| was not declared)")
_MMA = re.compile(r"\b(?:ldmatrix|mma)\.sync\b")
# An error inside a header names the line that uses the header: GCC before the error, Clang and macros after it.
_USED_BEFORE = re.compile(r"^(.+?):(\d+):(?:\d+:)? .*required from")
_USED_AFTER = re.compile(r"^(.+?):(\d+):(?:\d+:)? .*(?:requested here|in expansion of|expanded from)")


class InlinedCall(NamedTuple):
    """A function that contains an instruction, and the line in it; line 0 is unknown."""

    function: str
    path: str
    line: int


def inlined_calls(library: Path, pcs: Iterable[int]) -> list[list[InlinedCall]]:
    """For each address the functions that contain it, the innermost inlined one first, from the DWARF line table.

    Raises DeviceError where addr2line is missing or fails.
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
    chunks = re.split(r"^0x.*\n", done.stdout, flags=re.M)[1:]
    return [[InlinedCall(name, path, int(line or 0)) for name, path, line in _CALL.findall(chunk)] for chunk in chunks]


def locate(library: Path, pc: int, names: Iterable[str], own: str = "") -> tuple[str, int] | None:
    """File and line of an instruction; None where it has none, or where addr2line is missing.

    Of the inlined functions in these files it is the innermost one in the file `own`, else the innermost of all.
    """
    if not pc:
        return None
    try:
        # An instruction that the compiler moved has no line; one shortly before it does.
        nearby = inlined_calls(library, range(pc, pc - 64, -4))
    except DeviceError:
        return None
    by_file = {Path(name).name: name for name in names}  # some compilers prepend their own folder
    for calls in nearby:
        written = [c for n, c in enumerate(calls) if c.line and not (n and c.function.startswith(ENTRY))]
        found = [(by_file[name], line) for _, path, line in written if (name := Path(path).name) in by_file]
        if found:
            return next((place for place in found if place[0] == own), found[0])
    return None


def faults(log: str, parts: Mapping[str, str], own: str) -> list[Rejection]:
    """The compiler's errors with file, line and text. parts: the texts by name; own: the name of the reader's."""
    lines = log.splitlines()
    at = [i for i, line in enumerate(lines) if _ERROR.match(line)]
    found: list[Rejection] = []
    for before, i, after in zip([-1, *at], at, [*at[1:], len(lines)], strict=False):
        file, number, words = _ERROR.match(lines[i]).groups()  # type: ignore[union-attr]
        around = lines[before + 1 : i], lines[i + 1 : after]
        if file not in parts:
            file, number = _used(*around, parts) or (Path(file).name, number)
        elsewhere = _used(*around, [own]) if file != own else None
        where = f"\nused in {_quoted(own, int(elsewhere[1]), parts, ':')}" if elsewhere else ""
        known = any(fault.message.endswith(where) for fault in found)
        message = _message(file, int(number), words, parts) + where * (not known)
        places = [(file, int(number)), *((name, int(line)) for name, line in _places(*around, parts))]
        found.append(Rejection(message, places))
    return found


def compile_error(
    log: str, found: Iterable[Rejection], missing: Iterable[str] = (), host: Container[str] = ()
) -> CompileError:
    """The first of these errors as an exception; missing: headers that are not here; host: functions left out."""
    by_line: dict[str, list[str]] = {}
    for message in dict.fromkeys(fault.message for fault in found):
        by_line.setdefault(message.partition(": error: ")[0], []).append(message)
    # What the translation has put into a line fails after what it is made of: the first error tells of that.
    by_line = {place: [e for e in each if "declared void" not in e] or each for place, each in by_line.items()}
    errors = [e for each in by_line.values() for e in (each[:1] if _OWN.search("".join(each[1:])) else each)]
    alone = [error for error in errors if any(why in error for why in _ALONE)][:1]
    words = "\n".join(alone or errors[:MAX_ERRORS]) or log.strip()
    headers = ", ".join(dict.fromkeys(missing))
    if headers and "inline PTX" not in words:
        put = " Put what the kernel needs of it beside the text." * (not all(map(_LIBRARY.match, missing)))
        words += f"\nThere is no file {headers}.{put} {_HEADERS}"
    words = _TYPE_OF.sub(r"\1", words)
    return CompileError(words + hint(words, host))


def undefined_function(file: str, message: str) -> Rejection:
    """The error for a function that is declared and used but defined nowhere: only the dynamic loader notices."""
    symbol = message.rpartition(": ")[2]
    mangled, names = re.match(r"_ZN?[rVK]*", symbol), list[str]()  # then the length of each name, and the name
    rest = symbol[mangled.end() :] if mangled else ""
    while length := re.match(r"\d+", rest):
        stop = length.end() + int(length[0])
        names.append(rest[length.end() : stop])
        rest = rest[stop:]
    return Rejection(f"{file}: error: '{'::'.join(names) or symbol}' is used but defined nowhere", [])


def _places(before: list[str], after: list[str], parts: Container[str]) -> list[tuple[str, str]]:
    """All lines of these files that the notes around an error name."""
    found = [*map(_USED_BEFORE.match, before), *map(_USED_AFTER.match, after)]
    return [(match[1], match[2]) for match in found if match and match[1] in parts]


def _used(before: list[str], after: list[str], parts: Container[str]) -> tuple[str, str] | None:
    """The place in these files that uses the header."""
    return next(iter(_places(before, after, parts)), None)


def _message(file: str, number: int, words: str, parts: Mapping[str, str]) -> str:
    if PTX in words:
        words = "inline PTX (asm) runs only on a GPU; the simulator cannot run it. Use CUDA C++ if it can say this."
        if _MMA.search("\n".join(parts.get(file, "").splitlines()[number - 1 :]).partition(";")[0]):
            words = words.replace("Use CUDA C++ if it can say this", _TENSOR_CORES)
    if found := _NO_FILE.match(words):
        words = f"there is no file {found[1]}."
    elif why := _only_on_a_gpu(words, number, parts.get(file, "")):
        words = f"{words}\n    {why}" if "_sync" in why else why
    elif _TWO_THINGS.search(words) and (both := _two_things(file, number, parts)):
        words = both
    elif _UNKNOWN.search(words):
        end = "" if words.endswith("?") else "."
        words += f"{end} If it is a function of CUDA, the simulator does not have it: it runs only on a GPU."
    return _quoted(file, number, parts, f": error: {words}")


def _only_on_a_gpu(words: str, number: int, text: str) -> str:
    """The reason for an error in a line that uses what the simulator does not have; or an empty text."""
    lines = text.splitlines()
    line = lines[number - 1] if 0 < number <= len(lines) else ""
    found = (why for said, used, why in _ON_A_GPU if re.search(said, words) and re.search(used, line))
    return next(found, "")


def _two_things(file: str, number: int, parts: Mapping[str, str]) -> str:
    """The sentence about a shared variable that is named from this line on."""
    behind = "\n".join(parts.get(file, "").splitlines()[number - 1 :])
    for name, text in parts.items():
        for each in _SHARED.finditer(text):
            if re.search(rf"\b{each[1]}\b", behind):
                line = text.count("\n", 0, each.start()) + 1
                return (
                    f"the __shared__ variable {each[1]}, {name}({line}), and something else here have one name, "
                    "and which is meant is not known; give one of the two another name."
                )
    return ""


def _quoted(file: str, number: int, parts: Mapping[str, str], words: str) -> str:
    """file(line), the words, and the text of the line."""
    text = parts.get(file, "").splitlines()
    shown = f"\n    {text[number - 1].strip()}" if 0 < number <= len(text) else ""
    return f"{file}({number}){words}{shown}"
