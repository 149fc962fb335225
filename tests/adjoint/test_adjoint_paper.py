"""Applications of the Enzyme paper in the language of such codes: whole programs' kernels against central differences."""

import adjoint_paper
import numpy as np
import pytest

import minigrad as mg
from minigrad.source import CUDA


def moved(array, direction, step):
    """An array, of structs too, that is moved along a direction of the same dtype."""
    made = array.copy()
    for name in array.dtype.names or [...]:
        made[name] += step * direction[name]
    return made


def dot(a, b):
    return sum(np.vdot(a[name], b[name]) for name in a.dtype.names or [...])


def drawn(rng, array):
    made = np.zeros_like(array)
    for name in array.dtype.names or [...]:
        made[name] = rng.standard_normal(array.shape)
    return made


@pytest.mark.parametrize("grid_type", [0, 1], ids=["nuclide grid", "unionized grid"])
def test_the_lookup_of_cross_sections(grid_type):
    """XSBench: the tables' gradient, along a direction and of the energies alone."""
    rng = np.random.default_rng(5)
    args = adjoint_paper.lookup(rng, 200, 6, 9, 4, grid_type)
    kernel = mg.kernel(CUDA / "adjoint/paper/xsbench.cu", "lookup")
    made = mg.adjoint(kernel)
    assert made.wrt == ("density", "grid") and made.outputs == ("macro",)
    w = rng.standard_normal(args[-1].shape)

    def value(density, grid):
        y = mg.zeros(200, 5, dtype="float64", device="sim")
        own = [args[0], *args[1:3], density, *args[4:6], grid]
        kernel(own[0], *(mg.tensor(a, device="sim") for a in own[1:]), y, grid=4, block=64)
        return np.vdot(w, y.numpy())

    density, grid = args[3], args[6]
    found = made.vjp(*args, dy=[w], grid=4, block=64)
    v = drawn(rng, density), drawn(rng, grid)
    only = np.zeros_like(grid)
    only["energy"] = v[1]["energy"]
    for a, b in (v, (0 * v[0], only)):
        h = 1e-7
        slope = (value(moved(density, a, h), moved(grid, b, h)) - value(moved(density, a, -h), moved(grid, b, -h))) / (
            2 * h
        )
        np.testing.assert_allclose(dot(found[0], a) + dot(found[1], b), slope, rtol=1e-5)
