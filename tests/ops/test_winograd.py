"""Winograd's way of a convolution: exact in float64, how far off in float32, its gradients, and what it refuses."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import check
from minigrad.errors import UnfitKernel
from minigrad.op import Case
from minigrad.ops.window import BLOCKS

WINOGRAD = mg.conv2d.using("winograd")
CASES = [
    Case(((1, 1, 3, 3), (1, 1, 3, 3))),  # one output of a tile
    Case(((2, 3, 6, 7), (4, 3, 3, 3), (4,)), {"padding": 1}),
    Case(((3, 2, 5, 10), (5, 2, 3, 3)), {"padding": "same"}),
    Case(((1, 4, 9, 8), (6, 2, 3, 3), (6,)), {"groups": 2, "padding": ((0, 2), (3, 1))}),
    Case(((2, 6, 4, 13), (6, 1, 3, 3)), {"groups": 6, "padding": ((5, 0), (0, 4))}),  # some tiles lie in the padding
    Case(((1, 2, 1, 1), (3, 2, 3, 3)), {"padding": 1}),
    Case(((1, 33, 4, 5), (31, 33, 3, 3), (31,))),
    Case(((0, 3, 5, 7), (4, 3, 3, 3), (4,))),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients_are_those_of_the_reference(case, kernel_device):
    for dtype in ("float32", "float64"):
        check.bounds(WINOGRAD, case, kernel_device, dtype)


@pytest.mark.parametrize("BLOCK", BLOCKS[1:])
def test_every_block_is_right(BLOCK, kernel_device):
    check.bounds(mg.conv2d.using("winograd", BLOCK=BLOCK), CASES[3], kernel_device)


@pytest.mark.parametrize("wanted", range(3))
def test_a_gradient_is_the_same_without_the_others(wanted, kernel_device):
    hosts = CASES[3].arrays("float64")
    xs = [mg.tensor(x, i == wanted, kernel_device) for i, x in enumerate(hosts)]
    y = WINOGRAD(*xs, **CASES[3].params)
    dy = np.random.default_rng(0).standard_normal(y.shape)
    y.backward(mg.tensor(dy, device=kernel_device))
    exact = mg.conv2d.vjp(hosts, dy, mg.conv2d.prepare(*hosts, **CASES[3].params))
    assert [x.grad is not None for x in xs] == [i == wanted for i in range(3)]
    np.testing.assert_allclose(xs[wanted].grad.numpy(), exact[wanted], atol=1e-12)


def test_float32_loses_about_a_digit(kernel_device):
    """3e-6 of the largest output, where the sum itself is off by 6e-7."""
    rng = np.random.default_rng(0)
    hosts = [rng.standard_normal(shape) for shape in ((1, 64, 14, 14), (16, 64, 3, 3))]
    exact = mg.conv2d(*(mg.tensor(x, device="numpy") for x in hosts)).numpy()

    def error(rung):
        inputs = (mg.tensor(x, dtype="float32", device=kernel_device) for x in hosts)
        return np.abs(mg.conv2d.using(rung)(*inputs).numpy() - exact).max() / np.abs(exact).max()

    assert error("naive") < 1e-6 < error("winograd") < 1e-5


@pytest.mark.parametrize(
    ("size", "params", "message"),
    [
        ((3, 2), {}, r"window is 3 x 2 with stride \(1, 1\)"),
        ((3, 3), {"stride": (1, 2)}, r"3 x 3 with stride \(1, 2\) and dilation \(1, 1\)"),
        ((3, 3), {"dilation": 2}, r"dilation \(2, 2\); this way is for windows of 3 x 3 with stride 1"),
    ],
)
def test_other_windows_are_rejected(size, params, message, kernel_device):
    x, w = mg.ones(1, 1, 7, 7, device=kernel_device), mg.ones(1, 1, *size, device=kernel_device)
    with pytest.raises(UnfitKernel, match=message):
        WINOGRAD(x, w, **params)
    backward = mg.conv2d.with_kernels(mg.conv2d.kernels, {"backward_x": "winograd_backward_x"})
    y, pull = backward.pullback([x.array, w.array], params)
    with pytest.raises(UnfitKernel, match=message):
        pull(y)


def test_the_products_take_a_quarter_of_the_multiplications():
    x, w = mg.randn(1, 8, 8, 8, device="sim"), mg.randn(4, 8, 3, 3, device="sim")
    u = mg.inspect(mg.conv2d["forward_winograd_w"], x, w, padding=1).outputs["u"]
    v = mg.inspect(mg.conv2d["winograd"], x, w, padding=1).outputs["v"]
    assert 4 * mg.matmul.cost(u, v)[0] == mg.conv2d.cost(x, w, padding=1)[0]
    assert mg.inspect(mg.conv2d["forward_winograd_y"], x, w, padding=1).outputs["y"].shape == (1, 4, 8, 8)
