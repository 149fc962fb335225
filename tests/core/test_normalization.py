"""LayerNorm and RMSNorm: their numbers by hand, their names, and what is refused."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.devices import get
from minigrad.errors import LaunchError


def test_rows_have_mean_0_and_variance_1(device):
    x = mg.tensor(np.random.default_rng(0).standard_normal((4, 3, 65)) * 5 + 100, device=device)
    y = nn.LayerNorm(65, eps=0, device=device, dtype="float64")(x).numpy()
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(y.var(-1), 1, rtol=1e-12)
    scaled = nn.RMSNorm(65, eps=0, device=device, dtype="float64")(x).numpy()
    np.testing.assert_allclose((scaled**2).mean(-1), 1, rtol=1e-12)


def test_a_shift_of_the_row_changes_nothing_and_a_large_one_costs_few_digits(device):
    x = np.random.default_rng(0).standard_normal((3, 1500)).astype(np.float32)
    y = mg.layer_norm(mg.tensor(x, device=device)).numpy()
    far = mg.layer_norm(mg.tensor(x + np.float32(1000), device=device)).numpy()
    exact = np.float64(x + np.float32(1000))
    exact = (exact - exact.mean(-1, keepdims=True)) / exact.std(-1, keepdims=True)
    assert np.abs(far - exact).max() < 1e-4  # sums of squares as they are would be off by 1 and more
    assert np.abs(far - y).max() < 1e-3


@pytest.mark.parametrize("layer", [nn.LayerNorm, nn.RMSNorm])
def test_parameters(layer):
    made = layer(6, device="numpy")
    names = ["weight", "bias"][: 1 + (layer is nn.LayerNorm)]
    assert [name for name, _ in made.named_parameters()] == names
    assert [*layer(6, affine=False, device="numpy").parameters()] == [] and repr(made) == f"{layer.__name__}(6)"
    x = mg.randn(2, 5, 6, device="numpy", requires_grad=True)
    made(x).backward(mg.ones(2, 5, 6, device="numpy"))
    assert all(p.grad is not None for p in (x, *made.parameters()))
    assert made(mg.tensor(np.ones((2, 6)), dtype="bfloat16", device="numpy")).dtype == "bfloat16"


def test_refusals():
    x = mg.randn(2, 5, device="numpy")
    with pytest.raises(ValueError, match=r"layer_norm: weight is \(4,\); the last axis of x \(2, 5\) needs \(5,\)"):
        mg.layer_norm(x, mg.ones(4, device="numpy"))
    with pytest.raises(TypeError, match="rms_norm: x is float32 and weight float64; make it float32"):
        mg.rms_norm(x, mg.ones(5, dtype="float64", device="numpy"))
    with pytest.raises(ValueError, match="layer_norm: x has no axis"):
        mg.layer_norm(mg.tensor(1.0, device="numpy"))
    with pytest.raises(ValueError, match="LayerNorm: size=0"):
        nn.LayerNorm(0)


@pytest.mark.parametrize("quads", [1, 2, 4, 8])
def test_registers_that_do_not_hold_their_row_are_refused(quads, kernel_device):
    x = np.random.default_rng(0).standard_normal((37, 260)).astype(np.float32)
    op, given = mg.layer_norm.using("warp", QUADS=quads), mg.tensor(x, device=kernel_device)
    if 128 * quads < 260:
        with pytest.raises(LaunchError, match=f"QUADS={quads} holds rows of up to {128 * quads}; choose more for 260"):
            op(given)
    else:
        np.testing.assert_allclose(op(given).numpy(), mg.layer_norm(mg.tensor(x, device="numpy")).numpy(), 0, 1e-5)


@pytest.mark.sample(3)
@pytest.mark.parametrize("n", [36, 260, 1000])
@pytest.mark.parametrize("op", [mg.layer_norm, mg.rms_norm], ids=["layer_norm", "rms_norm"])
def test_blocks_walk_through_the_rows(n, op, kernel_device):
    """Three turns of the first blocks and two of the others; the parts of a row have means far from each other."""
    rows_at_once = 4 * get(kernel_device).processors * (8 // {36: 1, 260: 4, 1000: 8}[n])
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2 * rows_at_once + 1, n)) + np.linspace(-20, 20, n)
    weight, dy = rng.standard_normal(n), rng.standard_normal(x.shape)
    results = []
    for device, dtype in ((kernel_device, "float32"), ("numpy", "float64")):
        leaves = [mg.tensor(a, True, device, dtype) for a in (x, weight)]
        y = op(*leaves)
        y.backward(mg.tensor(dy, device=device, dtype=dtype))
        results.append([a.numpy() for a in (y, *(leaf.grad for leaf in leaves))])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, atol=4e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("size", [4, 5, 8, 1501])
def test_gradients_that_are_added_up(size, device):
    """dbias may begin where no vector of four numbers does, and kernels that add read vectors."""
    rng = np.random.default_rng(0)
    x, dy = (mg.tensor(rng.standard_normal((3, size)), device=device) for _ in range(2))
    layer = nn.LayerNorm(size, device=device, dtype="float64")
    for _ in range(2):
        layer(x).backward(dy)
    np.testing.assert_allclose(layer.bias.grad.numpy(), 2 * dy.numpy().sum(0), atol=1e-12)


@pytest.mark.parametrize("tuned", [(8192, 128, 1), (37, 512, 1)])
def test_what_was_tuned_for_short_rows_holds_long_ones(tuned, kernel_device):
    """The second is the size of the launch itself, the first that of another."""
    kernels = [mg.layer_norm.kernels[name] for name in ("warp", "warp_backward")]
    x, results = np.random.default_rng(0).standard_normal((37, 512)), []
    try:
        for kernel in kernels:
            kernel.prefer(tuned[: len(kernel.sizes)], dict.fromkeys(kernel.tunables, 1))
        for device in (kernel_device, "numpy"):
            rows, weight = mg.tensor(x, True, device), mg.tensor(x[0], True, device)
            y = mg.layer_norm(rows, weight)
            (y * y).sum().backward()
            results.append([a.numpy() for a in (y, rows.grad, weight.grad)])
    finally:
        for kernel in kernels:
            kernel.forget()
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)
