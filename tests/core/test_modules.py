"""Modules: buffers beside parameters, and the switch between training and evaluation."""

import pytest

import minigrad as mg
from minigrad import nn


class Scale(nn.Module):
    """Divides by a running maximum, which it updates in training and saves beside its parameters."""

    def __init__(self):
        self.weight = mg.ones(1, requires_grad=True)
        self.register_buffer("largest", mg.zeros(1))

    def forward(self, x):
        if self.training:
            self.largest.assign(mg.maximum(self.largest, x.detach().max().reshape(1)))
        return x / self.largest * self.weight


def test_buffers_are_saved_and_moved_and_are_no_parameters(kernel_device):
    net = nn.Sequential(Scale(), nn.Linear(2, 1))
    assert [name for name, _ in net.named_buffers()] == ["0.largest"] and len(net.parameters()) == 3
    net(mg.tensor([[1.0, 4.0]]))
    assert net.state_dict()["0.largest"].tolist() == [4] and list(net.state_dict())[-1] == "0.largest"
    other = nn.Sequential(Scale(), nn.Linear(2, 1)).to(kernel_device)
    other.load_state_dict(net.state_dict())
    assert {x.device for x in (*other.buffers(), *other.parameters())} == {kernel_device}
    assert other.buffers()[0].numpy().tolist() == [4]
    with pytest.raises(KeyError, match=r"missing: 0\.largest; unexpected: none"):
        net.load_state_dict({name: x for name, x in net.state_dict().items() if name != "0.largest"})
    with pytest.raises(TypeError, match=r"self\.w = "):
        net.register_buffer("w", mg.ones(1, requires_grad=True))


def test_evaluation_mode_reaches_every_module_and_freezes_buffers():
    net = nn.Sequential(nn.Sequential(Scale()), Scale()).eval()
    assert not any(m.training for m in (net, *net.parts, net.parts[0].parts[0]))
    net.train()
    net(mg.tensor([8.0]))
    net.eval()
    net(mg.tensor([16.0]))
    assert net.state_dict()["0.0.largest"].tolist() == [8]
    with pytest.raises(TypeError, match="train: mode takes True or False"):
        net.train("no")


def test_buffers_of_a_sequential_are_saved_and_one_that_is_gone_is_not():
    net = nn.Sequential(nn.Linear(1, 1))
    net.register_buffer("mean", mg.zeros(1))
    assert list(net.state_dict()) == ["0.weight", "0.bias", "mean"]
    net.mean = None
    assert list(net.state_dict()) == ["0.weight", "0.bias"]
    assert [name for name, _ in net.named_parameters("net.")] == ["net.0.weight", "net.0.bias"]


def test_a_module_is_written_as_the_tree_of_its_parts():
    block = nn.Residual(1, 2)
    text = repr(nn.Sequential(block, mg.relu, nn.Flatten()))
    assert text.splitlines()[:3] == [
        "Sequential(",
        "  0: Residual(",
        "    conv1: Conv2d(1 -> 2, 3 x 3, padding=1, no bias)",
    ]
    assert text.splitlines()[-4:] == ["  )", "  1: relu", "  2: Flatten()", ")"]
    assert repr(nn.Sequential()) == "Sequential()"
