"""Gradients with a closed form, and identities that hold to the last digits."""

import math
import re
from pathlib import Path

import adjoint_oracle as oracle
import numpy as np
import pytest
from adjoint_rungs import RUNGS, on_sim

import minigrad as mg
from minigrad.adjoint import LADDER, ladder
from minigrad.errors import LaunchError

RNG = np.random.default_rng(11)
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def gradients(kernel, args, dy, grid, block, wrt=None):
    found = mg.adjoint(kernel, wrt).vjp(*on_sim(args), dy=on_sim(dy), grid=grid, block=block)
    return [d.numpy() for d in found]


def normal(*shape):
    return RNG.standard_normal(shape)


def rows(name, x, dy):
    n, m = x.shape
    return gradients(ladder(name), [x.T.ravel(), np.zeros(n), n, m], [dy], 1, 32)[0].reshape(m, n).T


def elementwise(name, *args, dy):
    n = len(dy[0])
    return gradients(ladder(name), [*args, n], dy, 1, 32)


def test_axpy():
    x, y, w = normal(100), normal(100), normal(100)
    da, dx, dy = gradients(ladder("axpy"), [1.5, x, y, 100], [w], 4, 32)
    np.testing.assert_allclose(dx, 1.5 * w, **CLOSE)
    np.testing.assert_allclose(dy, w, **CLOSE)
    np.testing.assert_allclose(da, x @ w, **CLOSE)


def test_gelu_and_beyond_its_end():
    x, w = normal(64), normal(64)
    (dx,) = gradients(ladder("gelu"), [x, np.zeros(64), 50], [w], 2, 32)
    erf = np.array([math.erf(v / math.sqrt(2)) for v in x])
    wanted = w * (0.5 * (1 + erf) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi))
    np.testing.assert_allclose(dx[:50], wanted[:50], **CLOSE)
    assert not dx[50:].any()


def test_gather_and_scatter_are_each_other():
    index = RNG.integers(0, 10, 40).astype(np.int32)
    w = np.arange(40.0)
    wanted = np.zeros(10)
    np.add.at(wanted, index, w)
    (dx,) = gradients(ladder("gather"), [normal(10), index, np.zeros(40), 40], [w], 2, 32)
    np.testing.assert_array_equal(dx, wanted)
    dx, dy = gradients(ladder("scatter"), [normal(40), index, np.zeros(10), 40], [wanted], 2, 32)
    np.testing.assert_array_equal(dx, wanted[index])
    np.testing.assert_array_equal(dy, wanted)


def test_the_six_kernels_that_a_well_known_tool_gets_wrong():
    """Loops that carry a product, overwritten values, sums used after their loop, while and break."""
    assert rows("product", np.full((1, 3), 2.0), np.ones(1)).tolist() == [[4, 4, 4]]
    three, two = np.full(1, 3.0), np.full(1, 2.0)
    assert elementwise("multiply_in_place", three, two, dy=[np.ones(1)])[1] == 3
    a = np.array([1.0, 2, 3])
    wrt = gradients(ladder("overwrite"), [a, np.zeros(3), 3], [np.zeros(3), np.ones(3)], 1, 32, ["a"])
    assert wrt[0].tolist() == [2, 4, 6]
    after = ladder("after_the_loop")
    dx, ds = gradients(after, [three, np.array([1.0, 2, 3]), np.zeros(1), 1, 3], [np.ones(1)], 1, 32)
    assert dx == 36 and ds.tolist() == [9, 9, 9]
    x = np.full(1, 1.1)
    np.testing.assert_allclose(elementwise("eighth_power", x, np.zeros(1), dy=[np.ones(1)])[0], 8 * 1.1**7)
    found = elementwise("newton", two, np.zeros(1), dy=[np.ones(1)])[0]
    np.testing.assert_allclose(found, 1 / (2 * math.sqrt(2)), rtol=1e-6)


