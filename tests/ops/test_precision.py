"""`mg.precision`: which products may round, by how much, and that gradients and cached calls follow it."""

import threading

import numpy as np
import pytest

import minigrad as mg
from minigrad import rounding

BITS = {"tf32": 10, "bf16": 7}


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("name", BITS)
def test_numbers_go_to_the_nearest_with_so_many_bits(name):
    x = np.concatenate([numbers(1000), np.float32([0.0, -0.0, 1e-45, 3e38, np.inf, -np.inf, np.nan])])
    found = rounding.rounded(x, name)
    mantissa, exponent = np.frexp(x[:1000].astype(float))
    scale = 2.0 ** (BITS[name] + 1)
    np.testing.assert_array_equal(found[:1000], np.ldexp(np.round(mantissa * scale) / scale, exponent))
    np.testing.assert_array_equal(found[-3:], x[-3:])
    assert np.signbit(found[1001]) and found[1002] == 0
    step = 2.0 ** -BITS[name]  # ties go to the even neighbor
    ties = np.float32([1 + step / 2, 1 + 3 * step / 2])
    np.testing.assert_array_equal(rounding.rounded(ties, name), np.float32([1, 1 + 2 * step]))
    assert rounding.rounded(x, "float32") is x and rounding.rounded(x.astype(float), name).dtype == float


def test_bf16_is_the_bfloat16_of_ml_dtypes():
    bfloat16, x = pytest.importorskip("ml_dtypes").bfloat16, numbers(1000)
    np.testing.assert_array_equal(rounding.rounded(x, "bf16"), x.astype(bfloat16).astype(np.float32))


@pytest.mark.parametrize("device", ["numpy", "sim"])
@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("shapes", [((5, 40), (40, 7)), ((2, 3, 40), (2, 40, 3)), ((40,), (40, 3)), ((4, 40), (40,))])
def test_factors_are_rounded_and_sums_are_not(shapes, name, device):
    hosts = [numbers(*shape) for shape in shapes]
    a, b = (mg.tensor(host, True, device) for host in hosts)
    with mg.precision(name):
        y = a @ b
    x, w = (rounding.rounded(host, name).astype(float) for host in hosts)
    np.testing.assert_allclose(y.numpy(), x @ w, rtol=1e-5, atol=1e-5)
    assert np.abs(y.numpy() - hosts[0].astype(float) @ hosts[1]).max() > 1e-4
    dy = numbers(*y.shape)
    y.backward(mg.tensor(dy, device=device))  # outside of the context: it rounds as the forward pass did
    exact = [mg.tensor(v, True, "numpy") for v in (x, w)]
    (exact[0] @ exact[1]).backward(mg.tensor(rounding.rounded(dy, name).astype(float), device="numpy"))
    for got, wanted in zip((a, b), exact, strict=True):
        np.testing.assert_allclose(got.grad.numpy(), wanted.grad.numpy(), rtol=1e-5, atol=1e-5)


def test_it_is_the_thread_s_own_and_ends_with_its_block():
    seen = []
    with mg.precision("bf16"), mg.precision("tf32"):
        thread = threading.Thread(target=lambda: seen.append(rounding.current()))
        thread.start()
        thread.join()
        seen.append(rounding.current())
    with pytest.raises(ZeroDivisionError), mg.precision("tf32"):
        1 / 0  # noqa: B018
    assert seen == ["float32", "tf32"] and rounding.current() == "float32"


@pytest.mark.parametrize("name", ["fp16", None, 32, ["tf32"]])
def test_unknown_names_are_rejected(name):
    with pytest.raises(ValueError, match="is not one of float32, 3xtf32, tf32, bf16"), mg.precision(name):
        pass
    with pytest.raises(ValueError, match="is not one of"):
        mg.matmul(mg.ones(2, 2), mg.ones(2, 2), precision=name or "")


def test_a_gpu_takes_its_tensor_cores_where_they_are_faster():
    big, small, vector = ((2048, 2048), (2048, 2048)), ((64, 64), (64, 64)), ((512, 4096), (4096, 1))
    exact = [repr(mg.matmul.strategy(*shapes)) for shapes in (big, small, vector)]
    for name in BITS:
        with mg.precision(name):
            turned = {"forward": "wgmma_tf32", "backward_a": "wgmma_tf32", "backward_b": "mma_tf32_backward_b"}
            for way, kernel in turned.items():  # db would need copies of both factors
                assert mg.matmul.strategy(*big, way=way).kernel is mg.matmul[kernel]
            assert [repr(mg.matmul.strategy(*shapes)) for shapes in (small, vector)] == exact[1:]
            assert mg.matmul.strategy(*big, dtype="float64").kernel is mg.matmul["tiled"]
            assert mg.matmul.using("naive").strategy(*big).kernel.name == "matmul_naive"
    assert repr(mg.matmul.strategy(*big)) == exact[0]


@pytest.mark.gpu
@pytest.mark.parametrize("name", BITS)
def test_products_on_a_gpu_round_no_more_than_permitted(name):
    host = numbers(2048, 2048)
    a, b = (mg.tensor(x, True, "cuda") for x in (host, host.T.copy()))
    with mg.precision(name):
        y = a @ b
    y.backward(mg.tensor(host, device="cuda"))
    x = host.astype(float)
    for got, exact in ((y, x @ x.T), (a.grad, x @ x), (b.grad, x.T @ x)):
        np.testing.assert_allclose(got.numpy(), exact, rtol=2 ** -BITS[name], atol=2 ** -BITS[name] * 2048**0.5 * 4)
