"""Products on tensor cores: right on a GPU that has them, refused in a sentence by everything else."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import CompileError

SIZES = [
    (1, 1, 1),
    (3, 5, 7),
    (64, 128, 32),
    (70, 136, 40),
    (65, 129, 33),
    (130, 260, 100),
    (300, 700, 1025),
    (16, 8, 0),
]


def tf32(x):
    """Rounded to the 10 bits behind the point that TF32 has, halves away from 0."""
    return ((x.view(np.int32) + 0x1000) & ~0x1FFF).view(np.float32)


def numbers(dtype, *shape):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.gpu
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_tf32_rounds_the_factors_and_nothing_else(m, n, k):
    a, b = numbers(np.float32, m, k), numbers(np.float32, k, n)
    c = mg.matmul.using("mma_tf32")(mg.tensor(a, device="cuda"), mg.tensor(b, device="cuda"))
    exact = tf32(a).astype(np.float64) @ tf32(b).astype(np.float64)
    np.testing.assert_allclose(c.numpy(), exact, rtol=1e-5, atol=1e-5 * max(k, 1) ** 0.5)


@pytest.mark.gpu
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_bfloat16_is_added_up_in_float(m, n, k):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    a, b = numbers(bfloat16, m, k), numbers(bfloat16, k, n)
    c = mg.tensor(a, device="cuda") @ mg.tensor(b, device="cuda")
    assert c.dtype == bfloat16
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c.numpy().astype(np.float64), exact, rtol=2**-8, atol=1e-5 * max(k, 1) ** 0.5)


@pytest.mark.gpu
@pytest.mark.parametrize("unit", ["tf32", "bf16"])
def test_a_batch_goes_through_tensor_cores(unit):
    dtype = np.float32 if unit == "tf32" else pytest.importorskip("ml_dtypes").bfloat16
    a, b = numbers(dtype, 3, 20, 24), numbers(dtype, 3, 24, 40)
    c = mg.matmul.using(f"mma_{unit}")(mg.tensor(a, device="cuda"), mg.tensor(b, device="cuda"))
    np.testing.assert_allclose(c.numpy().astype(float), a.astype(float) @ b.astype(float), rtol=0.02, atol=0.05)


@pytest.mark.parametrize("name", ["mma_tf32", "mma_bf16"])
def test_they_need_more_shared_memory_than_every_gpu_has(name):
    kernel = mg.matmul[name]
    assert 48 * 1024 < kernel.shared <= 227 * 1024
    assert f"SHARED = {kernel.shared};" in kernel.source.text, "the kernel and its launch say the same"


def test_the_simulator_refuses_in_a_sentence():
    a = mg.ones(4, 4, device="sim")
    with pytest.raises(CompileError, match=r"cuda/matmul/mma.cuh.* runs only on a GPU; the simulator cannot run it"):
        mg.matmul.using("mma_tf32")(a, a)


def test_what_is_no_bfloat16_is_refused():
    a = mg.ones(4, 4, device="sim")
    with pytest.raises(TypeError, match="takes the bfloat16 of ml_dtypes; got float32"):
        mg.matmul.using("mma_bf16")(a, a)
    with pytest.raises(TypeError, match="float32"):
        mg.matmul.using("mma_tf32")(a.astype("float64"), a.astype("float64"))


def test_bfloat16_multiplies_and_does_nothing_else():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    a = mg.tensor(numbers(bfloat16, 3, 4), device="numpy")
    b = mg.tensor(numbers(bfloat16, 4, 2), device="numpy")
    exact = a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)
    np.testing.assert_allclose((a @ b).numpy().astype(np.float64), exact, rtol=2**-8, atol=1e-6)
    with pytest.raises(TypeError, match="exp takes float32 or float64; got bfloat16"):
        a.exp()
    with pytest.raises(TypeError, match="matmul takes float32 or float64; got bfloat16"):
        a @ mg.ones(4, 2, device="numpy")
    with pytest.raises(TypeError, match="only float32 and float64 tensors can require gradients"):
        mg.tensor(a.numpy(), requires_grad=True)
