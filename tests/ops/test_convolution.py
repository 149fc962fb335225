"""Convolution and pooling against loops in float64 and by hand, and refused arguments."""

from itertools import product

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.devices.dry_run import DryRun

inf, nan = np.inf, np.nan
WINDOWS = list(
    product(
        [(3, 2), (1, 1)],  # size
        [(1, 1), (2, 2), (2, 3)],  # stride
        [((0, 0), (0, 0)), ((1, 1), (1, 1)), ((0, 2), (1, 0))],  # padding
        [(1, 1), (2, 1)],  # dilation
        [1, 2],  # groups
    )
)


def loops(x, w, dy, stride, padding, dilation, groups):
    """y, dx and dw by the formula: a loop for each letter. dy None gives y alone."""
    (images, _, height, width), (kernels, each, rows, columns) = x.shape, w.shape
    (top, _), (left, _) = padding
    out = [
        (n + sum(pad) - d * (k - 1) - 1) // s + 1
        for n, pad, d, k, s in zip(x.shape[2:], padding, dilation, w.shape[2:], stride, strict=True)
    ]
    y, dx, dw = np.zeros((images, kernels, *out)), np.zeros_like(x), np.zeros_like(w)
    for n, k, p, q in np.ndindex(*y.shape):
        for c, r, s in np.ndindex(each, rows, columns):
            h, v = p * stride[0] - top + r * dilation[0], q * stride[1] - left + s * dilation[1]
            if 0 <= h < height and 0 <= v < width:
                channel = k // (kernels // groups) * each + c
                y[n, k, p, q] += x[n, channel, h, v] * w[k, c, r, s]
                if dy is not None:
                    dx[n, channel, h, v] += dy[n, k, p, q] * w[k, c, r, s]
                    dw[k, c, r, s] += dy[n, k, p, q] * x[n, channel, h, v]
    return y, dx, dw


