"""The extents of a grid or block: as arithmetic on the sizes of the work, and their limits.

The limits are checked on the host. They are those of every GPU, and the same for `sim` and `cuda`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.device import MAX_ASKED, MAX_GRID, MAX_THREADS, Dim3
from minigrad.errors import LaunchError
from minigrad.scan import matching, split
from minigrad.source import Source

Extent = int | Sequence[int]


def ceil_div(a: int, b: int) -> int:
    """ceil(a / b)."""
    return -(-a // b)


def next_power(count: int, most: int) -> int:
    """The least power of two that is not below this count, or `most` if that is less."""
    return min(most, 1 << max(count - 1, 0).bit_length())


@dataclass(frozen=True)
class Span:
    """An axis of a grid or block: a size, or ceil(size / piece), each a name, a number, or a product of these.

    "n/4*BLOCK" is ceil(n / (4 * BLOCK)): all that follows the slash is one piece.
    """

    size: str
    piece: str = ""

    def value(self, numbers: Mapping[str, int]) -> int:
        """The extent for these sizes and tunables."""
        return ceil_div(_number(self.size, numbers), self.step(numbers))

    def step(self, numbers: Mapping[str, int]) -> int:
        """The size of a piece."""
        return _number(self.piece or "1", numbers)

    def words(self) -> str:
        """In words: ceil(n / BLOCK)."""
        piece = self.piece.replace("*", " * ")
        return f"ceil({self.size} / {f'({piece})' if ' ' in piece else piece})" if self.piece else self.size

    def filled(self, numbers: Mapping[str, int]) -> str:
        """In numbers: ceil(1000 / 256)."""
        size = _number(self.size, numbers)
        return f"ceil({size} / {self.step(numbers)})" if self.piece else str(size)


def _number(word: str, numbers: Mapping[str, int]) -> int:
    return prod(int(factor) if factor.isdigit() else numbers[factor] for factor in word.split("*"))


def parse_sizes(words: str) -> dict[str, int | None]:
    """Parse "m n k batch=1": each name with its default, or None for a required size."""
    pairs = (word.partition("=") for word in words.split())
    return {name: int(default) if default else None for name, _, default in pairs}


def dim3(name: str, what: str, extent: Extent, limit: Dim3) -> Dim3:
    """An int or up to three ints as (x, y, z), each from 1 to the limit. Raises LaunchError."""
    values = tuple(extent) if isinstance(extent, Sequence) else (extent,)
    if not 1 <= len(values) <= 3 or not all(isinstance(v, int | np.integer) for v in values):
        raise LaunchError(f"{name}: {what}={extent!r} must be one to three whole numbers.")
    for axis, value, most in zip("xyz", values, limit, strict=False):
        if not 1 <= value <= most:
            up = " A quotient of whole numbers is rounded up by (n + 255) // 256." if value == 0 else ""
            raise LaunchError(f"{name}: {what}.{axis}={value} is outside 1 to {most}; choose it within.{up}")
    x, y, z = (*map(int, values), 1, 1)[:3]
    return x, y, z


def index_of(number: int, extent: Dim3) -> Dim3:
    """The index (x, y, z) of block or thread `number`, counted along x first."""
    x, y, _ = extent
    return number % x, number // x % y, number // (x * y)


def check_limits(kernel: Any, grid: Dim3, block: Dim3, shared: int, values: Mapping[str, int]) -> None:
    """Raise LaunchError for too many threads in a block, blocks in a grid, or bytes of shared memory."""
    if prod(block) > MAX_THREADS:
        tuned = ", ".join(f"{key}={value}" for key, value in values.items()) or f"block={' x '.join(map(str, block))}"
        legal = ", ".join(f"{key} in {sorted(kernel.tunables[key])}" for key in values)
        raise LaunchError(
            f"{kernel.name}: {tuned} needs {prod(block)} threads in a block; a device allows {MAX_THREADS}. "
            f"Choose smaller values{f': {legal}' if legal else f', at most {MAX_THREADS} threads in all'}."
        )
    macros = tuple({**kernel.defines, **values}.items())
    if 0 < (bound := most_threads(kernel.source, kernel.name, macros)) < prod(block):
        raise LaunchError(
            f"{kernel.name}: {prod(block)} threads in a block; its __launch_bounds__ allows {bound}, and a GPU rejects "
            "more. Give a smaller block."
        )
    for axis, value, most in zip("xyz", grid, MAX_GRID, strict=True):
        if value > most:
            raise LaunchError(f"{kernel.name}: grid.{axis}={value} blocks; a device allows {most}. Use larger blocks.")
    if isinstance(shared, bool) or not isinstance(shared, int | np.integer) or not 0 <= shared <= MAX_ASKED:
        raise LaunchError(
            f"{kernel.name}: shared={shared!r} bytes; a block may use 0 to {MAX_ASKED} bytes of shared memory."
        )


@lru_cache(4096)
def most_threads(source: Source, kernel: str, macros: tuple) -> int:
    """The threads of a block that __launch_bounds__ allows, with these macros; 0 where nothing is known."""
    start = source.signature(kernel).start
    head = source.code[start : source.code.find("{", start)]
    if not (found := re.search(r"\b__launch_bounds__\s*(?=\()", head)):
        return 0
    values = {name: str(value) for name, value in macros} | {name: value for name, _, value in source.template_values}
    most = split(head[found.end() + 1 : matching(head, found.end(), "()")])[0]
    most = source.expanded(re.sub(r"\w+", lambda word: values.get(word[0], word[0]), most), values)
    if "/0" in most.replace(" ", "") or not re.fullmatch(r"(?:[1-9]\d*|0(?!\d)|[\s()*+/-])+", most):
        return 0  # the compiler knows, or rejects it
    return int(eval(most.replace("/", "//"), {}))