def test_loops():
    x, w = 0.5 + RNG.random((5, 6)), normal(5)
    np.testing.assert_allclose(rows("sum_of_squares", x, w), 2 * w[:, None] * x, **CLOSE)
    np.testing.assert_allclose(rows("product", x, w), w[:, None] * x.prod(axis=1, keepdims=True) / x, **CLOSE)
    np.testing.assert_array_equal(rows("largest", x, w), w[:, None] * (x == x.max(axis=1, keepdims=True)))
    c, v = normal(8), normal(5)
    dc, dx = gradients(ladder("horner"), [c, v, np.zeros(5), 5], [w], 1, 32)
    np.testing.assert_allclose(dx, w * np.polynomial.Polynomial(c).deriv()(v), **CLOSE)
    np.testing.assert_allclose(dc, [w @ v**j for j in range(8)], **CLOSE)


@pytest.mark.parametrize("name", ["laplacian", "laplacian_tiled"])
def test_the_laplacian_is_symmetric(name):
    shape, w = (13, 11), normal(143)
    kernel, args = ladder(name), [normal(143), 0.7, np.zeros(143), *shape]
    forward = on_sim([w, *args[1:]])
    kernel(*forward, grid=(2, 2), block=(8, 8))
    dx, _ = gradients(kernel, args, [w], (2, 2), (8, 8))
    np.testing.assert_allclose(dx, forward[2].numpy(), **CLOSE)


def test_reductions():
    x, w = normal(150), normal(3)
    each = np.repeat(w, 64)[:150]
    np.testing.assert_allclose(
        gradients(ladder("block_sum"), [x, np.zeros(3), 150], [w], 3, 64)[0], 2 * x * each, **CLOSE
    )
    (dx,) = gradients(ladder("block_max"), [x, np.zeros(3), 150], [w], 3, 64)
    tops = [block.max() for block in np.split(x, [64, 128])]
    np.testing.assert_array_equal(dx, each * np.isin(x, tops))
    (tie,) = gradients(ladder("block_max"), [np.ones(64), np.zeros(1), 64], [np.ones(1)], 1, 64)
    assert tie.tolist() == [1.0] + [0.0] * 63


