"""add_layer_norm and add_rms_norm: the residual stream and its norm at once, against the ops that they join."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.devices.dtypes import dtype_of
from minigrad.devices.guarded import guarded
from minigrad.ops.add_layer_norm import add_layer_norm
from minigrad.ops.add_rms_norm import add_rms_norm

SIZES = [(1, 4), (7, 36), (2, 5, 132), (33, 768), (9, 1024), (300, 8), (0, 8)]
WIDE, LOW = {"float32": 2e-5, "float64": 1e-12}, {"bfloat16": 1.2e-2}


def given(size, dtype="float32", bias=True):
    """x, y, weight, shift and bias, and the gradients of both results; y and the last in this dtype."""
    rng, low = np.random.default_rng(0), dtype_of(dtype)
    wide = np.float64 if dtype == "float64" else np.float32
    x, y, dh, dn = (rng.standard_normal(size).astype(wide) for _ in range(4))
    columns = [rng.standard_normal(size[-1]).astype(wide) + 1 for _ in range(2 + bias)]
    return [x + 3, y.astype(low), *columns], (dh, dn.astype(low))


def results(inputs, dys, device=None, op=add_layer_norm):
    """h, n and all gradients, as float64; without a device by NumPy in float64."""
    put = (lambda x: Array.upload(device, x)) if device else (lambda x: x.astype(np.float64))
    ys, pull = op.pullback([put(x) for x in inputs], {})
    found = [*ys, *pull(tuple(put(dy) for dy in dys))]
    return [(x.numpy() if device else x).astype(np.float64) for x in found]


def agree(found, wanted, dtype):
    for i, (x, right) in enumerate(zip(found, wanted, strict=True)):
        rounded = i in (1, 3)  # n and dy are in the dtype of y
        limit = (WIDE | LOW)[dtype] if rounded else WIDE.get(dtype, 2e-5)
        assert x.shape == right.shape
        np.testing.assert_allclose(x, right, atol=limit * max(1, np.abs(right).max(initial=0)))


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", [*WIDE, *LOW])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_kernels_agree_with_numpy(size, dtype, kernel_device):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    for bias in (True, False):
        inputs, dys = given(size, dtype, bias)
        agree(results(inputs, dys, guarded(kernel_device)), results(inputs, dys), dtype)


@pytest.mark.sample(3)
@pytest.mark.parametrize("warps", add_layer_norm.kernels["forward"].tunables["WARPS"])
@pytest.mark.parametrize("op", [add_layer_norm, add_rms_norm], ids=["layer", "rms"])
def test_every_block(op, warps, kernel_device):
    """Rows that end within a warp, and rows far from 0."""
    inputs, dys = given((37, 128 * warps - 36))
    inputs = [inputs[0] + 300, *inputs[1:]] if op is add_layer_norm else [*inputs[:3], inputs[4]]
    found = results(inputs, dys, guarded(kernel_device), op.using(WARPS=warps))
    agree(found, results(inputs, dys, op=op), "float32")


@pytest.mark.parametrize("size", [(7, 36), (9, 1024)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_kernels_without_a_mean(size, dtype, kernel_device):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    for bias in (True, False):
        (x, y, weight, _, *rest), dys = given(size, dtype, bias)
        inputs = [x, y, weight, *rest]
        found = results(inputs, dys, guarded(kernel_device), add_rms_norm)
        agree(found, results(inputs, dys, op=add_rms_norm), dtype)


def test_an_addition_and_an_rms_norm():
    """On the tape, with gradients from both results."""
    (x, y, weight, _, bias), (dh, dn) = given((6, 20), "float64")
    found = []
    for op in (add_rms_norm, lambda x, y, w, b: (h := x + y + b, mg.rms_norm(h, w))):
        xs = [mg.tensor(a, True, "numpy") for a in (x, y, weight, bias)]
        h, n = op(*xs)
        ((h * mg.tensor(dh, device="numpy")).sum() + (n * mg.tensor(dn, device="numpy")).sum()).backward()
        found.append([a.numpy() for a in (h, n, *(a.grad for a in xs))])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_it_is_an_addition_and_a_layer_norm():
    """On the tape, with gradients from both results."""
    inputs, (dh, dn) = given((6, 20), "float64")
    found = []
    for op in (add_layer_norm, lambda x, y, w, s, b: (h := x + y + b, mg.layer_norm(h, w, s))):
        xs = [mg.tensor(x, True, "numpy") for x in inputs]
        h, n = op(*xs)
        ((h * mg.tensor(dh, device="numpy")).sum() + (n * mg.tensor(dn, device="numpy")).sum()).backward()
        found.append([x.numpy() for x in (h, n, *(x.grad for x in xs))])
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_a_gradient_alone(kernel_device):
    """A result that nothing reads has a gradient of 0; inputs that need none get none."""
    inputs, (dh, dn) = given((5, 12))
    xs = [mg.tensor(x, i == 0, kernel_device) for i, x in enumerate(inputs)]
    for which, dy in enumerate((dh, dn)):
        xs[0].grad = None
        add_layer_norm(*xs)[which].backward(mg.tensor(dy, device=kernel_device))
        both = tuple(d if i == which else 0 * d for i, d in enumerate((dh, dn)))
        np.testing.assert_allclose(xs[0].grad.numpy(), results(inputs, both)[2], atol=1e-5)


def test_refusals():
    x, row = mg.ones(2, 8, device="sim"), mg.ones(8, device="sim")
    with pytest.raises(ValueError, match=r"x is \(2, 8\), y \(8,\); they must be alike, and weight"):
        add_layer_norm(x, row, row, row)
    with pytest.raises(ValueError, match="rows of 6; kernels take multiples of 4 up to 1024"):
        add_layer_norm(x[:, :6], x[:, :6], row[:6], row[:6])
    pytest.importorskip("ml_dtypes")
    low = x.astype("bfloat16")
    with pytest.raises(TypeError, match="y is bfloat16; x, weight, shift and bias must be float32"):
        add_layer_norm(low, low, row, row)


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_both_are_functions_of_the_package(norm):
    x, y, row = (mg.tensor(np.arange(8) ** power, device="numpy") for power in (1.0, 2.0, 0.5))
    columns = [row, row] if norm == "layer_norm" else [row]
    h, n = getattr(mg, f"add_{norm}")(x, y, *columns)
    np.testing.assert_array_equal(h.numpy(), (x + y).numpy())
    np.testing.assert_allclose(n.numpy(), getattr(mg, norm)(x + y, *columns).numpy())
