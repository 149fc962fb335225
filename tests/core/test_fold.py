"""Batch norms folded into convolutions: the same logits, in a copy, by fewer ops."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn


def trained(net, device, shape):
    """The network after a few batches with running statistics of its own, in evaluation."""
    rng = np.random.default_rng(0)
    for p in net.parameters():
        if p.ndim == 1:  # weights and biases of batch norms
            p.detach().assign((1 + 0.3 * rng.standard_normal(p.shape)).astype(np.float32))
    for _ in range(3):
        net(images(rng, device, shape))
    return net.eval()


def images(rng, device, shape):
    return mg.tensor((2 + rng.standard_normal(shape)).astype(np.float32), device=device)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_folded_resnet_gives_the_same_logits(layout, device):
    mg.manual_seed(0)
    net = trained(nn.ResNet(10, "small", 3, (8, 16), 2, device=device).to(layout=layout), device, (8, 3, 9, 7))
    before, x = net.state_dict(), images(np.random.default_rng(1), device, (5, 3, 9, 7))
    other = nn.folded(net)
    np.testing.assert_allclose(other(x).numpy(), net(x).numpy(), atol=1e-5)
    assert not other.buffers() and not other.training
    assert other.layer2.parts[0].conv1.weight.layout == layout
    assert {name for name in other.state_dict() if "layer1.0" in name} == {
        f"layer1.0.conv{i}.{name}" for i in (1, 2) for name in ("weight", "bias")
    }
    assert all((before[name] == value).all() for name, value in net.state_dict().items()), "the model is as it was"
    twice = nn.folded(other)
    other.fc.weight.detach().assign(0 * other.fc.weight.detach())
    np.testing.assert_allclose(twice(x).numpy(), net(x).numpy(), atol=1e-5)


def test_a_sequence_is_folded_where_a_norm_follows_a_convolution(device):
    mg.manual_seed(0)
    like = {"device": device}
    net = nn.Sequential(
        nn.BatchNorm2d(2, **like), nn.Conv2d(2, 4, 3, **like), nn.BatchNorm2d(4, affine=False, **like), mg.relu,
        nn.Sequential(nn.Conv2d(4, 3, 1, bias=False, **like), nn.BatchNorm2d(3, eps=0.1, **like)),
    )  # fmt: skip
    trained(net, device, (4, 2, 6, 5))
    x, other = images(np.random.default_rng(1), device, (3, 2, 6, 5)), nn.folded(net)
    np.testing.assert_allclose(other(x).numpy(), net(x).numpy(), atol=1e-5)
    assert [type(part).__name__ for part in other.parts] == ["BatchNorm2d", "Conv2d", "Op", "Sequential"]
    assert len(other.parts[3].parts) == 1 and len(net.parts) == 5
    with pytest.raises(TypeError, match="folded takes a network"):
        nn.folded([net])


def test_a_block_takes_its_residual_and_relu_into_the_norm(kernel_device):
    """Without weight and bias the op has no place for a residual; the layer then takes two ops."""
    rng = np.random.default_rng(0)
    x, residual = (images(rng, kernel_device, (2, 4, 3, 5)) for _ in range(2))
    for affine in (True, False):
        ours, apart = (nn.BatchNorm2d(4, affine=affine, device=kernel_device) for _ in range(2))
        for args in ((x,), (x, residual)):
            y, z = ours.relu(*args), apart(x)
            z = mg.relu(z + residual if len(args) > 1 else z)
            np.testing.assert_array_equal(y.numpy(), z.numpy())
        assert (ours.running_var.numpy() == apart.running_var.numpy()).all()
        assert int(ours.num_batches_tracked.numpy()) == 2
