"""Modules: buffers beside parameters, and the switch between training and evaluation."""

import copy

import numpy as np
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


def test_a_frozen_parameter_stays_in_the_state_and_moves_with_its_module(tmp_path):
    """requires_grad=False keeps it from optimizers; a plain tensor that never required a gradient is no parameter."""
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    model.parts[0].constant = mg.ones(3)
    names = list(model.state_dict())
    model.parts[0].weight.requires_grad = False
    assert list(model.state_dict()) == names
    assert [name for name, _ in model.named_parameters()] == [n for n in names if n != "0.weight"]
    optimizer = mg.optim.SGD(model.parameters(), lr=0.1)
    before = model.parts[0].weight.numpy()
    model(mg.ones((4, 3))).sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(model.parts[0].weight.numpy(), before)
    model.parts[0].bias.requires_grad = False
    model.zero_grad()
    assert model.parts[0].bias.grad is None  # or the optimizer, which was made before, would step it
    model.parts[0].bias.requires_grad = True
    mg.save(tmp_path / "net.npz", model)
    other = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    mg.load(tmp_path / "net.npz", other)
    np.testing.assert_array_equal(other.parts[0].weight.numpy(), before)
    model.to("sim")
    assert {x.device for _, x in model.named_parameters(frozen=True)} == {"sim"}
    twin = copy.deepcopy(model)
    assert list(twin.state_dict()) == names and twin.parts[0].weight.frozen
    twin.parts[0].weight.requires_grad = True
    assert len(twin.parameters()) == 4 and not twin.parts[0].weight.frozen


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: nn.Conv2d(3, 4, 3, stride=0), ValueError, "Conv2d: stride=0"),
        (lambda: nn.Conv2d(3, 4, 3, dilation=0), ValueError, "Conv2d: dilation=0"),
        (lambda: nn.MaxPool2d(0), ValueError, "MaxPool2d: size=0"),
        (lambda: nn.MaxPool2d(2, stride=0), ValueError, "MaxPool2d: stride=0"),
        (lambda: nn.AvgPool2d(2, stride=(1, 0)), ValueError, r"AvgPool2d: stride=\(1, 0\)"),
        (lambda: nn.LSTM(2, 3, batch_first=True), TypeError, "LSTM takes no batch_first, but num_layers, bias"),
    ],
)
def test_a_layer_refuses_what_none_of_its_calls_could_use(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_module_below_may_have_a_train_of_its_own():
    class Frozen(nn.BatchNorm2d):
        def train(self, mode=True):
            return super().train(False)

    model = nn.Sequential(nn.Linear(2, 2), Frozen(2)).train()
    assert model.training and model.parts[0].training and not model.parts[1].training
