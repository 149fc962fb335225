"""The kernels of the adjoint's ladder with their inputs, and the sizes at which they and their adjoints are timed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from minigrad.adjoint import ladder
from minigrad.kernels.extents import Extent, ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.costs import saturated
from minigrad.lab.bench.measure import Draw

Inputs = tuple[list[Any], Extent, Extent]  # arguments, grid, block
Make = Callable[[Draw, int, int], Inputs]


@dataclass(frozen=True)
class Rung:
    """A kernel of the ladder; `make(draw, size, work)` returns its inputs.

    sizes: the number of threads, or a size in proportion to it; the table shows the largest. works: the work of a
    thread, empty if it is fixed; with `state`, the names of the arrays that a time step reads and writes, the number of
    steps. Both end with 32-fold growth on a saturated GPU, and begin smaller where that is worth seeing. dtype is that
    of the paper's program.
    """

    kernel: Kernel
    make: Make
    sizes: Sequence[int]
    works: Sequence[int] = ()
    dtype: str = "float32"
    small: int = 0  # the size at which it is checked; 0: a 256th of `size`
    state: tuple[str, str] | None = None

    @property
    def size(self) -> int:
        """The smallest size that saturates a GPU."""
        return saturated(self.sizes)[0]

    @property
    def work(self) -> int:
        """The smallest work per thread for which a GPU is saturated; 1 if it is fixed."""
        return saturated(self.works)[0] if self.works else 1

    @property
    def checked(self) -> int:
        """A size that the simulator runs in a moment."""
        return self.small or max(1, self.size // 256)


def doubled(first: int, below: int = 0) -> list[int]:
    """Five doublings (32-fold growth) from `first`, which saturates a GPU, after `below` smaller sizes."""
    return [first * 2**k // 2**below for k in range(6 + below)]


def flat(n: int, *args: Any) -> Inputs:
    """Thread -> one of n elements."""
    return list(args), ceil_div(n, 256), 256


def clouds(d: Draw, bodies: int, each: int) -> Inputs:
    """`bodies` in clouds of `each`."""
    n = min(bodies, each)
    return [d.real(3 * bodies), 0.1, d.real(3 * bodies), n], (ceil_div(n, 128), bodies // n), 128


def elementwise(d: Draw, n: int, _: int) -> Inputs:
    return flat(n, d.real(n), d.real(n), n)


def columns(d: Draw, n: int, m: int) -> Inputs:
    """Thread -> a column of m numbers near 1, so that their product stays finite."""
    return flat(n, d.real(n * m, 0.9, 1.1), d.real(n), n, m)


def lattice(d: Draw, directions: int, cells: int) -> list[Any]:
    """A fluid nearly at rest with one solid cell in 64, its relaxation rate, and the array of the next state."""
    solid = d.whole(cells, -63, 1).numpy() == 0
    return [d.real(directions * cells, 1, 1.1), d.upload(solid), 1.2, d.real(directions * cells)]


def plane(d: Draw, cells: int, _: int) -> Inputs:
    """A lattice 1024 cells wide."""
    height = cells // 1024
    return [*lattice(d, 9, cells), 1024, height], (32, ceil_div(height, 8)), (32, 8)


def space(d: Draw, cells: int, _: int) -> Inputs:
    """A lattice of 64 x 64 cells and the depth that is left."""
    depth = cells // 4096
    return [*lattice(d, 19, cells), 64, 64, depth], (2, 16, ceil_div(depth, 2)), (32, 4, 2)


def cross_sections(d: Draw, lookups: int, per_material: int) -> Inputs:
    """XSBench's small problem: 68 nuclides of 11303 grid points, 12 materials."""
    nuclides, points, materials, rng = 68, 11303, 12, np.random.default_rng(0)
    grid = (np.arange(points) + 0.5 * rng.random((nuclides, points))) / points
    tables = [d.upload(grid.ravel()), d.real(nuclides * points * 5, 0, 1), d.real(materials * per_material, 0, 1)]
    which = [d.whole(materials * per_material, 0, nuclides), d.upload(np.full(materials, per_material))]
    made = [d.real(lookups, 0.01, 0.99), d.whole(lookups, 0, materials), *tables, *which, d.real(lookups * 5)]
    return flat(lookups, *made, lookups, points, per_material)


def multipole(broadening: float, d: Draw, lookups: int, poles: int) -> Inputs:
    """RSBench's windows of poles: cold (0), or Doppler-broadened."""
    windows = 68 * 100
    tables = [d.real(2 * windows * poles, 0.1, 2), d.real(2 * windows * poles), d.upload(np.full(windows, poles))]
    made = [d.real(lookups, 0.5, 3.5), d.whole(lookups, 0, windows), *tables, broadening, d.real(lookups)]
    return [*made, lookups, poles], ceil_div(lookups, 128), 128


def gas(d: Draw, n: int, repeats: int) -> Inputs:
    """Energies, pressures and volumes of a gas, a part of which is compressed."""
    state = [d.real(n, 0.5, 1.5), d.real(n, 0, 1), d.real(n, 0, 0.1), d.real(n, 0.7, 1.2), d.real(n, -0.2, 0.2)]
    return flat(n, *state, d.upload(np.full(n, repeats)), 1e-7, -1e3, d.real(n), d.real(n), n)


