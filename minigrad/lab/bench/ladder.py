"""How sizes grow on a GPU, and what a kernel's adjoint costs beside the kernel as they do."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import Any

import numpy as np

from minigrad.adjoint import ladder
from minigrad.devices.array import Array
from minigrad.display import Table, table
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Extent, ceil_div
from minigrad.lab.bench.measure import Draw
from minigrad.lab.bench.record import Dated
from minigrad.lab.bench.timer import Timing


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


Inputs = tuple[list[Any], Extent, Extent]  # arguments, grid, block
Make = Callable[[Draw, int, int], Inputs]


@dataclass(frozen=True)
class Rung:
    """A kernel of the ladder with `make(draw, size, work)`, its inputs.

    sizes: threads, or what their number grows with; the largest stands in the table. works: how much a thread does, or
    nothing where that is fixed; with `state`, the names of what a step of time reads and writes, how many steps. Both
    end with a growth of 32 times on a GPU that is saturated, and begin below where it is worth seeing. dtype is that of
    the paper's program.
    """

    kernel: Kernel
    make: Make
    sizes: Sequence[int]
    works: Sequence[int] = ()
    dtype: str = "float32"
    small: int = 0  # the size at which it is checked
    state: tuple[str, str] | None = None

    @property
    def size(self) -> int:
        """The least that saturates a GPU."""
        return saturated(self.sizes)[0]

    @property
    def work(self) -> int:
        """The least per thread that saturates a GPU; 1 where it is fixed."""
        return saturated(self.works)[0] if self.works else 1

    @property
    def checked(self) -> int:
        """A size that the simulator has done in a moment."""
        return self.small or max(1, self.size // 256)


def flat(n: int, *args: Any) -> Inputs:
    """Thread -> one of n."""
    return list(args), ceil_div(n, 256), 256


def clouds(d: Draw, bodies: int, each: int) -> Inputs:
    """So many bodies in all, in clouds of so many."""
    n = min(bodies, each)
    return [d.real(3 * bodies), 0.1, d.real(3 * bodies), n], (ceil_div(n, 128), bodies // n), 128


def columns(d: Draw, n: int, m: int) -> Inputs:
    """Thread -> one column of m numbers near 1, of which a product stays a number."""
    return flat(n, d.real(n * m, 0.9, 1.1), d.real(n), n, m)


def lattice(d: Draw, directions: int, cells: int) -> list[Any]:
    """A fluid nearly at rest, one cell in 64 of which is solid; its relaxation; room for what comes next."""
    solid = d.whole(cells, -63, 1)
    return [d.real(directions * cells, 1, 1.1), _one_where_zero(solid), 1.2, d.real(directions * cells)]


def _one_where_zero(x: Array) -> Array:
    return Array.upload(x.device, (x.numpy() == 0).astype(np.int32))


def plane(d: Draw, cells: int, _: int) -> Inputs:
    """1024 cells wide."""
    height = cells // 1024
    return [*lattice(d, 9, cells), 1024, height], (32, ceil_div(height, 8)), (32, 8)


def space(d: Draw, cells: int, _: int) -> Inputs:
    """64 x 64 cells wide and high."""
    depth = cells // 4096
    return [*lattice(d, 19, cells), 64, 64, depth], (2, 16, ceil_div(depth, 2)), (32, 4, 2)


def cross_sections(d: Draw, lookups: int, per_material: int) -> Inputs:
    """XSBench's small problem: 68 nuclides of 11303 grid points, 12 materials."""
    nuclides, points, materials, rng = 68, 11303, 12, np.random.default_rng(0)
    grid = (np.arange(points) + 0.5 * rng.random((nuclides, points))) / points
    tables = [d.given(grid.ravel()), d.real(nuclides * points * 5, 0, 1), d.real(materials * per_material, 0, 1)]
    which = [d.whole(materials * per_material, 0, nuclides), d.given(np.full(materials, per_material))]
    made = [d.real(lookups, 0.01, 0.99), d.whole(lookups, 0, materials), *tables, *which, d.real(lookups * 5)]
    return flat(lookups, *made, lookups, points, per_material)


def multipole(broadening: float) -> Make:
    """RSBench's windows of poles: cold, or broadened by heat."""

    def make(d: Draw, lookups: int, poles: int) -> Inputs:
        windows = 68 * 100
        tables = [d.real(2 * windows * poles, 0.1, 2), d.real(2 * windows * poles), d.given(np.full(windows, poles))]
        made = [d.real(lookups, 0.5, 3.5), d.whole(lookups, 0, windows), *tables, broadening, d.real(lookups)]
        return [*made, lookups, poles], ceil_div(lookups, 128), 128

    return make


def gas(d: Draw, n: int, repeats: int) -> Inputs:
    """Energies, pressures and volumes of a gas, of which a part is compressed."""
    state = [d.real(n, 0.5, 1.5), d.real(n, 0, 1), d.real(n, 0, 0.1), d.real(n, 0.7, 1.2), d.real(n, -0.2, 0.2)]
    return flat(n, *state, d.given(np.full(n, repeats)), 1e-7, -1e3, d.real(n), d.real(n), n)


def elements(d: Draw, n: int, _: int) -> Inputs:
    """Elements of 125 points: density and momenta, scales, the derivative matrix."""
    state = d.real(n * 500, 1, 1.5)
    return [state, d.real(n * 375, 1, 2), d.real(25), d.real(n * 500)], n, (5, 5)


