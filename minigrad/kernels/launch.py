"""What no GPU would launch is refused on the host, the same way for `sim` and `cuda`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from minigrad.devices import device as base
from minigrad.devices.device import Dim3
from minigrad.errors import LaunchError

if TYPE_CHECKING:
    from minigrad.kernels.kernel import Kernel

Extent = int | Sequence[int]


def dim3(name: str, what: str, extent: Extent, limit: base.Dim3) -> base.Dim3:
    """An int or up to three ints as (x, y, z), each at least 1 and within the limit."""
    values = tuple(extent) if isinstance(extent, Sequence) else (extent,)
    if not 1 <= len(values) <= 3 or not all(isinstance(v, int | np.integer) for v in values):
        raise LaunchError(f"{name}: {what}={extent!r} must be one to three whole numbers.")
    for axis, value, most in zip("xyz", values, limit, strict=False):
        if not 1 <= value <= most:
            raise LaunchError(f"{name}: {what}.{axis}={value} is outside 1 to {most}; choose it within.")
    x, y, z = (*map(int, values), 1, 1)[:3]
    return x, y, z


def check_limits(kernel: "Kernel", grid: base.Dim3, block: base.Dim3, shared: int, values: Mapping[str, int]) -> None:
    """Refuse what no GPU would launch: threads in a block, grid extents, shared memory."""
    threads = block[0] * block[1] * block[2]
    if threads > base.MAX_THREADS:
        shape = " x ".join(str(extent) for extent in block)
        tuned = ", ".join(f"{key}={value}" for key, value in values.items()) or f"block={shape}"
        raise LaunchError(
            f"{kernel.name}: {tuned} needs {threads} threads in a block; a device allows {base.MAX_THREADS}. "
            f"Choose smaller values{way_out(kernel, values)}."
        )
    for axis, value, most in zip("xyz", grid, base.MAX_GRID, strict=True):
        if value > most:
            raise LaunchError(f"{kernel.name}: grid.{axis}={value} blocks; a device allows {most}.")
    if isinstance(shared, bool) or not isinstance(shared, int | np.integer) or not 0 <= shared <= base.MAX_SHARED:
        raise LaunchError(
            f"{kernel.name}: shared={shared!r} bytes; a block may use 0 to {base.MAX_SHARED} bytes of shared memory."
        )


def way_out(kernel: "Kernel", values: Mapping[str, int]) -> str:
    """The legal values of the tunables, for a message."""
    legal = [f"{key} in {sorted(kernel.tunables[key])}" for key in values]
    return f": {', '.join(legal)}" if legal else f", at most {base.MAX_THREADS} threads in all"


def ceil_div(a: int, b: int) -> int:
    """The number of pieces of size b that cover a."""
    return -(-a // b)


@dataclass(frozen=True)
class Span:
    """One axis of a grid or block: a size, or a size divided into pieces. A word is a name, a number, or a product."""

    size: str
    piece: str = ""

    @staticmethod
    def parse(words: str) -> "Span":
        """Read "n/BLOCK", "n/4*BLOCK" (pieces of 4 * BLOCK) or "rows"."""
        size, _, piece = words.partition("/")
        return Span(size, piece)

    def value(self, numbers: Mapping[str, int]) -> int:
        """The extent for these numbers."""
        size = _number(self.size, numbers)
        return ceil_div(size, self.step(numbers)) if self.piece else size

    def step(self, numbers: Mapping[str, int]) -> int:
        """The size of a piece."""
        return _number(self.piece, numbers) if self.piece else 1

    def words(self) -> str:
        """As a person writes it: ceil(n / BLOCK)."""
        piece = self.piece.replace("*", " * ")
        return f"ceil({self.size} / {f'({piece})' if ' ' in piece else piece})" if self.piece else self.size

    def filled(self, numbers: Mapping[str, int]) -> str:
        """The same with the numbers put in."""
        size = _number(self.size, numbers)
        return f"ceil({size} / {_number(self.piece, numbers)})" if self.piece else str(size)


def _number(word: str, numbers: Mapping[str, int]) -> int:
    return prod(int(factor) if factor.isdigit() else numbers[factor] for factor in word.split("*"))


def parse_sizes(words: str) -> dict[str, int | None]:
    """Read "m n k batch=1": each name with its default, or None where it must be given."""
    pairs = (word.partition("=") for word in words.split())
    return {name: int(default) if default else None for name, _, default in pairs}


@dataclass(frozen=True)
class Launch:
    """A kernel with the grid and block that its sizes ask for. Call it with the kernel's arguments to run it."""

    kernel: "Kernel"
    sizes: dict[str, int]
    values: dict[str, int]
    grid: Dim3
    block: Dim3

    @staticmethod
    def plan(kernel: "Kernel", given: tuple[int, ...], named: dict[str, int], values: dict[str, int]) -> "Launch":
        """Work out grid and block. Raises LaunchError where a size is missing or the limits are passed."""
        if not kernel.grid:
            raise LaunchError(f"{kernel.name} has no grid of its own; call it with grid= and block=.")
        if len(given) > len(kernel.sizes):
            raise LaunchError(f"{kernel.name}.launch takes {', '.join(kernel.sizes)}; got {len(given)} sizes.")
        known = kernel.sizes | dict(zip(kernel.sizes, given, strict=False)) | named
        sizes = {key: value for key, value in known.items() if value is not None}
        if missing := [key for key in known if key not in sizes]:
            absent = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
            raise LaunchError(f"{kernel.name}.launch takes {', '.join(kernel.sizes)}; {absent}.")
        for key, value in sizes.items():
            if not isinstance(value, Integral) or value < 0:
                raise LaunchError(f"{kernel.name}: {key}={value!r} must be a whole number of at least 0.")
        numbers = {**sizes, **values}
        grid, block = _extents(kernel.grid, numbers), _extents(kernel.block, numbers)
        check_limits(kernel, grid, block, 0, values)
        return Launch(kernel, sizes, values, grid, block)

    def __call__(self, *args: Any) -> None:
        """Run the kernel. No work, an extent of 0, is no launch."""
        if 0 not in self.grid:
            self.kernel.run(args, self.grid, self.block, self.kernel.shared, self.values)

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return prod(self.grid)

    @property
    def threads(self) -> int:
        """Threads in the whole grid."""
        return prod(self.grid) * prod(self.block)

    def __repr__(self) -> str:
        numbers = {**self.sizes, **self.values}
        grid = f"{_line(self.kernel.grid, numbers, self.grid)}{_total(self.grid, self.blocks, 'block')}"
        block = f"{_line(self.kernel.block, numbers, self.block)}{_total(self.block, prod(self.block), 'thread')}"
        head = ", ".join(f"{key}={value}" for key, value in numbers.items())
        return "\n".join(
            [
                f"{self.kernel.name}({head})",
                f"  grid   {grid}",
                f"  block  {block}",
                f"  total  {self.blocks} x {prod(self.block)} = {self.threads} threads",
            ]
        )

    def _repr_html_(self) -> str:
        return f"<pre style='font-family:monospace'>{self!r}</pre>"


def _extents(spans: tuple[Span, ...], numbers: Mapping[str, int]) -> Dim3:
    x, y, z = (*(span.value(numbers) for span in spans), 1, 1, 1)[:3]
    return x, y, z


def _total(extent: Dim3, number: int, noun: str) -> str:
    """The product of the extents, where there is more than one to multiply."""
    total = f" = {number}" if sum(n > 1 for n in extent) > 1 else ""
    return f"{total} {noun}{'s' if number != 1 else ''}"


def _line(spans: tuple[Span, ...], numbers: Mapping[str, int], extent: Dim3) -> str:
    steps = [
        " x ".join(span.words() for span in spans),
        " x ".join(span.filled(numbers) for span in spans),
        " x ".join(str(value) for value in extent[: len(spans)]),
    ]
    return " = ".join(step for step, before in zip(steps, ["", *steps], strict=False) if step != before)
