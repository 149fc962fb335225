"""Applications of the Enzyme paper in the language of such codes, each against central differences."""

import adjoint_paper
import numpy as np
import pytest

import minigrad as mg
from minigrad.source import CUDA


def moved(array, direction, step):
    """An array, of structs too, that is moved along a direction of the same dtype."""
    made = array.copy()
    for one, by in zip(numbers(made), numbers(direction), strict=True):
        one += step * by
    return made


def numbers(array):
    """The floating-point arrays in an array of structs, as views."""
    if array.dtype.names:
        return [inner for name in array.dtype.names for inner in numbers(array[name])]
    return [array] if array.dtype.kind == "f" else []


def dot(a, b):
    return sum(np.vdot(one, other) for one, other in zip(numbers(a), numbers(b), strict=True))


def drawn(rng, array):
    made = np.zeros_like(array)
    for one in numbers(made):
        one[...] = rng.standard_normal(one.shape)
    return made


def check(kernel, args, grid, block, directions=2, h=1e-7):
    """The gradients of all tables, each along its own random directions, against central differences."""
    made, rng = mg.adjoint(kernel), np.random.default_rng(4)
    names = [p.name for p in made.file.kernel.own]
    w = rng.standard_normal(args[-1].shape)

    def value(at):
        y = mg.zeros(*args[-1].shape, dtype="float64", device="sim")
        kernel(at[0], *(mg.tensor(a, device="sim") for a in at[1:-1]), y, grid=grid, block=block)
        return np.vdot(w, y.numpy())

    found = dict(zip(made.wrt, made.vjp(*args, dy=[w], grid=grid, block=block), strict=True))
    for name in made.wrt:
        n = names.index(name)
        for _ in range(directions):
            v = drawn(rng, args[n])
            up, down = (value([*args[:n], moved(args[n], v, step), *args[n + 1 :]]) for step in (h, -h))
            np.testing.assert_allclose(dot(found[name], v), (up - down) / (2 * h), rtol=2e-5, err_msg=name)
    return made


@pytest.mark.parametrize("grid_type", [0, 1], ids=["nuclide grid", "unionized grid"])
def test_the_lookup_of_cross_sections(grid_type):
    """XSBench: its nuclides' grids are an array of structs, and the gradient is one, too."""
    args = adjoint_paper.lookup(np.random.default_rng(5), 200, 6, 9, 4, grid_type)
    made = check(mg.kernel(CUDA / "adjoint/paper/xsbench.cu", "lookup"), args, 4, 64)
    assert made.wrt == ("density", "grid") and made.outputs == ("macro",)


@pytest.mark.parametrize("doppler", [0, 1], ids=["cold", "broadened"])
def test_the_lookup_of_resonances(doppler):
    """RSBench: complex numbers as structs with operators, poles and windows as structs, the Faddeeva function."""
    args = adjoint_paper.multipole(np.random.default_rng(6), 60, 3, 4, 3, 3, doppler)
    made = check(mg.kernel(CUDA / "adjoint/paper/rsbench.cu", "lookup"), args, 2, 32)
    assert made.wrt == ("energy", "density", "windows", "poles", "radius")


def test_a_step_of_lattice_boltzmann_with_obstacles():
    """Parboil's LBM: populations are reflected by obstacles, and set in motion elsewhere; mass is conserved."""
    rng, (nx, ny, nz) = np.random.default_rng(7), (6, 4, 3)
    flags = rng.choice([0, 0, 0, 1, 2], nx * ny * nz).astype(np.uint8)
    kernel = mg.kernel(CUDA / "adjoint/paper/lbm.cu", "stream_collide", {"NX": nx, "NY": ny, "NZ": nz})
    made, src = mg.adjoint(kernel, ["src"]), 0.5 + rng.random(19 * nx * ny * nz)
    launch = {"grid": 3, "block": 32}
    rest = [flags, 1.3]

    def value(src):
        dst = mg.zeros(src.size, dtype="float64", device="sim")
        kernel(mg.tensor(src, device="sim"), dst, mg.tensor(flags, device="sim"), *rest[1:], **launch)
        return dst.numpy()

    w, v = rng.standard_normal((2, src.size))
    (found,) = made.vjp(src, np.zeros_like(src), *rest, dy=[w], **launch)
    np.testing.assert_allclose(found @ v, w @ (value(src + 1e-7 * v) - value(src - 1e-7 * v)) / 2e-7, rtol=1e-6)
    (mass,) = made.vjp(src, np.zeros_like(src), *rest, dy=[np.ones_like(src)], **launch)
    np.testing.assert_allclose(mass, 1, rtol=1e-12)
