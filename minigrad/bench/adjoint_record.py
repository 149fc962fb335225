"""What adjoints cost, as measured on a GPU: a table, and a file that is found again where there is no GPU."""

from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import Any

from minigrad.bench.dated import Dated
from minigrad.bench.growth import Growth, Ratio
from minigrad.bench.timing import Timing
from minigrad.show.tables import Table, table

HEADERS = ("rung", "kernel us", "adjoint us", "ratio", "flat, threads", "flat, work", "registers", "spilled bytes",
           "local tape B", "global tape MB", "Warp us", "Warp's adjoint us", "Warp's ratio")  # fmt: skip
Resources = tuple[int, int, int, int]  # registers a thread; shared, local and spilled bytes


@dataclass(frozen=True, repr=False)
class Cost:
    """Of one rung: its times as threads and work grow, what kernel and adjoint take of the GPU, and Warp's times.

    tape_bytes: of local tapes for a thread, and of global tapes in all, at the largest size. beside: Warp's times at
    that size, or why there are none.
    """

    kernel: str
    dtype: str
    sizes: Growth
    works: Growth
    resources: tuple[Resources, Resources]
    tape_bytes: tuple[int, int]
    beside: Ratio | str | None = None

    @property
    def largest(self) -> Ratio:
        """At the largest size, which the table shows."""
        return self.sizes[max(self.sizes)]

    @property
    def ratio(self) -> float:
        """Of adjoint to kernel, at the largest size."""
        return self.largest.ratio

    def __repr__(self) -> str:
        kernel, adjoint = (f"{timing.seconds * 1e6:.0f} us" for timing in (self.largest.primal, self.largest.adjoint))
        (before, *_), (after, *_) = self.resources
        tape = f", a tape of {self.tape_bytes[1] / 1e6:.0f} MB" if self.tape_bytes[1] else ""
        times = f"{kernel}, its adjoint {adjoint}, {self.ratio:.2f} times as long"
        return f"{self.kernel}: {times}; registers {before} and {after}{tape}"


@dataclass(repr=False)
class AdjointRecord(Dated):
    """The costs of the ladder's adjoints on one device on one day."""

    costs: dict[str, Cost] = field(default_factory=dict)

    within, needs = "adjoint", (*Dated.needs, "costs")

    @property
    def median(self) -> float:
        """The median ratio over all rungs."""
        return median(cost.ratio for cost in self.costs.values())

    def only(self, *names: str) -> "AdjointRecord":
        """The record of these rungs."""
        return replace(self, costs={name: cost for name, cost in self.costs.items() if name in names})

    def table(self) -> Table:
        """A row for each rung."""
        return table([_row(name, cost) for name, cost in self.costs.items()], HEADERS)

    @property
    def summary(self) -> str:
        """The median ratio."""
        return f" Median ratio {self.median:.2f}." if self.costs else ""

    @classmethod
    def read(cls, content: dict[str, Any]) -> "AdjointRecord":
        """The record that a file's content says."""
        return cls(**content | {"costs": {name: _cost(given) for name, given in content["costs"].items()}})

    def written(self) -> dict[str, Any]:
        """The content of a file."""
        costs = {name: _plain(cost) for name, cost in self.costs.items()}
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"costs": costs}


def newest() -> AdjointRecord | None:
    """The newest record of adjoints."""
    return next(AdjointRecord.all(), None)


def _row(name: str, cost: Cost) -> tuple[str, ...]:
    def us(timing: Timing) -> str:
        return f"{timing.seconds * 1e6:.1f}"

    (before, after), (local, shared) = cost.resources, cost.tape_bytes
    spread = [f"{g.spread:.2f}" if g.spread else "" for g in (cost.sizes, cost.works)]
    rival = cost.beside
    warp: tuple[str, str, str] = ("", "", rival if isinstance(rival, str) else "")
    if isinstance(rival, Ratio):
        warp = us(rival.primal), us(rival.adjoint), f"{rival.ratio:.2f}"
    return (
        name, us(cost.largest.primal), us(cost.largest.adjoint), f"{cost.ratio:.2f}", *spread,
        f"{before[0]} / {after[0]}", f"{before[3]} / {after[3]}", str(local), f"{shared / 1e6:.0f}", *warp,
    )  # fmt: skip


def _plain(cost: Cost) -> dict[str, Any]:
    """Times as [median, fastest, slowest, repeats] of the kernel, then of its adjoint, in microseconds."""
    beside = _pair(cost.beside) if isinstance(cost.beside, Ratio) else cost.beside
    return {
        "kernel": cost.kernel, "dtype": cost.dtype, "resources": cost.resources, "tape_bytes": cost.tape_bytes,
        "sizes": {n: _pair(r) for n, r in cost.sizes.items()},
        "works": {n: _pair(r) for n, r in cost.works.items()}, "beside": beside,
    }  # fmt: skip


def _pair(ratio: Ratio) -> list[float]:
    return [*ratio.primal.written()[:4], *ratio.adjoint.written()[:4]]


def _ratio(given: list[float]) -> Ratio:
    return Ratio(Timing.read(given[:4]), Timing.read(given[4:]))


def _cost(given: dict[str, Any]) -> Cost:
    growth = {key: Growth({int(n): _ratio(r) for n, r in given[key].items()}) for key in ("sizes", "works")}
    first, second = map(tuple, given["resources"])
    local, shared = given["tape_bytes"]
    beside = _ratio(given["beside"]) if isinstance(given["beside"], list) else given["beside"]
    return Cost(given["kernel"], given["dtype"], **growth, resources=(first, second), tape_bytes=(local, shared),
                beside=beside)  # fmt: skip
