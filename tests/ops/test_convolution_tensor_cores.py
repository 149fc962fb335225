"""Convolution on tensor cores, on sim: values and gradients at odd shapes, races, and what is rejected."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import rounding
from minigrad.errors import LaunchError
from minigrad.ops.conv2d import backward, forward, prepare

ODD = {"stride": (2, 3), "padding": ((0, 2), (1, 0)), "dilation": (2, 1)}
SHAPES = [
    ((2, 8, 9, 11), (12, 8, 3, 2), ODD),
    ((3, 16, 7, 6), (64, 16, 3, 3), {"padding": 1}),
    ((2, 3, 17, 13), (8, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((4, 20, 7, 5), (32, 20, 1, 1), {"stride": 2}),
    ((1, 8, 5, 4), (8, 8, 5, 4), {"stride": 3, "padding": (0, 2)}),
    ((1, 4, 1, 1), (4, 4, 1, 1), {}),
]  # fmt: skip
RUNGS = {"mma_tf32": ("tf32", 1e-6), "mma_3xtf32": ("float32", 2e-6)}


def drawn(image, window, how, precision="float32"):
    """Inputs, an upstream gradient, and complete parameters. Random: a sum as the loss hides a wrong place."""
    rng = np.random.default_rng(sum(image) + sum(window))
    x, w = rng.standard_normal(image).astype(np.float32), rng.standard_normal(window).astype(np.float32)
    params = prepare(x, w, **how, precision=precision)
    return x, w, rng.standard_normal(forward(x, w, **params).shape).astype(np.float32), params


def close(got, wanted, allowed):
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() <= allowed * max(np.abs(wanted).max(), 1e-30)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_values_and_gradients_are_those_of_the_rounded_factors(case, rung):
    image, window, how = case
    precision, allowed = RUNGS[rung]
    x, w, dy, params = drawn(*case, precision)
    layout = "NHWC" if sum(image) % 2 else "NCHW"
    wanted = forward(x, w, **params)
    dx, dw = backward(dy, x, w, (image, window), (True, True), **params)
    a, b = (mg.tensor(v, device="sim").to(layout=layout).detach() for v in (x, w))
    a.requires_grad = b.requires_grad = True
    y = mg.conv2d.using(rung)(a, b, **how)
    y.backward(mg.tensor(dy, device="sim"))
    assert y.layout == layout or y.shape[1] == 1 or y.shape[2:] == (1, 1)
    close(y.numpy(), wanted, allowed)
    close(a.grad.numpy(), dx, allowed)
    close(b.grad.numpy(), dw, allowed)


def test_bfloat16():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    image, window, how = (2, 8, 6, 7), (16, 8, 3, 3), {"padding": 1, "stride": (1, 2)}
    *arrays, params = drawn(image, window, how)
    x, w, dy = (v.astype(bfloat16) for v in arrays)
    exact = mg.conv2d.backward(dy, x, w, (image, window), (True, True), **params)
    wanted = [mg.conv2d.forward(x, w, **params), *exact]
    a, b = (mg.tensor(v, device="sim", requires_grad=True) for v in (x, w))
    y = mg.conv2d.using("mma_bf16")(a.to(layout="NHWC"), b, **how)
    y.backward(mg.tensor(dy, device="sim"))
    for got, true in zip((y, a.grad, b.grad), wanted, strict=True):
        assert got.dtype == true.dtype
        close(got.numpy().astype(np.float32), true.astype(np.float32), 1e-2)


@pytest.mark.parametrize(
    ("rung", "tile"), [("mma_tf32", (128, 128)), ("mma_tf32", (256, 64)), ("mma_3xtf32", (128, 128))]
)
def test_every_tile_gives_the_same(rung, tile):
    case = ((1, 8, 9, 16), (136, 8, 3, 3), {"padding": 1})
    x, w, _, params = drawn(*case, RUNGS[rung][0])
    tunables = {"ROWS": tile[0], "COLUMNS": tile[1]}
    y = mg.conv2d.using(rung, **tunables)(mg.tensor(x, device="sim"), mg.tensor(w, device="sim"), padding=1)
    close(y.numpy(), forward(x, w, **params), RUNGS[rung][1])


@pytest.mark.parametrize("way", ["", "_backward_x", "_backward_w"])
def test_the_microscope_finds_nothing(way):
    x, w, dy, _ = drawn((1, 8, 6, 5), (8, 8, 3, 3), {"padding": 1, "stride": 2})
    a, b = mg.tensor(x, device="sim", requires_grad=True), mg.tensor(w, device="sim", requires_grad=True)
    gradient = {"dy": mg.tensor(dy, device="sim")} if way else {}
    report = mg.inspect(mg.conv2d[f"mma_tf32{way}"], a, b, padding=1, stride=2, **gradient)
    assert report.problems == []


def test_what_the_rungs_reject():
    x, w = mg.ones(1, 8, 6, 6, device="sim"), mg.ones(8, 4, 3, 3, device="sim")
    with pytest.raises(LaunchError, match="groups=1"):
        mg.conv2d.using("mma_tf32")(x, w, groups=2)
    with pytest.raises(LaunchError, match="multiples of 4"):
        mg.conv2d.using("mma_tf32")(x, mg.ones(3, 8, 3, 3, device="sim"))
    with pytest.raises(LaunchError, match="at most 15 x 15"):
        mg.conv2d.using("mma_tf32")(mg.ones(1, 4, 20, 20, device="sim"), mg.ones(4, 4, 17, 1, device="sim"))
    with pytest.raises(LaunchError, match="float32"):
        mg.conv2d.using("mma_tf32")(*(mg.ones(*s, device="sim", dtype="float64") for s in ((1, 4, 3, 3), (4, 4, 1, 1))))


def test_parts_of_a_long_sum_are_added_up():
    """With so many pixels several blocks share dw."""
    case = ((4, 8, 24, 25), (8, 8, 3, 3), {"padding": 1})
    x, w, dy, params = drawn(*case, "tf32")
    b = mg.tensor(w, device="sim", requires_grad=True)
    mg.conv2d.using("mma_tf32")(mg.tensor(x, device="sim"), b, padding=1).backward(mg.tensor(dy, device="sim"))
    exact = [rounding.rounded(v, "tf32").astype(float) for v in (dy, x, w)]
    close(b.grad.numpy(), backward(*exact, (x.shape, w.shape), (False, True), **params)[1], 2e-6)
