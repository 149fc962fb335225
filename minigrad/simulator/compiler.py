"""The simulator's builds: options for kernels and for the runtime, and the cache of their objects."""

import ctypes
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from minigrad.devices import caches
from minigrad.devices.host_compiler import LINK, MAPPINGS, OPTIONAL, BuildError, find_compiler, processor

NATIVE = Path(__file__).parent / "native"
DIALECT = str(NATIVE / "dialect.h")
PORTABLE = "MINIGRAD_PORTABLE"  # environment: 1 takes the runtime without assembly, which every processor can run

COMMON = [
    "-x", "c++", "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
    "-U_FORTIFY_SOURCE", "-march=native", "-fno-finite-loops", "-fno-stack-protector", "-fstack-clash-protection",
]  # fmt: skip
KERNEL = [
    *COMMON, "-w", "-g1",
    "-O1",  # kernels run as fast as with -O2, and compile in three quarters of the time
    "-fwhole-program",  # what the kernel does not call is left out, and the kernel lies in its entry point alone
    f"-I{NATIVE}", f"-I{NATIVE / 'include'}", "-include", DIALECT,
    "-ffp-contract=off",  # a * b + c is rounded twice, as in NumPy
    "-fno-math-errno", "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",
    # A float4 at a wrong address and a division by zero become calls of our own; no sanitizer is linked.
    "-fsanitize=alignment,integer-divide-by-zero", "-fno-sanitize-recover=alignment,integer-divide-by-zero",
]  # fmt: skip
_IN_TEXT = re.compile(r"^(?!/)\S.*:\d+:\d+: error: ", re.M)  # an error of the text, or of a header of the reader's
RUNTIME = [*COMMON, "-fno-threadsafe-statics", "-pthread"]
BARE = ["-nostdlib", "-lgcc"]  # GCC, after LINK: C's library is loaded; few kernels take C++'s. Both are slow to link


@cache
def _native() -> str:
    """A digest of the dialect and the runtime, for the key."""
    texts = b"".join(path.read_bytes() for path in sorted(NATIVE.rglob("*")) if path.is_file())
    return hashlib.sha256(texts).hexdigest()


def _key(flags: Sequence[str]) -> tuple:
    return flags, OPTIONAL, find_compiler().identity, processor(), _native()


def _precompiled(flags: tuple[str, ...]) -> str:
    """The dialect, compiled ahead by GCC: parsing it takes half the time of a small kernel. For Clang, as it is."""
    compiler = find_compiler()
    if compiler.is_clang or DIALECT not in flags:
        return DIALECT
    flags = tuple(flag for flag in flags if flag not in ("-include", DIALECT))

    def build(folder: Path) -> Path:
        return compiler.precompile(Path(DIALECT), flags, folder)

    return str(caches.compiled("dialect", ".h.gch", _key(flags), build).with_suffix(""))


def load(
    stem: str, text: str, flags: tuple[str, ...], link: Sequence[str] = (), mode: int = ctypes.DEFAULT_MODE
) -> tuple[Any, Path]:
    """Compile the text, or take it from the cache: the loaded object and its file. Raises BuildError, OSError."""
    key = text, link, LINK, MAPPINGS, BARE, _key(flags)
    least = BARE

    def build(folder: Path) -> Path:
        compiler, header, name = find_compiler(), _precompiled(flags), f"{stem}.cu"
        bare = () if header == DIALECT else least
        try:
            own = [header if flag == DIALECT else flag for flag in flags]
            return compiler.build(text, name, own, folder, link, bare)
        except BuildError as error:
            if header == DIALECT or _IN_TEXT.search(str(error)):
                raise
            built = compiler.build(text, name, flags, folder, link, bare)
            Path(f"{header}.gch").unlink(missing_ok=True)  # damaged: the next build compiles it again
            return built

    path = caches.compiled(stem, ".so", key, build)
    try:
        return ctypes.CDLL(str(path), mode), path
    except OSError:  # it takes something of the C++ library, was built on a system with others, or is truncated
        least = []
        path = caches.compiled(stem, ".so", key, build, again=True)
        return ctypes.CDLL(str(path), mode), path