def product(d: Draw, m: int, k: int) -> Inputs:
    """(m, k) @ (k, 1024)"""
    return [d.real(m * k), d.real(k * 1024), d.real(m * 1024), m, 1024, k], (64, ceil_div(m, 16)), (16, 16)


def image(tile: int) -> Make:
    """4096 points wide, in tiles of 16."""

    def make(d: Draw, n: int, _: int) -> Inputs:
        rows = n // 4096
        return [d.real(n), 0.7, d.real(n), rows, 4096], (4096 // tile, ceil_div(rows, tile)), (tile, tile)

    return make


# Below 128 rounds a part of what all resident threads read (an H200's 270336, 4 bytes a round) is still in L2 (50 MB)
# when it is read again; and below 64, a thread's first read and last write take longer than its rounds.
MANY, COLUMNS, ROUNDS = doubled(2**23), doubled(2**18), doubled(128, below=4)
INDEX = 2**20  # elements that a gather reads and a scatter writes
RUNGS: dict[str, Rung] = {
    "axpy": Rung(ladder("axpy"), lambda d, n, _: flat(n, 1.5, d.real(n), d.real(n), n), MANY),
    "axpy_strided": Rung(
        ladder("axpy_strided"), lambda d, n, m: ([1.5, d.real(n * m), d.real(n * m), n * m], n // 256, 256),
        doubled(2**19), doubled(64, below=2),
    ),
    "elementwise": Rung(ladder("elementwise"), lambda d, n, _: flat(n, d.real(n), 0.3, d.real(n), n), MANY),
    "gelu": Rung(ladder("gelu"), lambda d, n, _: flat(n, d.real(n), d.real(n), n), MANY),
    "gather": Rung(
        ladder("gather"), lambda d, n, _: flat(n, d.real(INDEX), d.whole(n, 0, INDEX), d.real(n), n), MANY
    ),
    "scatter": Rung(
        ladder("scatter"), lambda d, n, _: flat(n, d.real(n), d.whole(n, 0, INDEX), d.real(INDEX), n), MANY
    ),
    **{name: Rung(ladder(name), columns, COLUMNS, ROUNDS) for name in ("sum_of_squares", "product", "largest")},
    "triangular": Rung(ladder("triangular"), columns, doubled(2**21), (4, 6, 9, 13, 18, 25)),  # 10 to 325 rounds
    "horner": Rung(ladder("horner"), lambda d, n, _: flat(n, d.real(8), d.real(n), d.real(n), n), MANY),
    "eighth_power": Rung(ladder("eighth_power"), lambda d, n, _: flat(n, d.real(n), d.real(n), n), MANY),
    "newton": Rung(  # in float32 the last round is a matter of rounding
        ladder("newton"), lambda d, n, _: flat(n, d.real(n, 0.5, 3), d.real(n), n), MANY, dtype="float64"
    ),
    "after_the_loop": Rung(
        ladder("after_the_loop"), lambda d, n, m: flat(n, d.real(n), d.real(m), d.real(n), n, m), MANY, ROUNDS
    ),
    "overwrite": Rung(ladder("overwrite"), lambda d, n, _: flat(n, d.real(n), d.real(n), n), MANY),
    "multiply_in_place": Rung(
        ladder("multiply_in_place"), lambda d, n, _: flat(n, d.real(n), d.real(n, 1, 1), n), MANY
    ),
    "swap_squared": Rung(ladder("swap_squared"), lambda d, n, _: flat(n, d.real(n), d.real(n), n), MANY),
    "read_again": Rung(ladder("read_again"), lambda d, n, _: flat(n, d.real(n), d.real(n), n), MANY),
    "laplacian": Rung(ladder("laplacian"), image(16), MANY),
    "laplacian_tiled": Rung(ladder("laplacian_tiled", TILE=16), image(16), MANY),
    **{
        name: Rung(
            ladder(name, BLOCK=256), lambda d, n, _: ([d.real(n), d.real(n // 256), n], n // 256, 256), MANY
        )
        for name in ("block_sum", "block_max")
    },
    "softmax": Rung(
        ladder("softmax", BLOCK=128),
        lambda d, n, m: ([d.real(n * m), d.real(n * m), m], n, 128), doubled(2**14), doubled(1024),
    ),
    "matmul_tiled": Rung(ladder("matmul_tiled", TILE=16), product, doubled(1024), doubled(512), small=40),
    "nbody": Rung(
        ladder("nbody", TILE=128), clouds, doubled(2**19, below=5), doubled(2**11), small=500
    ),
    "lbm_d2q9": Rung(ladder("lbm_d2q9"), plane, doubled(2**21), doubled(1), state=("f", "g")),
    "lbm_d3q19": Rung(ladder("lbm_d3q19"), space, doubled(2**20), doubled(1), state=("f", "g")),
    "cross_sections": Rung(ladder("cross_sections"), cross_sections, doubled(2**19), doubled(4), "float64"),
    "multipole_cold": Rung(ladder("multipole"), multipole(0.0), doubled(2**20), doubled(4), "float64"),
    "multipole": Rung(ladder("multipole"), multipole(8.0), doubled(2**20), doubled(4), "float64"),
    "equation_of_state": Rung(ladder("equation_of_state"), gas, doubled(2**20), doubled(8, below=3), "float64"),
    "dg_volume": Rung(ladder("dg_volume"), elements, doubled(2**14)),
}  # fmt: skip
