"""The gradient of x by wgmma where windows move by a stride: what is launched, and on the GPU its values.

`tests/devices/test_emulated_convolution.py` has its values on the simulator.
"""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.devices.dry_run import dry_run
from minigrad.errors import LaunchError
from minigrad.ops.conv2d import launch_backward, prepare
from minigrad.ops.conv2d.kernels import FAST, kernels
from minigrad.rounding import rounded

FASTEST = {**kernels, **{role: kernels[name] for role, name in FAST.items()}}


def launched(image, window, how, precision="tf32", chosen=FASTEST):
    """The launches of dx on an H200, where nothing runs."""
    device, params = dry_run(), prepare(np.zeros(image), np.zeros(window), **how, precision=precision)
    device.arch, device.processors = "sm_90a", 132
    shape = mg.conv2d.forward(np.zeros(image), np.zeros(window), **params).shape
    dy, x, w = (Array.empty(device, s, np.dtype(np.float32), True) for s in (shape, image, window))
    launch_backward(chosen, (True, False), dy, x, w, (image, window), **params)
    return device.launches


@pytest.mark.parametrize(
    ("image", "window", "how", "wanted"),
    [
        ((2, 64, 8, 8), (64, 64, 3, 3), {"stride": 2, "padding": 1}, "conv2d_wgmma_tf32_backward_x"),
        ((2, 64, 8, 8), (64, 64, 1, 1), {"stride": 2}, "conv2d_wgmma_tf32_backward_x"),
        ((2, 64, 9, 8), (64, 64, 3, 3), {"stride": (3, 2), "dilation": (2, 1)}, "conv2d_wgmma_tf32_backward_x"),
        ((2, 64, 8, 8), (64, 64, 3, 3), {"dilation": 2}, "conv2d_wgmma_tf32"),
        ((2, 64, 9, 8), (64, 64, 3, 3), {"stride": 2, "padding": 1}, "conv2d_mma_tf32_backward_x"),  # 5 and 4 rows
        ((2, 64, 8, 8), (64, 64, 3, 3), {"stride": 2, "dilation": (2, 1)}, "conv2d_mma_tf32_backward_x"),
        ((2, 32, 8, 8), (64, 32, 3, 3), {"stride": 2}, "conv2d_mma_tf32_backward_x"),  # a tile has 64 channels
        ((2, 64, 8, 8), (48, 64, 3, 3), {"stride": 2}, "conv2d_mma_tf32_backward_x"),  # a stage has 32 kernels
    ],
)
def test_the_kernel_of_dx(image, window, how, wanted):
    names = [launch.kernel for launch in launched(image, window, how)]
    assert wanted in names and ("conv2d_turn" in names) == ("wgmma" in wanted)


def test_three_products_launch_the_rests_of_both_factors():
    launches = launched((2, 64, 8, 8), (64, 64, 3, 3), {"stride": 2}, "3xtf32")
    rests = ["conv2d_rest"] * 2
    assert [launch.kernel for launch in launches] == ["conv2d_turn", *rests, "conv2d_wgmma_3xtf32_backward_x"]


def test_the_tile_follows_from_the_stages_of_all_parities():
    """Of large ones a block with all four taps of a pixel would be the last to end; with many tiles they are faster."""
    for images, pixels in ((32, "128"), (128, "256")):
        *_, launch = launched((images, 128, 28, 28), (256, 128, 3, 3), {"stride": 2, "padding": 1})
        assert launch.defines["PIXELS"] == pixels and launch.defines["DOWN"] == "2" and launch.grid[0] == 132


def test_a_tile_that_is_too_tall_is_rejected():
    tall = FASTEST | {name: kernels[name].using(DOWN=2) for name in ("wgmma_tf32", "wgmma_tf32_backward_x")}
    with pytest.raises(LaunchError, match="conv2d_wgmma_tf32_backward_x: tiles of 128 kernels do not fit into 64"):
        launched((2, 64, 8, 8), (64, 64, 3, 3), {"stride": 2}, chosen=tall)


WINDOWS = [
    ((12, 14), (3, 3), {"stride": 2, "padding": 1}),
    ((12, 14), (1, 1), {"stride": 2}),
    ((14, 13), (3, 3), {"stride": (2, 1), "padding": 1}),
    ((8, 6), (2, 2), {"stride": 2}),
    ((30, 32), (7, 7), {"stride": 2, "padding": 3}),
    ((15, 18), (5, 5), {"stride": 3, "padding": (2, 1)}),
    ((15, 14), (3, 3), {"stride": (3, 2), "padding": 2, "dilation": (2, 1)}),
    ((8, 6), (2, 3), {"stride": (4, 2), "padding": ((3, 0), (0, 1))}),
]  # fmt: skip
CHANNELS = [(1, 64, 64), (3, 128, 32), (3, 192, 96), (40, 128, 64)]  # images, channels, kernels
ERROR = {"tf32": 1e-5, "3xtf32": 5e-6, "bfloat16": 5e-3}


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ERROR)
@pytest.mark.parametrize("sizes", CHANNELS, ids=str)
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_on_the_gpu(case, sizes, precision):
    """Against float64, with rounded factors and a random dy: a sum as the loss hides a wrong place."""
    (extents, size, how), (images, channels, count) = case, sizes
    image, window, rng = (images, channels, *extents), (count, channels, *size), np.random.default_rng(0)
    params = prepare(np.zeros(image), np.zeros(window), **how, precision="float32")
    dtype, permitted = ("bfloat16", "float32") if precision == "bfloat16" else ("float32", precision)

    def drawn(*shape):
        x = mg.tensor(rng.standard_normal(shape).astype(np.float32), device="cuda")
        return x.to(layout="NHWC").astype(dtype).detach()

    x, w = drawn(*image), drawn(*window)
    x.requires_grad = True
    with mg.precision(permitted):
        y = mg.conv2d(x, w, **how)
        dy = drawn(*y.shape)
        y.backward(dy)
    held = [t.numpy().astype(np.float32) for t in (dy, x, w)]
    exact = [(rounded(a, "tf32") if precision == "tf32" else a).astype(np.float64) for a in held]
    wanted = mg.conv2d.backward(*exact, (image, window), (True, False), **params)[0]
    error = np.abs(x.grad.numpy().astype(np.float64) - wanted).max()
    assert x.grad.shape == image and error <= ERROR[precision] * np.abs(wanted).max()