def elements(d: Draw, n: int, _: int) -> Inputs:
    """Elements of 125 points: density and momenta, scale factors, the derivative matrix."""
    state = d.real(n * 500, 1, 1.5)
    return [state, d.real(n * 375, 1, 2), d.real(25), d.real(n * 500)], n, (5, 5)


def product(d: Draw, m: int, k: int) -> Inputs:
    """(m, k) @ (k, 1024)"""
    return [d.real(m * k), d.real(k * 1024), d.real(m * 1024), m, 1024, k], (64, ceil_div(m, 16)), (16, 16)


def image(d: Draw, n: int, _: int) -> Inputs:
    """An image 4096 points wide, in tiles of 16 x 16."""
    rows = n // 4096
    return [d.real(n), 0.7, d.real(n), rows, 4096], (256, ceil_div(rows, 16)), (16, 16)


# Below 128 iterations a part of what all resident threads read (an H200's 270336, 4 bytes per iteration) is still in L2
# (50 MB) when it is read again; below 64, a thread's first read and last write take longer than its iterations.
MANY, COLUMNS, ITERATIONS = doubled(2**23), doubled(2**18), doubled(128, below=4)
INDEX = 2**20  # elements that a gather reads and a scatter writes
RUNGS: dict[str, Rung] = {
    "axpy": Rung(ladder("axpy"), lambda d, n, _: flat(n, 1.5, d.real(n), d.real(n), n), MANY),
    "axpy_strided": Rung(
        ladder("axpy_strided"), lambda d, n, m: ([1.5, d.real(n * m), d.real(n * m), n * m], n // 256, 256),
        doubled(2**19), doubled(64, below=2),
    ),
    "elementwise": Rung(ladder("elementwise"), lambda d, n, _: flat(n, d.real(n), 0.3, d.real(n), n), MANY),
    "gelu": Rung(ladder("gelu"), elementwise, MANY),
    "gather": Rung(ladder("gather"), lambda d, n, _: flat(n, d.real(INDEX), d.whole(n, 0, INDEX), d.real(n), n), MANY),
    "scatter": Rung(
        ladder("scatter"), lambda d, n, _: flat(n, d.real(n), d.whole(n, 0, INDEX), d.real(INDEX), n), MANY
    ),
    **{name: Rung(ladder(name), columns, COLUMNS, ITERATIONS) for name in ("sum_of_squares", "product", "largest")},
    "triangular": Rung(ladder("triangular"), columns, doubled(2**21), (4, 6, 9, 13, 18, 25)),  # 10 to 325 iterations
    "horner": Rung(ladder("horner"), lambda d, n, _: flat(n, d.real(8), d.real(n), d.real(n), n), MANY),
    "eighth_power": Rung(ladder("eighth_power"), elementwise, MANY),
    "newton": Rung(  # in float32 rounding decides the last iteration
        ladder("newton"), lambda d, n, _: flat(n, d.real(n, 0.5, 3), d.real(n), n), MANY, dtype="float64"
    ),
    "after_the_loop": Rung(
        ladder("after_the_loop"), lambda d, n, m: flat(n, d.real(n), d.real(m), d.real(n), n, m), MANY, ITERATIONS
    ),
    "overwrite": Rung(ladder("overwrite"), elementwise, MANY),
    "multiply_in_place": Rung(
        ladder("multiply_in_place"), lambda d, n, _: flat(n, d.real(n), d.real(n, 1, 1), n), MANY
    ),
    **{name: Rung(ladder(name), elementwise, MANY) for name in ("swap_squared", "read_again")},
    "laplacian": Rung(ladder("laplacian"), image, MANY),
    "laplacian_tiled": Rung(ladder("laplacian_tiled", TILE=16), image, MANY),
    **{
        name: Rung(ladder(name, BLOCK=256), lambda d, n, _: ([d.real(n), d.real(n // 256), n], n // 256, 256), MANY)
        for name in ("block_sum", "block_max")
    },
    "softmax": Rung(
        ladder("softmax", BLOCK=128),
        lambda d, n, m: ([d.real(n * m), d.real(n * m), m], n, 128), doubled(2**14), doubled(1024),
    ),
    "matmul_tiled": Rung(ladder("matmul_tiled", TILE=16), product, doubled(1024), doubled(512), small=40),
    "nbody": Rung(ladder("nbody", TILE=128), clouds, doubled(2**19, below=5), doubled(2**11), small=500),
    "lbm_d2q9": Rung(ladder("lbm_d2q9"), plane, doubled(2**21), doubled(1), state=("f", "g")),
    "lbm_d3q19": Rung(ladder("lbm_d3q19"), space, doubled(2**20), doubled(1), state=("f", "g")),
    "cross_sections": Rung(ladder("cross_sections"), cross_sections, doubled(2**19), doubled(4), "float64"),
    **{
        name: Rung(ladder("multipole"), partial(multipole, broadening), doubled(2**20), doubled(4), "float64")
        for name, broadening in (("multipole_cold", 0.0), ("multipole", 8.0))
    },
    "equation_of_state": Rung(ladder("equation_of_state"), gas, doubled(2**20), doubled(8, below=3), "float64"),
    "dg_volume": Rung(ladder("dg_volume"), elements, doubled(2**14)),
}  # fmt: skip
