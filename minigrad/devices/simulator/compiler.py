"""The host's C++ compiler: which one, with which flags, and its complaints in the reader's words."""

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minigrad.devices.simulator.rewrite import PTX
from minigrad.errors import CompileError, DeviceError

NATIVE = Path(__file__).parent / "native"
PORTABLE = "MINIGRAD_PORTABLE"  # environment: 1 takes the runtime without assembly, which every processor can run

COMMON = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-U_FORTIFY_SOURCE"]
KERNEL = [
    "-w", "-g1", "-x", "c++", f"-I{NATIVE}", f"-I{NATIVE / 'include'}",
    "-ffp-contract=off",  # a * b + c is rounded twice, as in NumPy
    "-fno-math-errno", "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",
    # A float4 at a wrong address and a division by zero become calls of our own; no sanitizer is linked.
    "-fsanitize=alignment,integer-divide-by-zero", "-fno-sanitize-recover=alignment,integer-divide-by-zero",
]  # fmt: skip
RUNTIME = ["-fno-threadsafe-statics", "-pthread"]
# Better with, right without: left out where the compiler refuses them. The loops are those without end, which C++ may
# take for granted to be none; clash protection lets a large local array meet the guard page below its stack.
OPTIONAL = ["-march=native", "-fno-finite-loops", "-fno-stack-protector", "-fstack-clash-protection"]
LINK = ["-shared", "-O2", "-pthread", "-lm"]  # without -O2 zig would add a sanitizer of its own
if sys.platform == "darwin":
    LINK += ["-undefined", "dynamic_lookup"]  # kernels find the runtime when they are loaded


@dataclass(frozen=True)
class Compiler:
    """The command that compiles, the one that links, and what tells this version from others."""

    compile: tuple[str, ...]
    link: tuple[str, ...]
    identity: str

    def build(self, text: str, name: str, flags: list[str], folder: Path) -> Path:
        """Compile the text, as a file of that name, in an empty folder. Raises Refused."""
        file, compiled, linked = folder / name, folder / "kernel.o", folder / "kernel.so"
        file.write_text(text)
        optional = list(OPTIONAL)
        while error := _run([*self.compile, *COMMON, *optional, *flags, "-c", str(file), "-o", str(compiled)]):
            refused = [
                flag for flag in optional if flag in error and re.search(r"error:.*" + flag.split("=")[0], error)
            ]
            if not refused:
                raise Refused(error)
            optional = [flag for flag in optional if flag not in refused]
        if error := _run([*self.link, str(compiled), *LINK, "-o", str(linked)]):
            raise Refused(error)
        return linked


class Refused(Exception):
    """The compiler's own words."""


def _run(command: list[str]) -> str:
    """Empty where the command succeeds, else what it said."""
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    return "" if done.returncode == 0 else done.stderr + done.stdout or f"{command[0]} ended with {done.returncode}"


@cache
def find_compiler() -> Compiler:
    """The compiler that this machine has. Raises DeviceError with what to install."""
    for variable in ("MINIGRAD_CXX", "CXX"):
        if words := shlex.split(os.environ.get(variable, "")):
            if shutil.which(words[0]):
                return _compiler(words)
            if variable == "MINIGRAD_CXX":
                raise DeviceError(f"device 'sim': MINIGRAD_CXX names {words[0]!r}, which is no command here.")
    for name in ("g++", "clang++", "c++"):
        if shutil.which(name):
            return _compiler([name])
    if zig := importlib.util.find_spec("ziglang"):
        binary = Path(zig.origin or "").parent / "zig"
        return _compiler([str(binary), "c++"] if binary.is_file() else [sys.executable, "-m", "ziglang", "c++"])
    raise DeviceError(
        "device 'sim' compiles kernels for the CPU and finds no C++ compiler. Debian, Ubuntu: sudo apt install g++. "
        "macOS: xcode-select --install. Anywhere: pip install ziglang."
    )


def _compiler(words: list[str]) -> Compiler:
    """A file's path, size and date tell its version without running it, which would take longer than a cached build."""
    path = Path(shutil.which(words[0]) or words[0]).resolve()
    stat = path.stat()
    link = words
    if (
        words[-1] == "c++" and len(words) > 1
    ):  # zig: as a linker for C it needs no C++ library, which it would build first
        link = [*words[:-1], "cc"]
    return Compiler(tuple(words), tuple(link), f"{words} {path} {stat.st_size} {stat.st_mtime_ns}")


@cache
def cpu() -> str:
    """This processor, as -march=native sees it: its machine code may not run on another."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read(8192).split("\n\n")[0].splitlines()
        known = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    except OSError:
        known = [platform.processor()]
    return " ".join([platform.machine(), *known])


_ERROR = re.compile(r"^(.+?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$")
_FROM = re.compile(r"^(.+?):(\d+):(?:\d+:)? .*(?:required from|requested here|in expansion of|expanded from)")
_MOST = 5


def explain(log: str, parts: Mapping[str, str]) -> CompileError:
    """The compiler's errors with the reader's file, line and text; `parts` are the texts by name."""
    lines = log.splitlines()
    errors: list[str] = []
    for i, line in enumerate(lines):
        if not (found := _ERROR.match(line)):
            continue
        file, number, words = found[1], int(found[2]), found[3]
        if file not in parts:  # in the dialect or the C++ library: where was it asked for?
            near = [m for other in lines[i:] + lines[:i][::-1] if (m := _FROM.match(other)) and m[1] in parts]
            file, number = (near[0][1], int(near[0][2])) if near else (Path(file).name, number)
        if PTX in words:
            words = "inline PTX (asm) runs only on a GPU; the simulator cannot run it. Write this line in CUDA C++."
        text = parts.get(file, "").splitlines()
        shown = f"\n    {text[number - 1].strip()}" if 0 < number <= len(text) else ""
        message = f"{file}({number}): error: {words}{shown}"
        if message not in errors:
            errors.append(message)
    if ptx := [error for error in errors if "inline PTX" in error]:
        errors = ptx  # the others only follow from it
    return CompileError("\n".join(errors[:_MOST]) or log.strip())
