"""Applications of the Enzyme paper in the language of such codes, each against central differences."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.lab.bench.paper import inputs
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


def check(file, name, args, grid, block, wrt=None, defines=None, h=1e-7):
    """The gradients of all arrays, each along a random direction, against central differences."""
    kernel = mg.kernel(CUDA / f"adjoint/paper/{file}.cu", name, defines or {})
    made, rng = mg.adjoint(kernel, wrt), np.random.default_rng(4)
    names = [p.name for p in made.file.kernel.own]
    args = [a.astype(np.float64) if isinstance(a, np.ndarray) and a.dtype == np.float32 else a for a in args]
    outputs = [names.index(name) for name in made.outputs]
    w = [rng.standard_normal(args[n].shape) for n in outputs]

    def value(at):
        tensors = [mg.tensor(a, device="sim") if isinstance(a, np.ndarray) else a for a in at]
        kernel(*tensors, grid=grid, block=block)
        return sum(np.vdot(seed, tensors[n].numpy()) for seed, n in zip(w, outputs, strict=True))

    found = dict(zip(made.wrt, made.vjp(*args, dy=w, grid=grid, block=block), strict=True))
    for name in (name for name in made.wrt if isinstance(args[names.index(name)], np.ndarray)):
        n = names.index(name)
        v = drawn(rng, args[n])
        up, down = (value([*args[:n], moved(args[n], v, step), *args[n + 1 :]]) for step in (h, -h))
        np.testing.assert_allclose(dot(found[name], v), (up - down) / (2 * h), rtol=2e-5, atol=1e-6, err_msg=name)
    return made


@pytest.mark.parametrize("grid_type", [0, 1], ids=["nuclide grid", "unionized grid"])
def test_the_lookup_of_cross_sections(grid_type):
    """XSBench: its nuclides' grids are an array of structs, and the gradient is one, too."""
    made = check("xsbench", "lookup", inputs.lookup(np.random.default_rng(5), 200, 6, 9, 4, grid_type), 4, 64)
    assert made.wrt == ("density", "grid") and made.outputs == ("macro",)


@pytest.mark.parametrize("doppler", [0, 1], ids=["cold", "broadened"])
def test_the_lookup_of_resonances(doppler):
    """RSBench: complex numbers as structs with operators, poles and windows as structs, the Faddeeva function."""
    made = check("rsbench", "lookup", inputs.multipole(np.random.default_rng(6), 60, 3, 4, 3, 3, doppler), 2, 32)
    assert made.wrt == ("energy", "density", "windows", "poles", "radius")


def test_a_step_of_lattice_boltzmann_with_obstacles():
    """Parboil's LBM: populations are reflected by obstacles, and set in motion elsewhere; mass is conserved."""
    size = {"NX": 6, "NY": 4, "NZ": 3}
    args = inputs.lattice(np.random.default_rng(7), 72)
    made = check("lbm", "stream_collide", args, 3, 32, ["src"], size)
    args[0] = args[0].astype(np.float64)
    (mass,) = made.vjp(*args[:1], np.zeros_like(args[0]), *args[2:], dy=[np.ones_like(args[0])], grid=3, block=32)
    np.testing.assert_allclose(mass, 1, rtol=1e-12)
    assert "atomicAdd" not in made.source  # the populations of a cell are a row, which one thread reads


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "name",
    [
        "stress_force", "hourglass_force", "node_motion", "kinematics", "viscosity_gradient", "viscosity", "material",
        "time_constraint",
    ],
)  # fmt: skip
def test_a_step_of_hydrodynamics(name):
    """LULESH: corners gathered into local arrays, functions with references, branches, a minimum of each block."""
    check("lulesh", name, inputs.hydrodynamics(np.random.default_rng(8), 3, name), 1, 128)


def test_the_volume_term_of_discontinuous_galerkin():
    """DG: macros for fields and fluxes, layers in shared memory; no state of an element is another block's."""
    made = check("dg", "volume_term", inputs.elements(np.random.default_rng(9), 2), 2, (5, 5))
    assert made.source.count("atomicAdd(&d_q") == made.source.count("atomicAdd(&d_geometry") == 0
