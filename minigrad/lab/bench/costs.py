"""Cost of an adjoint relative to its kernel: the ratio of their times as sizes grow, registers, spills and tapes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from minigrad.lab.bench.timer import Timing


@dataclass(frozen=True)
class Ratio:
    """The times of a kernel and of its adjoint."""

    primal: Timing
    adjoint: Timing

    @property
    def ratio(self) -> float:
        """adjoint / primal"""
        return self.adjoint.seconds / self.primal.seconds

    @staticmethod
    def from_json(numbers: list[float]) -> "Ratio":
        return Ratio(Timing.from_json(numbers[:4]), Timing.from_json(numbers[4:]))

    def to_json(self) -> list[float]:
        """[median, fastest, slowest, repeats] of the kernel, then of its adjoint, in microseconds."""
        return [*self.primal.to_json()[:4], *self.adjoint.to_json()[:4]]


def saturated(sizes: Iterable[int]) -> list[int]:
    """The last 32-fold of growing sizes; smaller ones leave a part of the GPU idle, or fit into a cache."""
    known = sorted(sizes)
    return [n for n in known if 32 * n >= known[-1]]


class Growth(dict[int, Ratio]):
    """The ratios by number of threads or by work per thread."""

    @property
    def spread(self) -> float | None:
        """The largest ratio over the smallest on a saturated GPU; 1 is flat. None for fewer than two sizes."""
        ratios = [self[n].ratio for n in saturated(self)]
        return max(ratios) / min(ratios) if len(ratios) > 1 else None


HEADERS = ("rung", "kernel us", "adjoint us", "ratio", "flat, threads", "flat, work", "registers", "spilled bytes",
           "local tape B", "global tape MB", "Warp us", "Warp's adjoint us", "Warp's ratio")  # fmt: skip
Resources = tuple[int, int, int, int]  # registers a thread; bytes: static shared, local, and of these spilled


@dataclass(frozen=True, repr=False)
class AdjointCost:
    """One rung: its times as threads and work grow, the resources of kernel and adjoint, and Warp's times.

    tape_bytes: local tapes of one thread, and all global tapes, at the largest size. Next to them: Warp's times at that
    size, the reason why there are none, or None for a kernel that is not written for Warp. memory, of the paper's
    applications: bytes of the kernel's arrays, and of those that the adjoint adds.
    """

    kernel: str
    dtype: str
    sizes: Growth
    works: Growth
    resources: tuple[Resources, Resources]
    tape_bytes: tuple[int, int]
    beside: Ratio | str | None = None
    memory: tuple[int, int] = (0, 0)

    @property
    def largest(self) -> Ratio:
        """The times at the largest size, which the table shows."""
        return self.sizes[max(self.sizes)]

    @property
    def ratio(self) -> float:
        """adjoint / primal at the largest size."""
        return self.largest.ratio

    def __repr__(self) -> str:
        kernel, adjoint = (f"{timing.seconds * 1e6:.0f} us" for timing in (self.largest.primal, self.largest.adjoint))
        (before, *_), (after, *_) = self.resources
        tape = f", a tape of {self.tape_bytes[1] / 1e6:.0f} MB" if self.tape_bytes[1] else ""
        times = f"{kernel}, its adjoint {adjoint}, {self.ratio:.2f} times as long"
        return f"{self.kernel}: {times}; registers {before} and {after}{tape}"

    def row(self, name: str) -> tuple[str, ...]:
        """Cells under HEADERS."""
        (before, after), (local, shared) = self.resources, self.tape_bytes
        spread = [f"{growth.spread:.2f}" if growth.spread else "" for growth in (self.sizes, self.works)]
        warp = _cells(self.beside) if isinstance(self.beside, Ratio) else ["", "", self.beside or ""]
        return (
            name, *_cells(self.largest), *spread, f"{before[0]} / {after[0]}", f"{before[3]} / {after[3]}", str(local),
            f"{shared / 1e6:.0f}", *warp,
        )  # fmt: skip

    @staticmethod
    def from_json(content: dict[str, Any]) -> "AdjointCost":
        growth = {
            key: Growth({int(n): Ratio.from_json(r) for n, r in content[key].items()}) for key in ("sizes", "works")
        }
        pairs = {"resources": tuple(map(tuple, content["resources"])), "tape_bytes": tuple(content["tape_bytes"])}
        pairs["memory"] = tuple(content.get("memory", (0, 0)))
        beside = Ratio.from_json(content["beside"]) if isinstance(content["beside"], list) else content["beside"]
        return AdjointCost(**{**content, **growth, **pairs, "beside": beside})

    def to_json(self) -> dict[str, Any]:
        return vars(self)


def _cells(ratio: Ratio) -> list[str]:
    return [*(f"{t.seconds * 1e6:.1f}" for t in (ratio.primal, ratio.adjoint)), f"{ratio.ratio:.2f}"]
