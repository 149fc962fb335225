"""The host's C++ compiler: which one, and with which flags."""

import ctypes
import hashlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from minigrad.devices import caches
from minigrad.errors import DeviceError

NATIVE = Path(__file__).parent / "native"
PORTABLE = "MINIGRAD_PORTABLE"  # environment: 1 takes the runtime without assembly, which every processor can run

COMMON = [
    "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-U_FORTIFY_SOURCE",
    "-march=native", "-fno-finite-loops", "-fno-stack-protector", "-fstack-clash-protection",
]  # fmt: skip
KERNEL = [
    "-w", "-g1", "-x", "c++", f"-I{NATIVE}", f"-I{NATIVE / 'include'}",
    "-ffp-contract=off",  # a * b + c is rounded twice, as in NumPy
    "-fno-math-errno", "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",
    # A float4 at a wrong address and a division by zero become calls of our own; no sanitizer is linked.
    "-fsanitize=alignment,integer-divide-by-zero", "-fno-sanitize-recover=alignment,integer-divide-by-zero",
]  # fmt: skip
RUNTIME = ["-fno-threadsafe-statics", "-pthread"]
GARBAGE = "-ftrivial-auto-var-init=pattern"  # a variable that is never set is far from 0
VOLATILE = "--param=tsan-distinguish-volatile=1"  # volatile accesses have calls of their own
# Better with, right without: left out where the compiler refuses them. The loops are those without end, which C++ may
# take for granted to be none; clash protection lets a large local array meet the guard page below its stack.
OPTIONAL = ["-march=native", "-fno-finite-loops", "-fno-stack-protector", "-fstack-clash-protection", GARBAGE, VOLATILE]
LINK = ["-shared", "-O2", "-pthread", "-lm"]  # without -O2 zig would add a sanitizer of its own
if sys.platform == "darwin":
    LINK += ["-undefined", "dynamic_lookup"]  # kernels find the runtime when they are loaded


@dataclass(frozen=True)
class Compiler:
    """The command that compiles, the one that links, and what tells this version from others."""

    compile: tuple[str, ...]
    link: tuple[str, ...]
    identity: str

    def build(self, text: str, name: str, flags: Sequence[str], folder: Path, link: Sequence[str] = ()) -> Path:
        """Compile the text, as a file of that name, in an empty folder. Raises Refused."""
        file, compiled, linked = folder / name, folder / "kernel.o", folder / "kernel.so"
        file.write_text(text)
        taken = [*COMMON, *flags]
        while error := _run([*self.compile, *taken, "-c", str(file), "-o", str(compiled)]):
            optional = [flag for flag in OPTIONAL if flag in taken]
            refused = [flag for flag in optional if re.search(rf"error:.*{flag.partition('=')[0]}", error)]
            if not refused:
                raise Refused(error)
            taken = [flag for flag in taken if flag not in refused]
        if error := _run([*self.link, str(compiled), *LINK, *link, "-o", str(linked)]):
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
    if len(words) > 1 and words[-1] == "c++":
        link = [*words[:-1], "cc"]  # zig would first build its C++ library, for half a minute; nothing here needs it
    return Compiler(tuple(words), tuple(link), f"{words} {path} {stat.st_size} {stat.st_mtime_ns}")


@cache
def is_clang() -> bool:
    """Whether the compiler is Clang, under whatever name: the two families take different options."""
    done = subprocess.run([*find_compiler().compile, "--version"], capture_output=True, text=True)
    return "clang" in done.stdout.lower()


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


def folder() -> Path:
    """Where objects are kept. Raises DeviceError where it cannot be written."""
    path = caches.folder()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeviceError(f"device 'sim' cannot write {path} ({error}); name another in MINIGRAD_CACHE.") from error
    return path


@cache
def _ours() -> bytes:
    """The text of the dialect and the runtime, for the key."""
    return b"".join(path.read_bytes() for path in sorted(NATIVE.rglob("*")) if path.is_file())


def load(stem: str, text: str, compiler: Compiler, build: Callable[[Path], Path], mode: int) -> tuple[Any, Path]:
    """The object made of this text, loaded, and its file; `build` makes it in an empty folder if it is not there.

    Several processes may do the same at once: each builds in a folder of its own, and one rename puts it in place.
    """
    key = hashlib.sha256(_ours())
    key.update(repr([text, COMMON, KERNEL, LINK, OPTIONAL, RUNTIME, compiler.identity, cpu()]).encode())
    path = folder() / f"{stem}-{key.hexdigest()[:32]}.so"
    if path.is_file():
        try:
            return ctypes.CDLL(str(path), mode), path
        except OSError:
            pass  # made on a system with other libraries, or cut short: make it anew
    with _scratch(path.parent) as scratch:
        os.replace(build(Path(scratch)), path)
    return ctypes.CDLL(str(path), mode), path


def _scratch(parent: Path) -> tempfile.TemporaryDirectory:
    try:
        return tempfile.TemporaryDirectory(dir=parent, prefix="building-")
    except OSError as error:
        raise DeviceError(f"device 'sim' cannot write {parent} ({error}); name another in MINIGRAD_CACHE.") from error
