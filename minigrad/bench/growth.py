"""How sizes grow on a GPU, and what a kernel's adjoint costs beside the kernel as they do."""

from collections.abc import Iterable
from dataclasses import dataclass

from minigrad.bench.timing import Timing


def doubled(first: int, below: int = 0) -> list[int]:
    """32-fold growth in five doublings from `first`, which saturates a GPU; and so many sizes below it."""
    return [first * 2**k // 2**below for k in range(6 + below)]


def saturated(sizes: Iterable[int]) -> list[int]:
    """Of growing sizes those of the last 32-fold; what is below leaves a part of the GPU idle, or fits into a cache."""
    known = sorted(sizes)
    return [n for n in known if 32 * n >= known[-1]]


@dataclass(frozen=True)
class Ratio:
    """The times of a kernel and of its adjoint."""

    primal: Timing
    adjoint: Timing

    @property
    def ratio(self) -> float:
        """How many times as long the adjoint takes."""
        return self.adjoint.seconds / self.primal.seconds


class Growth(dict[int, Ratio]):
    """The times by size or by work."""

    @property
    def spread(self) -> float | None:
        """The largest ratio over the smallest on a saturated GPU; 1 is flat. None where nothing grew."""
        ratios = [self[n].ratio for n in saturated(self)]
        return max(ratios) / min(ratios) if len(ratios) > 1 else None
