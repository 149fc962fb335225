"""Convolution by wgmma, emulated on the simulator: y with all that is added to it, and dx at every stride."""

from functools import cache

import numpy as np
import pytest
from emulated_hopper import Emulated

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.dtypes import is_bfloat16
from minigrad.kernels.window import Window
from minigrad.ops.conv2d import prepare, wgmma
from minigrad.ops.conv2d.rungs import HOPPER

SIM = get("sim")
ERROR = {"wgmma_tf32": 0, "wgmma_bf16": 2**-8, "wgmma_3xtf32": 2e-7}  # of whole numbers, which y in bfloat16 rounds


@cache
def kernels(name, **values):
    """The op's kernels, of which those of this rung are emulated."""
    own = {key: Emulated(mg.conv2d[key], "w") for key in (name, f"{name}_backward_x")}
    return mg.conv2d.kernels | {key: kernel.using(**values) if values else kernel for key, kernel in own.items()}


def drawn(rng, shape, name):
    """Small whole numbers, whose products are exact; for three products of TF32 they have more bits than TF32."""
    x = rng.integers(-3, 4, shape) if "3x" not in name else rng.integers(-(2**13), 2**13, shape)
    return x.astype(pytest.importorskip("ml_dtypes").bfloat16 if "bf16" in name else np.float32)


def on_sim(x):
    return mg.tensor(x, device="sim").to(layout="NHWC").array


def close(got, wanted, name):
    got = got.numpy().astype(np.float64)
    assert got.shape == wanted.shape
    np.testing.assert_array_less(np.abs(got - wanted), ERROR[name] * np.abs(wanted).max() + 1e-30)


def gradient(name, image, window, how, **values):
    """dx by the emulated kernels, and the reference in float64."""
    rng, params = np.random.default_rng(0), prepare(np.zeros(image), np.zeros(window), **how)
    at = Window.over(image, window[2:], params["stride"], params["padding"], params["dilation"])
    w, dy = drawn(rng, window, name), drawn(rng, (image[0], window[0], at.out_height, at.out_width), name)
    dx = Array.empty(SIM, image, w.dtype, True)
    assert wgmma.fits("backward_x", dx, on_sim(w), at)
    got = wgmma.gradient_x(kernels(name, **values), name, on_sim(dy), on_sim(w), dx, at)
    exact = [a.astype(np.float64) for a in (dy, np.zeros(image), w)]
    return got, mg.conv2d.backward(*exact, (image, window), (True, False), **params)[0]


STRIDED = [
    ((1, 64, 8, 6), (64, 64, 3, 3), {"stride": 2, "padding": 1}),
    ((3, 64, 6, 4), (64, 64, 1, 1), {"stride": 2}),
    ((2, 64, 8, 5), (64, 64, 3, 3), {"stride": (2, 1), "padding": 1}),
    ((1, 128, 4, 6), (64, 128, 2, 2), {"stride": 2}),
    ((1, 64, 10, 12), (64, 64, 7, 7), {"stride": 2, "padding": 3}),
    ((2, 64, 9, 6), (64, 64, 5, 5), {"stride": 3, "padding": (2, 0)}),
    ((1, 64, 6, 12), (256, 64, 2, 3), {"stride": (3, 4), "padding": ((2, 0), (0, 1))}),
    ((1, 64, 10, 8), (128, 64, 3, 3), {"stride": (1, 2), "padding": ((0, 3), (1, 0)), "dilation": (2, 3)}),
    ((1, 64, 6, 9), (64, 64, 3, 2), {"padding": (1, 2)}),
]  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", STRIDED, ids=str)
def test_the_gradient_of_x(case):
    close(*gradient("wgmma_tf32", *case), "wgmma_tf32")


TILES = [(name, pixels, down) for name in HOPPER for pixels in wgmma.STAGE[name] for down in (1, 2)]


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "pixels", "down"), TILES)
def test_the_gradient_of_x_in_every_tile(name, pixels, down):
    """Each parity has several tiles, of which the last is not full."""
    case = (3, 128, 20, 22), (64, 128, 3, 3), {"stride": 2, "padding": 1}
    close(*gradient(name, *case, PIXELS=pixels, DOWN=down), name)


@pytest.mark.sample(2)
@pytest.mark.parametrize("split", [1, 3])
@pytest.mark.parametrize("name", HOPPER)
def test_y_with_bias_residual_and_relu(name, split):
    image, window, how = (2, 64, 7, 9), (64, 64, 3, 3), {"padding": 1, "stride": (1, 2)}
    rng, params = np.random.default_rng(0), prepare(np.zeros(image), np.zeros(window), **how)
    at = Window.over(image, window[2:], params["stride"], params["padding"], params["dilation"])
    x, w, bias = (drawn(rng, shape, name) for shape in (image, window, window[:1]))
    residual = drawn(rng, (2, 64, 7, 5), name)
    ends = Array.upload(SIM, bias), on_sim(residual), True
    y = Array.empty(SIM, residual.shape, x.dtype, True)
    assert is_bfloat16(y.dtype) == ("bf16" in name)
    wgmma.product(kernels(name, SPLIT=split, DOWN=1, PIXELS=128), name, on_sim(x), on_sim(w), ends, y, at)
    exact = mg.conv2d.forward(*(a.astype(np.float64) for a in (x, w, bias)), **params) + residual.astype(np.float64)
    close(y, np.maximum(exact, 0), name)
