"""The checking build: the same `.cu`, with the instrumentation of the compiler's sanitizers, none of which is linked.

Its calls are answered by `native/hooks.cpp` of the simulator. Nothing is optimised away (-O0), so that an access in
the text is an access in the counts, with either compiler.
"""

import sys

from minigrad.devices.simulator.compiler import GARBAGE, KERNEL, VOLATILE, is_clang
from minigrad.devices.simulator.module import Recipe

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
    return Recipe([*WATCHED, *(CLANG if is_clang() else GCC)], WRAP, once=not is_clang())
