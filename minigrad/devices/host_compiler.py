"""The host's C++ compiler: finds it, and compiles C++ text to a shared object.

MINIGRAD_CXX or CXX name a compiler. Without them it is the first of g++, clang++, c++ and the one in the package
ziglang.
"""

import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from minigrad.errors import DeviceError

GARBAGE = "-ftrivial-auto-var-init=pattern"  # a variable that is never set is far from 0
VOLATILE = "--param=tsan-distinguish-volatile=1"  # volatile accesses have calls of their own
STRICT = "-fstrict-flex-arrays=1"  # the last member of a struct has the extent that it says, unless that is 0 or 1
# Better with, right without: `build` leaves them out where the compiler rejects them. -fno-finite-loops keeps endless
# loops, which C++ may assume away; clash protection lets a large local array meet the guard page below its stack.
OPTIONAL = [
    "-march=native", "-fno-finite-loops", "-fno-stack-protector", "-fstack-clash-protection", GARBAGE, STRICT, VOLATILE,
]  # fmt: skip
LINK = ["-shared", "-O2", "-pthread", "-lm"]  # without -O2 zig would add a sanitizer of its own
if sys.platform == "darwin":
    LINK += ["-undefined", "dynamic_lookup"]  # names that are missing are looked up when the object is loaded
# GCC: two mappings an object in place of five. A process may have 65,530, and a long session loads many objects.
MAPPINGS = ["-Wl,-z,noseparate-code", "-Wl,-z,norelro"]


class BuildError(Exception):
    """The compiler's or linker's own message."""


@dataclass(frozen=True)
class Compiler:
    """The commands that compile and link. `identity` differs between any two versions."""

    command: tuple[str, ...]
    linker: tuple[str, ...]
    identity: str

    def build(
        self, text: str, name: str, flags: Sequence[str], folder: Path, link: Sequence[str] = (),
        bare: Sequence[str] = (),
    ) -> Path:  # fmt: skip
        """Compile text to a shared object in an empty folder; messages call the text `name`. Raises BuildError.

        bare: options for the linker that are left out where it fails with them.
        """
        file, compiled, linked = folder / name, folder / "compiled.o", folder / "linked.so"
        file.write_text(text)
        self._compile(file, flags, compiled)
        command = [*self.linker, str(compiled), *LINK, *link, *(() if self.is_clang else MAPPINGS), "-o", str(linked)]
        if bare and not _error_of([*command, *bare]):
            return linked
        if error := _error_of(command):
            raise BuildError(error)
        return linked

    def precompile(self, header: Path, flags: Sequence[str], folder: Path) -> Path:
        """Compile a header to GCC's `.gch`: `-include` reads it, by its name without that suffix. Raises BuildError."""
        compiled = folder / f"{header.name}.gch"
        self._compile(header, [*flags, "-x", "c++-header"], compiled)
        return compiled

    def _compile(self, file: Path, flags: Sequence[str], compiled: Path) -> None:
        while error := _error_of([*self.command, *flags, "-c", str(file), "-o", str(compiled)]):
            unknown = [f for f in OPTIONAL if f in flags and re.search(rf"error:.*{f.partition('=')[0]}", error)]
            if not unknown:
                raise BuildError(error)
            flags = [flag for flag in flags if flag not in unknown]

    @cached_property
    def version(self) -> str:
        """The first line that the compiler prints about itself."""
        command = [*self.command, "--version"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]

    @property
    def is_clang(self) -> bool:
        """True for Clang under any name: it takes other options than GCC."""
        return "clang" in self.version.lower()


def _error_of(command: list[str]) -> str:
    """Run a command: its error messages, or "" where it succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    return "" if done.returncode == 0 else done.stderr + done.stdout or f"{command[0]} ended with {done.returncode}"


@cache
def find_compiler() -> Compiler:
    """This machine's compiler. Raises DeviceError with what to install."""
    for variable in ("MINIGRAD_CXX", "CXX"):
        if words := shlex.split(os.environ.get(variable, "")):
            if shutil.which(words[0]):
                return _compiler(words)
            if variable == "MINIGRAD_CXX":
                raise DeviceError(f"MINIGRAD_CXX names {words[0]!r}, which is no command here; name a C++ compiler.")
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
    linker = words
    if len(words) > 1 and words[-1] == "c++":
        linker = [*words[:-1], "cc"]  # zig would first build its C++ library, for half a minute; nothing here needs it
    return Compiler(tuple(words), tuple(linker), f"{words} {path} {stat.st_size} {stat.st_mtime_ns}")


def cores() -> list[int]:
    """The numbers of the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


@cache
def processor() -> str:
    """This processor as -march=native sees it: code that was compiled for it may not run on another."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = file.read(8192).split("\n\n")[0].splitlines()
        known = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    except OSError:
        known = [platform.processor()]
    return " ".join([platform.machine(), *known])