def test_softmax():
    x, w = normal(3, 50), normal(3, 50)
    (dx,) = gradients(ladder("softmax"), [x.ravel(), np.zeros(150), 50], [w.ravel()], 3, 32)
    y = np.exp(x - x.max(axis=1, keepdims=True))
    y /= y.sum(axis=1, keepdims=True)
    wanted = y * (w - (w * y).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(dx.reshape(3, 50), wanted, **CLOSE)
    np.testing.assert_allclose(dx.reshape(3, 50).sum(axis=1), 0, atol=1e-14)


def test_a_choice_whose_first_side_has_no_gradient():
    text = "__global__ void f(const double* x, double* y) { y[0] = x[0] > 1 ? 0 : product(x + 1); }"
    made = mg.adjoint("__device__ double product(const double* a) { double b = *a++; return b * *a; }" + text, "f")
    assert "if (!(x[0] > 1)) {" in made.source and not re.search(r"\{\s*\}|: *\n", made.source), made.source
    for x, wanted in {0.5: [0, 3, 5], 2.0: [0, 0, 0]}.items():
        (dx,) = made.vjp(*on_sim([np.array([x, 5.0, 3.0]), np.zeros(1)]), dy=on_sim([np.ones(1)]), grid=1, block=1)
        np.testing.assert_allclose(dx.numpy(), wanted, **CLOSE)


def test_detached_values_have_no_gradient():
    text = """
__device__ double detach(double v) { return v; }
extern "C" __global__ void f(const double* x, double* y) {
    int i = threadIdx.x;
    y[i] = x[i] * detach(x[i] * x[i]);
}"""
    (dx,) = gradients(mg.kernel(text, "f"), [np.array([1.0, 2, 3]), np.zeros(3)], [np.ones(3)], 1, 3)
    assert dx.tolist() == [1, 4, 9]


@pytest.mark.parametrize("tile, m, n, k", [(4, 6, 7, 9), (4, 8, 8, 8), (8, 3, 17, 1)])
def test_matmul(tile, m, n, k):
    a, b, w = normal(m, k), normal(k, n), normal(m, n)
    grid = (-(-n // tile), -(-m // tile))
    args = [a.ravel(), b.ravel(), np.zeros(m * n), m, n, k]
    da, db = gradients(ladder("matmul_tiled", TILE=tile), args, [w.ravel()], grid, (tile, tile))
    np.testing.assert_allclose(da.reshape(m, k), w @ b.T, **CLOSE)
    np.testing.assert_allclose(db.reshape(k, n), a.T @ w, **CLOSE)


def test_forces_have_a_potential_and_no_origin():
    """The Jacobian of a gradient is symmetric; moving all bodies together changes nothing."""
    kernel, args, grid, block = RUNGS["nbody"]
    v = normal(33)
    dp, _ = gradients(kernel, args, [v], grid, block)
    np.testing.assert_allclose(dp, oracle.directional(mg.adjoint(kernel), args, {"p": v}, grid, block)["a"], **CLOSE)
    np.testing.assert_allclose(dp.reshape(-1, 3).sum(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("rung, directions, cells", [("lbm plane", 9, 42), ("lbm space", 19, 36)])
def test_a_fluid_keeps_its_mass_and_its_momentum(rung, directions, cells):
    kernel, args, grid, block = RUNGS[rung]
    fluid = args[1] == 0
    df = gradients(kernel, args, [np.tile(1.0 * fluid, directions)], grid, block)[0].reshape(directions, cells)
    np.testing.assert_allclose(df[:, fluid], 1, **CLOSE)
    free = [*args]
    free[1] = np.zeros_like(args[1])
    (cx,) = re.findall(r"CX.*?{(.*?)}", kernel.source.text)
    speed = np.array(cx.split(","), float)
    along = np.repeat(speed, cells)
    np.testing.assert_allclose(gradients(kernel, free, [along], grid, block)[0], along, **CLOSE)
    np.testing.assert_allclose(gradients(kernel, free, [along**0], grid, block)[0], 1, **CLOSE)


def test_cross_sections_share_out_their_concentration():
    kernel, args, grid, block = RUNGS["xsbench"]
    _, material, _, _, concentration, _, count, *_ = args
    w = np.zeros((20, 5))
    w[:, 2] = 1
    _, _, dxs, _ = gradients(kernel, args, [w.ravel()], grid, block)
    wanted = sum(concentration.reshape(2, 3)[m, : count[m]].sum() for m in material)
    np.testing.assert_allclose(dxs.sum(), wanted, rtol=1e-12)
    np.testing.assert_allclose(dxs.reshape(-1, 5).sum(axis=0)[[0, 1, 3, 4]], 0)


def test_poles_obey_cauchy_and_riemann():
    """sigma = Re f(p) of an analytic f: d/dRe p - i d/dIm p = f'(p), and f = i r / (sqrt(E) - p) / E here."""
    kernel, args, grid, block = RUNGS["rsbench cold"]
    energy, window, pole, residue, count, *_ = args
    _, dp, dr = gradients(kernel, args, [np.ones(20)], grid, block, ["energy", "pole", "residue"])
    p, r = pole.view(complex).reshape(3, 3), residue.view(complex).reshape(3, 3)
    slope, share = np.zeros((3, 3), complex), np.zeros((3, 3), complex)
    for e, w in zip(energy, window, strict=True):
        c = count[w]
        slope[w, :c] += 1j * r[w, :c] / (np.sqrt(e) - p[w, :c]) ** 2 / e
        share[w, :c] += 1j / (np.sqrt(e) - p[w, :c]) / e
    np.testing.assert_allclose(np.conj(dp.view(complex)).reshape(3, 3), slope, **CLOSE)
    np.testing.assert_allclose(np.conj(dr.view(complex)).reshape(3, 3), share, **CLOSE)


def test_the_derivative_matrix_of_dg():
    kernel, args, grid, block = RUNGS["dg"]
    q, geometry, *_ = args
    w = normal(2 * 4 * 125)
    _, _, dd = gradients(kernel, args, [w], grid, block)
    s, g = q.reshape(2, 4, 5, 5, 5), geometry.reshape(2, 5, 5, 5, 3)
    out = w.reshape(2, 4, 5, 5, 5)
    total = np.zeros((5, 5))
    for axis, sums in enumerate(("eskji,eskjn->in", "eskji,eskni->jn", "eskji,esnji->kn")):
        flux = g[..., axis][:, None] * s[:, axis + 1 : axis + 2] / s[:, :1] * s
        flux[:, axis + 1] += g[..., axis] * s[:, 0]
        total += np.einsum(sums, out, flux)
    np.testing.assert_allclose(dd.reshape(5, 5), total, **CLOSE)


@pytest.mark.parametrize("device", ["sim"])
def test_a_kernel_on_the_tape(device):
    """y = a x + y as an operation between others; a is a tensor of one element."""
    f = mg.differentiable(ladder("axpy"))
    x, y = (mg.tensor(normal(100), device=device, requires_grad=True) for _ in range(2))
    a = mg.tensor(np.array(1.5), device=device, requires_grad=True)
    z = f(a, x * x, y, 100, grid=4, block=32)
    (z * z).sum().backward()
    out = 1.5 * x.numpy() ** 2 + y.numpy()
    np.testing.assert_allclose(z.numpy(), out, **CLOSE)
    np.testing.assert_allclose(x.grad.numpy(), 2 * out * 1.5 * 2 * x.numpy(), **CLOSE)
    np.testing.assert_allclose(y.grad.numpy(), 2 * out, **CLOSE)
    np.testing.assert_allclose(a.grad.numpy(), 2 * out @ x.numpy() ** 2, **CLOSE)


def test_a_time_loop_on_the_tape():
    """Five steps of the fluid: its mass depends on each number at the start with slope 1."""
    kernel, args, grid, block = RUNGS["lbm plane"]
    step = mg.differentiable(kernel, ["f"])
    solid = mg.tensor(np.zeros_like(args[1]), device="sim")
    start = f = mg.tensor(args[0], device="sim", requires_grad=True)
    for _ in range(5):
        f = step(f, solid, 1.2, mg.zeros(9 * 42, dtype="float64", device="sim"), 7, 6, grid=grid, block=block)
    f.sum().backward()
    np.testing.assert_allclose(start.grad.numpy(), 1, **CLOSE)


def test_several_outputs_on_the_tape():
    kernel, args, grid, block = RUNGS["eos"]
    made = mg.adjoint(kernel, ["e_old"])
    dy = [normal(20), normal(20)]
    (wanted,) = gradients(kernel, args, dy, grid, block, ["e_old"])
    e = mg.tensor(args[0], device="sim", requires_grad=True)
    energy, pressure = mg.differentiable(kernel, ["e_old"])(e, *on_sim(args[1:]), grid=grid, block=block)
    weights = on_sim(dy)
    ((energy * weights[0]).sum() + (pressure * weights[1]).sum()).backward()
    np.testing.assert_allclose(e.grad.numpy(), wanted, **CLOSE)
    assert made.outputs == ("e_new", "p_new")


def test_an_input_changed_before_backward_is_refused():
    f = mg.differentiable(ladder("axpy"))
    x, y = mg.tensor(normal(32), device="sim"), mg.tensor(normal(32), device="sim", requires_grad=True)
    a = mg.tensor(np.array(1.5), device="sim", requires_grad=True)
    z = f(a, x, y, 32, grid=1, block=32)
    x.assign(np.zeros(32))
    with pytest.raises(RuntimeError, match="axpy kept x at version 0, and it has been changed in place"):
        z.sum().backward()


def test_numpy_arrays_come_back_as_they_went_in():
    made = mg.adjoint(ladder("multiply_in_place"))
    a, b = normal(20), normal(20)
    before = a.copy()
    da, db = made.vjp(a, b, 20, dy=[np.ones(20)], grid=1, block=32)
    np.testing.assert_array_equal(a, before)
    np.testing.assert_allclose(da, b)
    np.testing.assert_allclose(db, a)


def test_tapes_grow_until_they_suffice():
    """Only the running kernel knows the length of the loop; a first run with too few slots is repeated."""
    text = """
extern "C" __global__ void halves(const double* x, double* y, int n) {
    int i = threadIdx.x;
    double v = x[i], p = 1;
    while (v > 0.001) {
        v = v * 0.9;
        p = p * (1 + v * v);
    }
    y[i] = p;
}"""
    made = mg.adjoint(text)
    x = np.array([5.0, 1.0, 400.0])
    h = 1e-6

    def value(x):
        y = mg.zeros(3, dtype="float64", device="sim")
        mg.kernel(text, "halves")(mg.tensor(x, device="sim"), y, 3, grid=1, block=3)
        return y.numpy()

    (dx,) = made.vjp(x, np.zeros(3), 3, dy=[np.ones(3)], grid=1, block=3)
    np.testing.assert_allclose(dx, (value(x + h) - value(x - h)) / (2 * h), rtol=1e-6)
    assert "counted as it runs" in made.decisions["p_tape"].bytes


def test_a_source_with_several_kernels_asks_which():
    text = ladder("axpy").source.text
    with pytest.raises(ValueError, match=r"the text has 2 kernels: axpy, axpy_strided\. Choose one, as by name='axpy'"):
        mg.adjoint(text)
    assert mg.adjoint(text, "axpy", wrt=["x"]).outputs == mg.adjoint(mg.kernel(text, "axpy"), ["x"]).outputs == ("y",)
    with pytest.raises(LaunchError, match=r"axpy takes 4 arguments \(a, x, y, n\); got 1"):
        mg.differentiable(text, name="axpy")(1, grid=1, block=1)


def test_every_kernel_of_the_files_is_on_the_ladder():
    assert set(LADDER) == {name for kernel in map(ladder, LADDER) for name in kernel.source.kernels}
    with pytest.raises(ValueError, match="the ladder has no kernel 'tree'; it has axpy, axpy_strided, "):
        ladder("tree")


def test_several_outputs_take_one_run_of_the_adjoint(monkeypatch):
    """As in PyTorch, the gradients of all outputs are collected, and a second backward through one graph fails."""
    text = """extern "C" __global__ void f(const double* x, double* y, double* z) {
        int i = threadIdx.x;
        y[i] = x[i] * x[i];
        z[i] = 3 * x[i];
    }"""
    runs, run = [], mg.adjoint.Adjoint.vjp
    monkeypatch.setattr(mg.adjoint.Adjoint, "vjp", lambda *a, **named: runs.append(named["dy"]) or run(*a, **named))
    x = mg.tensor(np.array([1.0, 2]), device="sim", requires_grad=True)
    f = mg.differentiable(text)
    y, z = f(x, np.zeros(2), np.zeros(2), grid=1, block=2)
    (y * z).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 9 * np.array([1.0, 4]), **CLOSE)
    assert len(runs) == 1
    y, z = f(x, np.zeros(2), np.zeros(2), grid=1, block=2)
    z.sum().backward()
    assert len(runs) == 2 and runs[1][0] is None
    with pytest.raises(RuntimeError, match="the tape behind f was freed"):
        y.sum().backward()


def test_the_table_of_contents_names_every_folder_and_file():
    folder = Path(mg.adjoint.__file__).parent
    found = {path.parent.name if path.stem == "__init__" else path.stem for path in folder.glob("*.py")}
    found |= {path.parent.name for path in folder.glob("*/__init__.py")}
    assert found <= {*re.findall(r"\w+", mg.adjoint.__doc__)}
