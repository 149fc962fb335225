"""The walk of a kernel over images, by channels: which kernel runs, its launch, and the arguments that say where."""

from collections.abc import Mapping
from math import prod
from typing import Any, NamedTuple

from minigrad.devices.array import Array
from minigrad.devices.dtypes import wide
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.ops.channels_last import LANES, in_fours, laid_out

Kernels = Mapping[str, Kernel]


class Sums(NamedTuple):
    """A launch that sums channels in parts: the parts (count, 2, channels), and its last arguments."""

    launch: Launch
    parts: Array
    place: tuple[int, ...]


class Walk(NamedTuple):
    """The walk over an array of this shape, seen as (images, channels, inner).

    last: with the channels last, four of them to a thread, by the kernels called ..._nhwc. Other numbers of channels
    are walked over in C order.
    """

    images: int
    channels: int
    inner: int
    last: bool
    device: Any

    @staticmethod
    def over(x: Array) -> "Walk":
        """The walk over x (N, C, ...): without further axes both layouts are the same."""
        images, channels, *extents = x.shape
        inner = prod(extents)
        pixels = inner == 1 and channels % LANES == 0 and not x.spec.offset
        return Walk(images, channels, inner, pixels or in_fours(x), x.device)

    @property
    def terms(self) -> int:
        """The number of elements of a channel."""
        return self.images * self.inner

    @property
    def flags(self) -> int:
        """The bytes that note a sign of each element: a bit for each with the channels last, else a byte."""
        return ceil_div(self.terms, 2) * (self.channels // LANES) if self.last else self.terms * self.channels

    def laid_out(self, x: Array) -> Array:
        """The array in the layout of this walk."""
        return laid_out(x, self.last)

    def empty(self, x: Array) -> Array:
        """New memory for an array of the shape of x."""
        return Array.empty(x.device, x.shape, x.dtype, self.last)

    def elements(self, kernels: Kernels, role: str) -> tuple[Launch, tuple[int, ...]]:
        """The launch of a kernel that writes each element, and its last arguments."""
        if self.last:
            return self._strips(kernels, role)
        size = self.terms * self.channels
        return kernels[role].launch(size), (self.channels, self.inner, size)

    def sums(self, kernels: Kernels, role: str, x: Array) -> Sums:
        """The launch of a kernel that sums channels of x in parts."""
        if self.last:
            launch, place = self._strips(kernels, role)
        else:
            launch = kernels[role].launch(self.channels, self.terms, self.device.processors)
            place = (self.images, self.channels, self.inner, launch.values["CHUNK"])
        count = launch.grid[0 if self.last else 1]
        return Sums(launch, Array.empty(self.device, (count, 2, self.channels), wide(x.dtype)), place)

    def _strips(self, kernels: Kernels, role: str) -> tuple[Launch, tuple[int, ...]]:
        pairs, fours = ceil_div(self.terms, 2), self.channels // LANES
        launch = kernels[f"{role}_nhwc"].launch(pairs, fours, self.device.processors)
        return launch, (self.channels, self.terms, launch.values["PAIRS"])
