"""The products of matrices by wgmma, emulated on the simulator: their gradients, batches, and owners."""

import numpy as np
import pytest
from emulated_hopper import Emulated

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.kernels.view import View, broadcast
from minigrad.lab.show.matmul_ladder import by_wgmma
from minigrad.ops.matmul.strategies import maps

SIM = get("sim")


def product_of(name, x, y, shape, sizes, views, instead=None, columns=256, chunk=0):
    """The kernel's result for batches of matrices, or the parts of a sum."""
    kernel = Emulated(mg.matmul[name], "a", instead)
    launch = kernel.launch(*sizes, COLUMNS=columns)
    in_parts = "chunk" in [param.name for param in kernel.signature.params]  # of bfloat16, which are added in float32
    out = Array.empty(SIM, shape, np.dtype("float32") if in_parts else x.dtype)
    more = (chunk,) if in_parts else ()
    launch(*maps(launch, Array.upload(SIM, x), Array.upload(SIM, y)), out, *sizes, *views, *more)
    return out.numpy().astype(np.float64)


@pytest.mark.sample(5)
@pytest.mark.parametrize("sizes", [(1, 8, 8), (130, 264, 72), (200, 72, 328)])
@pytest.mark.parametrize("columns", mg.matmul["wgmma"].tunables["COLUMNS"])
@pytest.mark.parametrize("end", ["", "_backward_a", "_backward_b"])
def test_the_product_and_its_gradients(end, columns, sizes):
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    m, n, k = sizes
    rng = np.random.default_rng(0)
    a, b, dy = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n), (m, n)))
    x, y, exact = {
        "": (a, b, a.astype(float) @ b.astype(float)),
        "_backward_a": (dy, b, dy.astype(float) @ b.astype(float).T),
        "_backward_b": (a, dy, a.astype(float).T @ dy.astype(float)),
    }[end]
    one = View.of((), ())
    got = product_of(f"wgmma{end}", x, y, exact.shape, (m, n, k, 1), (one, one), columns=columns)
    np.testing.assert_allclose(got, exact, rtol=1e-5 if end == "_backward_b" else 2**-8, atol=1e-4)


def test_the_parts_of_a_sum():
    """The last one is shorter."""
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    (m, n, k), chunk, rng = (200, 136, 40), 64, np.random.default_rng(0)
    a, dy = (rng.standard_normal(shape).astype(dtype) for shape in ((m, k), (m, n)))
    parts, one = -(-m // chunk), broadcast((1,), (-(-m // chunk),))
    got = product_of("wgmma_backward_b", a, dy, (parts, k, n), (m, n, k, parts), (one, one), columns=128, chunk=chunk)
    a, dy = (x.astype(float) for x in (a, dy))
    for i, part in enumerate(got):
        terms = slice(i * chunk, (i + 1) * chunk)
        np.testing.assert_allclose(part, a[terms].T @ dy[terms], rtol=1e-5, atol=1e-4)


def test_rows_of_a_result_that_begin_anywhere():
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    (m, n, k), rng = (130, 40, 67), np.random.default_rng(0)
    dy, b = (rng.standard_normal(shape).astype(dtype) for shape in ((m, n), (k, n)))
    one = View.of((), ())
    got = product_of("wgmma_backward_a", dy, b, (m, k), (m, n, k, 1), (one, one))
    np.testing.assert_allclose(got, dy.astype(float) @ b.astype(float).T, rtol=2**-8, atol=1e-4)


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [264, 131])
@pytest.mark.parametrize("columns", mg.matmul["wgmma_tf32"].tunables["COLUMNS"])
def test_a_product_of_tf32(columns, n):
    rng, (m, k) = np.random.default_rng(0), (130, 72)
    a, b = (rng.integers(-9, 9, size).astype(np.float32) for size in ((m, k), (n, k)))  # exact in TF32
    one = View.of((), ())
    got = product_of("wgmma_tf32", a, b, (m, n), (m, n, k, 1), (one, one), columns=columns)
    np.testing.assert_array_equal(got, a.astype(float) @ b.astype(float).T)


def test_a_batch_with_a_broadcast_factor():
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 40, 16), (2, 1, 16, 24)))
    views = broadcast((3,), (2, 3)), broadcast((2, 1), (2, 3))
    got = product_of("wgmma", a, b, (2, 3, 40, 24), (40, 24, 16, 6), views)
    np.testing.assert_allclose(got, a.astype(float) @ b.astype(float), rtol=2**-8, atol=1e-4)


NUMBERED = {
    "uint4 eight = exchange(pair, lane);": "unsigned two = threadIdx.x * 65537; uint4 eight = {two, two, two, two};",
    "make_float2(sum[i * 2], sum[i * 2 + 1])": "make_float2(threadIdx.x, threadIdx.x)",
    "wgmma_tf32(sum, A::slice(a_tile, i), B::slice(b_tile, i))": "",
}


@pytest.mark.parametrize("name", ["wgmma", "wgmma_tf32"])
def test_a_thread_stores_the_elements_in_its_picture(name):
    """Each thread stores its number, and bfloat16's smallest numbers are whole multiples of 2**-133."""
    dtype = np.float32 if "tf32" in name else pytest.importorskip("ml_dtypes").bfloat16
    one, a, b = View.of((), ()), np.ones((128, 8), dtype), np.ones((8, 256), dtype)
    got = product_of(name, a, b, (128, 256), (128, 256, 8, 1), (one, one), NUMBERED)
    thread = got if "tf32" in name else got * 2.0**133
    assert set(thread.ravel()) == set(range(256))
    assert (by_wgmma(name) == 1 + (thread < 32) + (thread == 0)).all()
