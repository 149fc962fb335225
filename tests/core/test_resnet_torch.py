"""ResNet-18 and PyTorch's: the same values, gradients and losses of training, in the whole network."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

torch, torchvision = pytest.importorskip("torch"), pytest.importorskip("torchvision")
CLASSES, BATCH = 10, 4
rng = np.random.default_rng(0)
IMAGES, LABELS = rng.standard_normal((BATCH, 3, 65, 47)), rng.integers(0, CLASSES, BATCH)


def theirs(act=torch.nn.ReLU):
    """torchvision's network in float64, with this module in place of relu."""
    torch.manual_seed(0)
    net = torchvision.models.resnet18(num_classes=CLASSES).double()
    for module in net.modules():
        if hasattr(module, "relu"):
            module.relu = act()
    return net


def ours(net, device, dtype, layout):
    """The same network by minigrad."""
    mine = nn.resnet18(CLASSES, device=device, dtype=dtype)
    mine.load_state_dict({name: x.numpy() for name, x in net.state_dict().items()})
    return mine.to(layout=layout)


def step(net, x, y):
    """The loss and the gradients, by name, of PyTorch's network."""
    net.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(y))
    loss.backward()
    return loss.item(), {name: p.grad.numpy() for name, p in net.named_parameters()}


def my_step(net, x, y):
    """The loss and the gradients in the same order by minigrad."""
    for p in net.parameters():
        p.grad = None
    dtype, device = net.fc.weight.dtype, net.fc.weight.device
    loss = mg.cross_entropy(net(mg.tensor(x, dtype=dtype, device=device)), mg.tensor(y, device=device))
    loss.backward()
    return loss.item(), {name: p.grad.numpy() for name, p in net.named_parameters()}


def must_agree(found, wanted, allowed):
    """Each gradient, as a vector, is within this part of the true one."""
    assert found[0] == pytest.approx(wanted[0], rel=allowed)
    assert found[1].keys() == wanted[1].keys()
    for name, truth in wanted[1].items():
        got = found[1][name].T if name == "fc.weight" else found[1][name]
        assert np.linalg.norm(got - truth) <= allowed * np.linalg.norm(truth), name


@pytest.fixture(params=["numpy", pytest.param("cuda", marks=pytest.mark.gpu)])
def fast_device(request):
    """The simulator would take minutes."""
    return request.param


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_whole_network_in_float64(fast_device, layout):
    net = theirs()
    mine = ours(net, fast_device, "float64", layout)
    must_agree(my_step(mine, IMAGES, LABELS), step(net, IMAGES, LABELS), 1e-9)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_the_whole_network_in_float32_without_kinks(fast_device, layout, monkeypatch):
    """With relu a sum that rounds to the other side of 0 would change a gradient by more than rounding does."""

    def smooth(self, x, residual=None):
        y = self.forward(x)
        y = y if residual is None else y + residual
        return (1 + y.exp()).log()  # softplus

    monkeypatch.setattr(nn.BatchNorm2d, "relu", smooth)
    net = theirs(torch.nn.Softplus)
    mine = ours(net, fast_device, "float32", layout)
    must_agree(my_step(mine, IMAGES, LABELS), step(net, IMAGES, LABELS), 2e-5)


def test_twenty_steps_of_training(fast_device):
    net = theirs()
    mine = ours(net, fast_device, "float64", "NHWC")
    optimizers = torch.optim.SGD(net.parameters(), 0.01, 0.9), mg.optim.SGD(mine.parameters(), 0.01, 0.9)
    losses = []
    for _ in range(20):
        losses.append((step(net, IMAGES, LABELS)[0], my_step(mine, IMAGES, LABELS)[0]))
        for optimizer in optimizers:
            optimizer.step()
    wanted, found = np.transpose(losses)
    assert wanted[-1] < wanted[0] / 2
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
