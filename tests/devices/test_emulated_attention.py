"""Attention by wgmma, emulated on the simulator: both widths, ragged tiles, shared heads, and what is hidden."""

import numpy as np
import pytest
from emulated_hopper import Emulated

import minigrad as mg
from minigrad.operators import OPS
from minigrad.ops.attention import flash

ml_dtypes = pytest.importorskip("ml_dtypes")
# batch, heads, queries, width, keys, heads of keys, causal
SIZES = [
    (1, 2, 70, 64, 150, 1, True), (1, 1, 200, 72, 130, 1, True), (1, 1, 300, 16, 300, 1, True),
    (2, 1, 1, 128, 300, 1, False), (1, 2, 140, 24, 5, 2, True), (1, 1, 130, 8, 60, 1, False),
]  # fmt: skip


def emulated():
    """The op by this rung, whose kernels are emulated."""
    op = mg.attention.using("wgmma_bf16")
    own = {name: Emulated(op.kernels[name], "k", None, False) for name in ("wgmma_bf16", "wgmma_bf16_backward_all")}
    kernels = {key: own.get(kernel.name.removeprefix("attention_"), kernel) for key, kernel in op.kernels.items()}
    return op.with_kernels(kernels, {"all_wgmma_bf16": "wgmma_bf16_backward_all"})


def results(op, hosts, dy, device, **params):
    """y, dq, dk and dv as float64."""
    xs = [mg.tensor(x, True, device) for x in hosts]
    y = op(*xs, **params)
    y.backward(mg.tensor(dy, device=device))
    return [x.numpy().astype(float) for x in (y, *(x.grad for x in xs))]


@pytest.mark.sample(5)
@pytest.mark.parametrize("short", [flash.SHORT, 100])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_output_and_gradients(size, short, monkeypatch):
    """To bfloat16's digits: of the weights and their gradients, too."""
    monkeypatch.setattr("minigrad.ops.attention.flash.SHORT", short)
    batch, heads, queries, width, keys, shared, causal = size
    rng, many, few = np.random.default_rng(0), (batch, heads, queries, width), (batch, shared, keys, width)
    *hosts, dy = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in (many, few, few, many))
    exact = results(mg.attention, [x.astype(float) for x in hosts], dy.astype(float), "numpy", causal=causal)
    found = results(emulated(), hosts, dy, "sim", causal=causal)
    for got, right in zip(found, exact, strict=True):
        np.testing.assert_allclose(got, right, atol=2**-6 * np.abs(right).max())


@pytest.mark.sample(3)
@pytest.mark.parametrize("spoiled", [False, True])
@pytest.mark.parametrize(("width", "causal"), [(64, True), (24, False), (128, True)])
def test_heads_side_by_side(width, causal, spoiled, monkeypatch):
    """With NaN in the last place the tiles before it are made again, where that is hidden from them."""
    monkeypatch.setattr("minigrad.ops.self_attention.attending", lambda: emulated().running)
    rng, size = np.random.default_rng(0), (2, 70, 3 * 2 * width)
    x, dy = (rng.standard_normal((*size[:2], n)).astype(ml_dtypes.bfloat16) for n in (size[2], size[2] // 3))
    bias = rng.standard_normal(size[2]).astype(np.float32)
    if spoiled:
        x[0, -1, -1] = np.nan
    found = []
    for device, to in (("sim", x.dtype), ("numpy", float)):
        given = (
            mg.tensor(x.astype(to), True, device),
            mg.tensor(bias if to == x.dtype else bias.astype(to), True, device),
        )
        y = OPS["self_attention"](*given, heads=2, causal=causal)
        y.backward(mg.tensor(dy.astype(to), device=device))
        found.append([a.numpy().astype(float) for a in (y, *(a.grad for a in given))])
    for got, right in zip(*found, strict=True):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(right))
        np.testing.assert_allclose(got, right, atol=2**-5 * np.nanmax(np.abs(right), initial=1))


def test_what_is_hidden_cannot_leak():
    """With causal the last keys may be NaN for all but the last queries: spoiled rows are made again."""
    rng = np.random.default_rng(0)
    *hosts, dy = (rng.standard_normal((1, 1, 75, 8)).astype(ml_dtypes.bfloat16) for _ in range(4))
    late = [np.where(np.arange(75)[:, None] < 70, x, ml_dtypes.bfloat16(np.nan)) for x in hosts[1:]]
    clean, spoiled = (results(emulated(), [hosts[0], *rest], dy, "sim", causal=True) for rest in (hosts[1:], late))
    for found, right in zip(spoiled[:2], clean[:2], strict=True):
        np.testing.assert_allclose(found[0, 0, :70], right[0, 0, :70], atol=2**-5)
        assert np.isnan(found[0, 0, 70:]).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_large_scores_do_not_overflow(sign):
    """Also where a maximum grows from tile to tile, and where all scores are far below 0."""
    k = np.zeros((1, 1, 200, 8), ml_dtypes.bfloat16)
    k[..., 0] = np.arange(200)
    v = np.random.default_rng(0).standard_normal(k.shape).astype(ml_dtypes.bfloat16)
    q = np.full((1, 1, 3, 8), sign * 100, ml_dtypes.bfloat16)
    y = emulated()(*(mg.tensor(x, device="sim") for x in (q, k, v)), scale=1.0).numpy().astype(float)
    np.testing.assert_allclose(y[0, 0, 0], v.astype(float)[0, 0, -1 if sign > 0 else 0], rtol=1e-2)