@pytest.mark.parametrize(("size", "stride", "padding", "dilation", "groups"), WINDOWS)
def test_the_reference_is_the_formula(size, stride, padding, dilation, groups):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 7, 5)), rng.standard_normal((6, 4 // groups, *size))
    params = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    y = mg.conv2d.forward(x, w, **params)
    dy = rng.standard_normal(y.shape)
    for got, wanted in zip((y, *mg.conv2d.vjp([x, w], dy, params)), loops(x, w, dy, **params), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("needs", [(True, False, False), (False, True, False), (False, False, True), (True,) * 3])
@pytest.mark.parametrize("name", ["naive", "im2col", "implicit"])
def test_every_way_makes_the_gradients_that_are_wanted(name, needs, kernel_device):
    rng = np.random.default_rng(0)
    hosts = [rng.standard_normal(shape) for shape in ((2, 4, 6, 5), (6, 2, 3, 2), (6,))]
    inputs = [mg.tensor(host, need, kernel_device) for host, need in zip(hosts, needs, strict=True)]
    params = {"stride": (1, 2), "padding": ((0, 2), (1, 0)), "groups": 2}
    y = mg.conv2d.using(name)(*inputs, **params)
    dy = rng.standard_normal(y.shape)
    y.backward(mg.tensor(dy, device=kernel_device))
    wanted = mg.conv2d.vjp(hosts, dy, params)
    for x, need, grad in zip(inputs, needs, wanted, strict=True):
        assert (x.grad is not None) == need
        if need:
            np.testing.assert_allclose(x.grad.numpy(), grad, atol=1e-12)


def test_a_convolution_of_one_bright_pixel_is_the_flipped_window(device):
    x, w = np.zeros((1, 1, 5, 6)), np.arange(1.0, 7).reshape(1, 1, 3, 2)
    x[0, 0, 2, 3] = 1
    y = mg.conv2d(mg.tensor(x, device=device), mg.tensor(w, device=device)).numpy()
    np.testing.assert_array_equal(y[0, 0, 0:3, 2:4], w[0, 0, ::-1, ::-1])
    assert y.sum() == w.sum()


def test_a_window_of_one_pixel_is_a_matrix_product(device):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 3, 4, 5)), rng.standard_normal((6, 3, 1, 1))
    y = mg.conv2d(mg.tensor(x, device=device), mg.tensor(w, device=device)).numpy()
    np.testing.assert_allclose(y, np.einsum("kc,nchv->nkhv", w[..., 0, 0], x), atol=1e-12)


def test_same_pads_an_even_window_at_the_right_and_below(device):
    x, w = mg.tensor(np.ones((1, 1, 3, 4)), device=device), mg.tensor(np.ones((1, 1, 2, 2)), device=device)
    y = mg.conv2d(x, w, padding="same").numpy()[0, 0]
    assert y.tolist() == [[4, 4, 4, 2], [4, 4, 4, 2], [2, 2, 2, 1]]
    assert mg.conv2d(x, w, padding="valid").shape == (1, 1, 2, 3)


def test_a_bias_may_be_left_out_given_by_name_or_by_position(device):
    x, w, bias = (mg.tensor(np.ones(shape), True, device) for shape in ((2, 1, 3, 3), (2, 1, 3, 3), (2,)))
    plain = mg.conv2d(x, w)
    for y in (mg.conv2d(x, w, bias), mg.conv2d(x, w, bias=bias), mg.conv2d(x, w, bias, 1, 0, 1, 1)):
        assert (y.numpy() == plain.numpy() + 1).all()
    assert (mg.conv2d(x, w, None).numpy() == plain.numpy()).all()
    mg.conv2d(x, w, bias=bias).backward(mg.tensor(np.arange(4.0).reshape(2, 2, 1, 1), device=device))
    assert bias.grad.numpy().tolist() == [0 + 2, 1 + 3]


def ones(*shape):
    return mg.tensor(np.ones(shape), device="numpy")


X, W = ones(2, 3, 5, 4), ones(2, 3, 6, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: mg.conv2d(X, W, padding=((0, 0), (1, 0))),
            "window is 6 x 3, and the padded image 5 x 5; pad by 1 rows",
        ),
        (lambda: mg.conv2d(X, W, stride=2, padding="same"), "padding='same' is for stride 1"),
        (lambda: mg.conv2d(X, W, padding="full"), "padding='full' must be a whole number"),
        (lambda: mg.conv2d(X, W, stride=(1, 2, 3)), "or two: "),
        (lambda: mg.conv2d(X, W, dilation=0), "dilation=0 must be at least 1"),
        (lambda: mg.conv2d(X, W, padding=2**32), "padding=4294967296 must be at least 0, and at most 16777216"),
        (lambda: mg.avg_pool2d(X, 2, 2**32 + 1), "stride=4294967297 must be at least 1, and at most"),
        (lambda: mg.conv2d(X, W, groups=2), "must be divisible by groups"),
        (lambda: mg.conv2d(X[0], W), r"must be \(N, C, H, W\)"),
        (lambda: mg.conv2d(X, W, ones(3)), r"bias is \(3,\); it must be \(2,\)"),
        (lambda: mg.max_pool2d(X, 2, 2, 2), "more than half of the window"),
        (lambda: mg.max_pool2d(ones(1, 1, 16, 16), 16), "more than 255 elements"),
        (lambda: mg.max_pool2d(X, 2, dilation=5), "the window is 6 x 6 with dilation"),
        (lambda: mg.avg_pool2d(X, 6), "the window is 6 x 6"),
        (lambda: mg.max_pool2d(X), "takes"),
        (lambda: mg.batch_norm(ones(1, 3), ones(3), ones(3), training=True), "more than one value a channel"),
        (lambda: mg.batch_norm(X, None, None, training=True), "running_mean is None, and only weight and bias may be"),
        (lambda: mg.batch_norm(X, ones(3), ones(3).astype("float32")), "float32"),
        (lambda: mg.batch_norm(X, ones(2), ones(2)), "x has 3 channels"),
        (lambda: mg.batch_norm(X, ones(3), ones(3), None, ones(3)), "weight is None, so"),
    ],
)
def test_what_cannot_be_convolved_or_pooled_is_said(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


# --- pooling ---


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_of_equal_numbers_the_first_is_the_largest_and_nan_wins(layout, device):
    def in_channels(values):
        """The same numbers in four channels."""
        return mg.tensor(np.tile(np.array(values, float), (1, 4, 1, 1)), device=device).to(layout=layout)

    x = in_channels([[1, 1, 2, 2], [1, 1, nan, nan], [-1, -inf, -inf, -inf], [-2, -3, -inf, -inf]])
    x.requires_grad = True
    y = mg.max_pool2d(x, 2)
    y.backward(in_channels([[1, 2], [3, 4]]))
    for channel in range(4):
        np.testing.assert_array_equal(y.numpy()[0, channel], [[1, nan], [-1, -inf]])
        given = [[1, 0, 0, 0], [0, 0, 0, 2], [3, 0, 4, 0], [0, 0, 0, 0]]
        assert x.grad.numpy()[0, channel].tolist() == given


def test_the_padding_is_never_the_largest_and_counts_in_a_mean_unless_told(device):
    x = mg.tensor(-np.ones((1, 1, 3, 3)), device=device)
    assert (mg.max_pool2d(x, 3, 1, 1).numpy() == -1).all()
    assert mg.avg_pool2d(x, 3, 1, 1).numpy()[0, 0, 0, 0] == -4 / 9
    assert (mg.avg_pool2d(x, 3, 1, 1, count_include_pad=False).numpy() == -1).all()


def test_a_gradient_after_the_input_has_changed_uses_what_was_saved(device):
    """The rule needs the places of the largest numbers, and not x."""
    x = mg.tensor(np.arange(4.0).reshape(1, 1, 2, 2), True, device)
    y = mg.max_pool2d(x, 2)
    with mg.no_grad():
        x.assign(-x)
    y.backward(mg.tensor(np.ones((1, 1, 1, 1)), device=device))
    assert x.grad.numpy().ravel().tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("op", "params"),
    [
        (mg.max_pool2d, {"size": 3, "stride": 2, "padding": 1}),
        (mg.max_pool2d, {"size": (6, 4)}),  # one pixel is the same in both layouts
        (mg.avg_pool2d, {"size": 2}),
        (mg.avg_pool2d, {"size": (6, 4)}),
        (mg.mean, {"axis": (2, 3)}),
    ],
)
def test_images_are_pooled_where_they_lie(op, params):
    """And so is the gradient: nothing is transposed."""
    device = DryRun()
    y, pull = op.pullback([Array.empty(device, (2, 8, 6, 4), np.dtype("float32"), True)], params)
    (dx,) = pull(Array.empty(device, y.shape, y.dtype, True))
    assert dx.channels_last and dx.shape == (2, 8, 6, 4)
    names = [launch.kernel for launch in device.launches]
    assert len(names) == 2 and (op is mg.mean or all(name.endswith("_nhwc") for name in names))
