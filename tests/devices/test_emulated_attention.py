"""Attention by wgmma, emulated on the simulator: both widths, ragged tiles, shared heads, and what is hidden."""

import numpy as np
import pytest
from emulated_hopper import Emulated

import minigrad as mg

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


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_output_and_gradients(size):
    """To bfloat16's digits: of the weights and their gradients, too."""
    batch, heads, queries, width, keys, shared, causal = size
    rng, many, few = np.random.default_rng(0), (batch, heads, queries, width), (batch, shared, keys, width)
    *hosts, dy = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in (many, few, few, many))
    exact = results(mg.attention, [x.astype(float) for x in hosts], dy.astype(float), "numpy", causal=causal)
    found = results(emulated(), hosts, dy, "sim", causal=causal)
    for got, right in zip(found, exact, strict=True):
        np.testing.assert_allclose(got, right, atol=2**-6 * np.abs(right).max())
