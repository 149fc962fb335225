"""Convolution, pooling and batch norm against torch in float64: value and gradients, in both layouts."""

import numpy as np
import pytest

import minigrad as mg

torch = pytest.importorskip("torch")
functional = torch.nn.functional
NONE, SIDES = ((0, 0), (0, 0)), ((0, 2), (1, 0))
POOLS = [((3, 2), (2, 3), 1), (3, 2, 1), (2, None, 0), ((1, 4), 1, (0, 2))]


def compared(op, theirs, hosts, device, layout, seed=0):
    """Hold y and all gradients of op(*tensors) against torch's theirs(*tensors), for a random dy."""
    mine = [mg.tensor(host, device=device).to(layout=layout if host.ndim == 4 else None).detach() for host in hosts]
    for x in mine:
        x.requires_grad = True
    others = [torch.tensor(host, requires_grad=True) for host in hosts]
    y, wanted = op(*mine), theirs(*others)
    dy = np.random.default_rng(seed).standard_normal(wanted.shape)
    y.backward(mg.tensor(dy, device=device))
    (wanted * torch.tensor(dy)).sum().backward()
    for got, true in zip((y, *(x.grad for x in mine)), (wanted.detach(), *(x.grad for x in others)), strict=True):
        np.testing.assert_allclose(got.numpy(), true.numpy(), rtol=1e-11, atol=1e-12)


def drawn(*shapes):
    rng = np.random.default_rng(sum(map(sum, shapes)))
    return [rng.standard_normal(shape) for shape in shapes]


def tied(*shape):
    """Small whole numbers, many of which are equal."""
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(float)


layouts = pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
batches = pytest.mark.parametrize("images", [2, 0])


@layouts
@batches
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 1)])
@pytest.mark.parametrize("padding", [NONE, SIDES], ids=["", "one-sided"])
@pytest.mark.parametrize(("size", "stride"), [((3, 2), (1, 1)), ((3, 2), (2, 3)), ((1, 1), (2, 3))], ids=str)
def test_conv2d(size, stride, padding, dilation, groups, images, layout, device):
    def theirs(x, w, bias):
        around = functional.pad(x, (*padding[1], *padding[0]))
        return functional.conv2d(around, w, bias, stride, 0, dilation, groups)

    hosts = drawn((images, 4, 7, 5), (6, 4 // groups, *size), (6,))
    compared(lambda *xs: mg.conv2d(*xs, stride, padding, dilation, groups), theirs, hosts, device, layout)


@layouts
@batches
@pytest.mark.parametrize("pool", POOLS, ids=str)
def test_pooling(pool, images, layout, device):
    x = [tied(images, 4, 8, 7)]
    compared(lambda x: mg.max_pool2d(x, *pool), lambda x: functional.max_pool2d(x, *pool), x, device, layout)
    for more in ((False, True), (False, False)):
        compared(
            lambda x, more=more: mg.avg_pool2d(x, *pool, *more),
            lambda x, more=more: functional.avg_pool2d(x, *pool, *more),
            x, device, layout,
        )  # fmt: skip


@layouts
@pytest.mark.parametrize("dilation", [2, (1, 3)])
def test_dilated_pooling(dilation, layout, device):
    pool = (3, (2, 1), 1, dilation)
    x = [tied(2, 4, 8, 9)]
    compared(lambda x: mg.max_pool2d(x, *pool), lambda x: functional.max_pool2d(x, *pool), x, device, layout)


@layouts
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(training, layout, device):
    x, mean, weight, bias = drawn((2, 4, 5, 7), (4,), (4,), (4,))
    ours, theirs = ([make(host.copy()) for host in (mean, mean**2 + 0.5)] for make in (
        lambda host: mg.tensor(host, device=device), torch.tensor))  # fmt: skip
    compared(
        lambda x, w, b: mg.batch_norm(x, *ours, w, b, training, 0.3, 1e-3),
        lambda x, w, b: functional.batch_norm(x, *theirs, w, b, training, 0.3, 1e-3),
        [x, weight, bias], device, layout,
    )  # fmt: skip
    for got, true in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got.numpy(), true.numpy(), rtol=1e-13)
