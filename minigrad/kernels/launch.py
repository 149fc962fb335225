"""Launch: grid and block from the sizes of the work, checked on the host against CUDA's limits.

The limits are those of every GPU, and the same for `sim` and `cuda`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import Any

import numpy as np

from minigrad.devices.device import MAX_GRID, MAX_SHARED, MAX_THREADS, Dim3
from minigrad.errors import LaunchError

Extent = int | Sequence[int]


def dim3(name: str, what: str, extent: Extent, limit: Dim3) -> Dim3:
    """An int or up to three ints as (x, y, z), each from 1 to the limit. Raises LaunchError."""
    values = tuple(extent) if isinstance(extent, Sequence) else (extent,)
    if not 1 <= len(values) <= 3 or not all(isinstance(v, int | np.integer) for v in values):
        raise LaunchError(f"{name}: {what}={extent!r} must be one to three whole numbers.")
    for axis, value, most in zip("xyz", values, limit, strict=False):
        if not 1 <= value <= most:
            raise LaunchError(f"{name}: {what}.{axis}={value} is outside 1 to {most}; choose it within.")
    x, y, z = (*map(int, values), 1, 1)[:3]
    return x, y, z


def check_limits(kernel: Any, grid: Dim3, block: Dim3, shared: int, values: Mapping[str, int]) -> None:
    """Raise LaunchError for too many threads in a block, blocks in a grid, or bytes of shared memory."""
    if prod(block) > MAX_THREADS:
        tuned = ", ".join(f"{key}={value}" for key, value in values.items()) or f"block={_product(block)}"
        legal = ", ".join(f"{key} in {sorted(kernel.tunables[key])}" for key in values)
        raise LaunchError(
            f"{kernel.name}: {tuned} needs {prod(block)} threads in a block; a device allows {MAX_THREADS}. "
            f"Choose smaller values{f': {legal}' if legal else f', at most {MAX_THREADS} threads in all'}."
        )
    for axis, value, most in zip("xyz", grid, MAX_GRID, strict=True):
        if value > most:
            raise LaunchError(f"{kernel.name}: grid.{axis}={value} blocks; a device allows {most}. Use larger blocks.")
    if isinstance(shared, bool) or not isinstance(shared, int | np.integer) or not 0 <= shared <= MAX_SHARED:
        raise LaunchError(
            f"{kernel.name}: shared={shared!r} bytes; a block may use 0 to {MAX_SHARED} bytes of shared memory."
        )


def ceil_div(a: int, b: int) -> int:
    """ceil(a / b)."""
    return -(-a // b)


@dataclass(frozen=True)
class Span:
    """An axis of a grid or block: a size, or ceil(size / piece). Each is a name, a number, or a product of these."""

    size: str
    piece: str = ""

    @staticmethod
    def parse(words: str) -> "Span":
        """Parse "n/BLOCK", "n/4*BLOCK" (pieces of 4 * BLOCK) or "rows"."""
        size, _, piece = words.partition("/")
        return Span(size, piece)

    def value(self, numbers: Mapping[str, int]) -> int:
        """The extent for these sizes and tunables."""
        size = _number(self.size, numbers)
        return ceil_div(size, self.step(numbers)) if self.piece else size

    def step(self, numbers: Mapping[str, int]) -> int:
        """The size of a piece."""
        return _number(self.piece, numbers) if self.piece else 1

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


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and block for these sizes. Call it with the kernel's arguments to run it."""

    kernel: Any  # a Kernel
    sizes: dict[str, int]
    values: dict[str, int]
    grid: Dim3
    block: Dim3

    @staticmethod
    def plan(kernel: Any, sizes: tuple[int, ...], named: dict[str, int], values: dict[str, int]) -> "Launch":
        """Compute grid and block. Raises LaunchError for a missing size or beyond the limits."""
        if not kernel.grid:
            raise LaunchError(f"{kernel.name} has no grid of its own; call it with grid= and block=.")
        if len(sizes) > len(kernel.sizes):
            raise LaunchError(f"{kernel.name}.launch takes {', '.join(kernel.sizes)}; got {len(sizes)} sizes.")
        work = kernel.sizes | dict(zip(kernel.sizes, sizes, strict=False)) | named
        if missing := [key for key, value in work.items() if value is None]:
            absent = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
            raise LaunchError(f"{kernel.name}.launch takes {', '.join(kernel.sizes)}; {absent}.")
        for key, value in work.items():
            if not isinstance(value, Integral) or value < 0:
                raise LaunchError(f"{kernel.name}: {key}={value!r} must be a whole number of at least 0.")
        grid, block = (_extents(spans, {**work, **values}) for spans in (kernel.grid, kernel.block))
        check_limits(kernel, grid, block, 0, values)
        return Launch(kernel, work, values, grid, block)

    def __call__(self, *args: Any) -> None:
        """Run the kernel; an extent of 0 means no work and no launch."""
        if 0 not in self.grid:
            self.kernel.run(args, self.grid, self.block, self.kernel.shared, self.values)

    @property
    def blocks(self) -> int:
        """The number of blocks in the grid."""
        return prod(self.grid)

    @property
    def threads(self) -> int:
        """The number of threads in the grid."""
        return self.blocks * prod(self.block)

    def __repr__(self) -> str:
        numbers = {**self.sizes, **self.values}
        grid = f"{_line(self.kernel.grid, numbers, self.grid)}{_total(self.grid, self.blocks, 'block')}"
        block = f"{_line(self.kernel.block, numbers, self.block)}{_total(self.block, prod(self.block), 'thread')}"
        head = ", ".join(f"{key}={value}" for key, value in numbers.items())
        total = f"{self.blocks} x {prod(self.block)} = {self.threads} threads"
        return f"{self.kernel.name}({head})\n  grid   {grid}\n  block  {block}\n  total  {total}"

    def _repr_html_(self) -> str:
        return f"<pre style='font-family:monospace'>{self!r}</pre>"


def _extents(spans: tuple[Span, ...], numbers: Mapping[str, int]) -> Dim3:
    x, y, z = (*(span.value(numbers) for span in spans), 1, 1, 1)[:3]
    return x, y, z


def _total(extent: Dim3, number: int, noun: str) -> str:
    """The number with its noun, after an equals sign where it is a product of several extents."""
    total = f" = {number}" if sum(n > 1 for n in extent) > 1 else ""
    return f"{total} {noun}{'s' if number != 1 else ''}"


def _product(extents: Sequence[Any]) -> str:
    return " x ".join(map(str, extents))


def _line(spans: tuple[Span, ...], numbers: Mapping[str, int], extent: Dim3) -> str:
    steps = [
        _product([span.words() for span in spans]),
        _product([span.filled(numbers) for span in spans]),
        _product(extent[: len(spans)]),
    ]
    return " = ".join(step for step, before in zip(steps, ["", *steps], strict=False) if step != before)
