"""Products with a long sum and a small result, split among several blocks: their values."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.microscope import watching
from minigrad.op import OPS
from minigrad.ops.matmul.kernels import chunk_in_parts


def test_one_launch_adds_up_the_partial_sums_whatever_sum_prefers():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 40960), (40960, 2)))
    mg.sum["strips"].prefer((4, 40), {"CHUNK": 32})
    try:
        found = (mg.tensor(a, device="sim") @ mg.tensor(b, device="sim")).numpy()
    finally:
        mg.sum["strips"].forget()
    np.testing.assert_allclose(found, a @ b, rtol=1e-3)


@pytest.mark.sample(4)
@pytest.mark.parametrize("sizes", [(20, 4200, 40), (4200, 20, 40), (40, 20, 4200), (2, 4096, 3)])
def test_the_partial_sums_make_the_product(sizes):
    m, k, n = sizes
    rng = np.random.default_rng(0)
    a, b, dy = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    x, y = (mg.tensor(given, requires_grad=True, device="sim") for given in (a, b))
    with watching() as report:
        z = x @ y
        z.backward(mg.tensor(dy, device="sim"))
    assert report.problems == [] and any("split_k_parts" in launch.kernel for launch in report.launches)
    for got, exact in ((z, a.astype(float) @ b), (x.grad, dy.astype(float) @ b.T), (y.grad, a.T.astype(float) @ dy)):
        np.testing.assert_allclose(got.numpy(), exact, rtol=1e-5, atol=1e-3)


def test_the_gradient_of_few_weights_is_a_sum_in_parts_on_tensor_cores():
    """A layer's weights have few tiles, and its batch is long: 16384 rows of 384 numbers."""
    kernel = mg.matmul["mma_bf16_backward_b"]
    for *sizes, terms, parts in ((384, 1536, 16384, 16), (4096, 4096, 4096, 1), (512, 256, 128, 1)):
        assert chunk_in_parts(kernel, *sizes, terms, 132) == terms // parts
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    rng = np.random.default_rng(0)
    a, b, dy = (rng.standard_normal(shape).astype(bfloat16) for shape in ((2048, 40), (40, 24), (2048, 24)))
    x, w, upstream = (Array.upload(get("sim"), given) for given in (a, b, dy))
    with watching() as report:
        _, pull = OPS["matmul"].pullback([x, w], {})
        dw = pull(upstream)[1].numpy()
    assert report.problems == [] and any("sum" in launch.kernel for launch in report.launches)
    assert dw.dtype == np.float32  # nor were the partial sums rounded
    np.testing.assert_allclose(dw, a.astype(float).T @ dy.astype(float), rtol=1e-5, atol=1e-4)


def test_a_kernel_that_is_asked_for_takes_any_sizes():
    rng = np.random.default_rng(1)
    op = mg.matmul.using("split_k_parts")
    for m, k, n in ((3, 5, 7), (33, 129, 65), (2, 0, 3), (70, 200, 40)):
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        got = op(mg.tensor(a, device="sim"), mg.tensor(b, device="sim"))
        np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-12, atol=1e-12)
