"""The rungs of the ladder: kernel, arguments, grid and block of each, small enough for an interpreter."""

import numpy as np

import minigrad as mg
from minigrad.adjoint import ladder

RNG = np.random.default_rng(5)
INDEX = RNG.integers(0, 50, 100).astype(np.int32)


def on_sim(args):
    """The arguments with their arrays on `sim`."""
    return [mg.tensor(a, device="sim") if isinstance(a, np.ndarray) else a for a in args]


def normal(*shape):
    return RNG.standard_normal(shape)


# kernel, arguments, grid, block
RUNGS = {
    "axpy": (ladder("axpy"), [1.5, normal(100), normal(100), 100], 4, 32),
    "axpy strided": (ladder("axpy_strided"), [1.5, normal(100), normal(100), 100], 2, 32),
    "elementwise": (ladder("elementwise"), [normal(100), 0.3, normal(100), 90], 4, 32),
    "gelu": (ladder("gelu"), [normal(100), normal(100), 100], 4, 32),
    "gather": (ladder("gather"), [normal(50), INDEX, normal(100), 100], 4, 32),
    "scatter": (ladder("scatter"), [normal(100), INDEX, normal(50), 100], 4, 32),
    "sum": (ladder("sum_of_squares"), [normal(20 * 6), normal(20), 20, 6], 1, 32),
    "product": (ladder("product"), [normal(20 * 11), normal(20), 20, 11], 1, 32),
    "horner": (ladder("horner"), [normal(8), normal(20), normal(20), 20], 1, 32),
    "triangular": (ladder("triangular"), [normal(20 * 11), normal(20), 20, 11], 1, 32),
    "while": (ladder("eighth_power"), [normal(20), normal(20), 20], 1, 32),
    "break": (ladder("newton"), [normal(20) ** 2 + 0.5, normal(20), 20], 1, 32),
    "continue": (ladder("largest"), [normal(20 * 11) - 3, normal(20), 20, 11], 1, 32),
    "after the loop": (ladder("after_the_loop"), [normal(100), normal(6), normal(100), 100, 6], 2, 64),
    "overwrite": (ladder("overwrite"), [normal(20), normal(20), 20], 1, 32),
    "multiply in place": (ladder("multiply_in_place"), [normal(20), normal(20), 20], 1, 32),
    "swap": (ladder("swap_squared"), [normal(20), normal(20), 20], 1, 32),
    "read again": (ladder("read_again"), [normal(20), normal(20), 20], 1, 32),
    "stencil": (ladder("laplacian"), [normal(13 * 11), 0.7, normal(13 * 11), 13, 11], (2, 2), (8, 8)),
    "stencil tiled": (
        ladder("laplacian_tiled"), [normal(13 * 11), 0.7, normal(13 * 11), 13, 11], (2, 2), (8, 8)
    ),
    "block sum": (ladder("block_sum"), [normal(150), normal(3), 150], 3, 64),
    "block max": (ladder("block_max"), [normal(150), normal(3), 150], 3, 64),
    "softmax of large numbers": (
        ladder("softmax"), [np.concatenate([normal(50) + 1000, normal(50) - 1000, 1000 * normal(50)]), normal(150), 50],
        3, 32,
    ),
    "softmax": (ladder("softmax"), [normal(3 * 50), normal(3 * 50), 50], 3, 32),
    "matmul": (
        ladder("matmul_tiled", TILE=4), [normal(6 * 9), normal(9 * 7), normal(6 * 7), 6, 7, 9], (2, 2), (4, 4)
    ),

    "nbody": (ladder("nbody", TILE=4), [normal(33), 0.1, normal(33), 11], 3, 4),
    "nbody, two clouds": (ladder("nbody", TILE=4), [normal(42), 0.1, normal(42), 7], (2, 2), 4),
}  # fmt: skip


def uniform(*shape):
    return RNG.random(shape)


def integers(low, high, size):
    return RNG.integers(low, high, size).astype(np.int32)


def fluid(directions, cells):
    """Nearly at rest; a fifth of the cells is solid."""
    return 1 + 0.1 * uniform(directions * cells), (uniform(cells) < 0.2).astype(np.int32)


def energy_grids(nuclides, points):
    grid = np.sort(uniform(nuclides, points), axis=1)
    grid[:, 0], grid[:, -1] = 0, 1
    return grid.ravel()


def poles(broadening):
    window, count = integers(0, 3, 20), np.array([2, 3, 1], np.int32)
    return [uniform(20) * 3 + 0.5, window, normal(18), normal(18), count, broadening, normal(20), 20, 3]


def gas(n, pressure=1, cut=1e-7, floor=-1e3):
    """A gas; with 300 elements, some reach the cut-off or the floor in each step."""
    rng = np.random.default_rng(3)
    change, rep = 0.2 * rng.standard_normal(n), rng.integers(1, 4, n).astype(np.int32)
    energy, old, viscosity, volume = rng.random((4, n))
    return [
        energy + 0.5, pressure * old, 0.1 * viscosity, 0.4 + 0.8 * volume, change, rep, cut, floor, *np.zeros((2, n)), n
    ]  # fmt: skip


def flow(elements):
    q = np.concatenate([1 + 0.1 * uniform(elements, 1, 125), 0.3 * normal(elements, 3, 125)], axis=1)
    return [q.ravel(), 1 + 0.1 * uniform(elements * 125 * 3), normal(25), normal(elements * 4 * 125)]


PLANE, SPACE = fluid(9, 7 * 6), fluid(19, 4 * 3 * 3)
RUNGS |= {
    "lbm plane": (ladder("lbm_d2q9"), [*PLANE, 1.2, normal(9 * 42), 7, 6], (2, 2), (4, 4)),
    "lbm space": (ladder("lbm_d3q19"), [*SPACE, 1.2, normal(19 * 36), 4, 3, 3], 1, (4, 4, 4)),
    "xsbench": (
        ladder("cross_sections"),
        [uniform(20) * 0.9 + 0.05, integers(0, 2, 20), energy_grids(4, 9), uniform(4 * 9 * 5), uniform(6),
         integers(0, 4, 6), np.array([2, 3], np.int32), normal(100), 20, 9, 3], 1, 32,
    ),
    "rsbench cold": (ladder("multipole"), poles(0.0), 1, 32),
    "rsbench": (ladder("multipole"), poles(2.0), 1, 32),
    "rsbench far": (ladder("multipole"), poles(8.0), 1, 32),
    "eos": (ladder("equation_of_state"), gas(20), 1, 32),
    "eos clipped": (ladder("equation_of_state"), gas(300, pressure=8, cut=0.4, floor=-0.1), 10, 32),
    "eos at the floor": (ladder("equation_of_state"), gas(300, pressure=8, floor=0.4), 10, 32),
    "dg": (ladder("dg_volume"), flow(2), 2, (5, 5)),
}  # fmt: skip
