"""Launch: a kernel with its grid and block, which follow from the sizes of its work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import Any

from minigrad.devices.device import Dim3
from minigrad.errors import LaunchError
from minigrad.kernels.extents import Span, check_limits


def complete_sizes(kernel: Any, sizes: Sequence[int], named: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a launch by name, in order. Raises LaunchError if one is missing or is not a whole number."""
    takes = f"{kernel.name}.launch takes {', '.join(kernel.sizes)}"
    if not kernel.grid:
        raise LaunchError(f"{kernel.name} has no grid of its own; call it with grid= and block=.")
    if len(sizes) > len(kernel.sizes):
        raise LaunchError(f"{takes}; got {len(sizes)} sizes.")
    work = {**kernel.sizes, **dict(zip(kernel.sizes, sizes, strict=False)), **named}
    if missing := [key for key, value in work.items() if value is None]:
        raise LaunchError(f"{takes}; {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing.")
    for key, value in work.items():
        if not isinstance(value, Integral) or value < 0:
            raise LaunchError(f"{kernel.name}: {key}={value!r} must be a whole number of at least 0.")
    return work


@dataclass(frozen=True)
class Launch:
    """A kernel with its grid and block for these sizes. Call it with the kernel's arguments to run it."""

    kernel: Any  # a Kernel
    sizes: dict[str, int]
    values: dict[str, int]
    grid: Dim3
    block: Dim3
    shared: int

    @staticmethod
    def plan(kernel: Any, sizes: dict[str, int], values: dict[str, int]) -> "Launch":
        """Compute grid and block. Raises LaunchError beyond the limits."""
        grid, block = (_extents(spans, {**sizes, **values}) for spans in (kernel.grid, kernel.block))
        check_limits(kernel, grid, block, 0, values)
        return Launch(kernel, sizes, values, grid, block, kernel.memory.value({**sizes, **values}))

    def __call__(self, *args: Any) -> None:
        """Run the kernel; an extent of 0 means no work and no launch."""
        if 0 not in self.grid:
            self.kernel.run(args, self.grid, self.block, self.shared, self.values)

    def standalone(self, path: Any, *args: Any) -> Any:
        """Write the launch as a CUDA C++ program of its own: see `Kernel.standalone`."""
        kernel = self.kernel.using(**self.values)
        return kernel.standalone(path, *args, grid=self.grid, block=self.block, shared=self.shared)

    blocks = property(lambda self: prod(self.grid))
    threads = property(lambda self: self.blocks * prod(self.block))

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


def _line(spans: tuple[Span, ...], numbers: Mapping[str, int], extent: Dim3) -> str:
    """The arithmetic of an extent: in words, in numbers, and the result, each where it differs from the one before."""
    rows = [span.words() for span in spans], [span.filled(numbers) for span in spans], extent[: len(spans)]
    steps = [" x ".join(map(str, row)) for row in rows]
    return " = ".join(step for step, before in zip(steps, ["", *steps], strict=False) if step != before)
