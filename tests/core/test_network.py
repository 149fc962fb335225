"""Network parts, optimizers and data: what they compute, and the digits learned alike on every device."""

import copy
import pickle

import numpy as np
import pytest
from network_steps import mlp, train

import minigrad as mg

DEVICES = [name for name in mg.devices() if name != "numpy"]


def sgd(parameters):
    return mg.optim.SGD(parameters, lr=0.2, momentum=0.9)


@pytest.mark.soak  # notebook 09 trains the same on both
def test_digits_reach_97_percent_with_the_same_losses_on_every_device():
    losses, accuracy = train("numpy", 15, sgd)
    assert accuracy >= 0.97
    for device in DEVICES:
        others, accuracy = train(device, 15, sgd)
        assert accuracy >= 0.97
        np.testing.assert_allclose(others, losses, atol=1e-4)


def test_a_layer_used_twice_is_one_layer():
    layer = mg.nn.Linear(2, 2)
    model = mg.nn.Sequential(layer, layer)
    assert [id(p) for p in model.parameters()] == [id(layer.weight), id(layer.bias)]
    model(mg.ones(1, 2)).sum().backward()
    mg.optim.SGD(model.parameters(), lr=0.1).step()
    model.load_state_dict(model.state_dict())
    assert list(model.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_parameters_have_names_and_can_be_saved_and_loaded():
    model, other = mlp("numpy"), mg.nn.Sequential(mg.nn.Linear(64, 128), mg.relu, mg.nn.Linear(128, 10))
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    other.load_state_dict(model.state_dict())
    for mine, yours in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), yours.numpy())
    with pytest.raises(KeyError, match=r"2\.weight"):
        mg.nn.Sequential(mg.nn.Linear(64, 64)).load_state_dict(model.state_dict())


def test_a_module_of_ones_own_finds_parameters_in_its_attributes():
    class Scaled(mg.nn.Module):
        def __init__(self):
            self.scale = mg.ones(3, requires_grad=True)
            self.inner = mg.nn.Linear(3, 2)
            self.constant = mg.ones(3)

        def forward(self, x):
            return self.inner(x * self.scale + self.constant)

    model = Scaled()
    model(mg.ones(4, 3)).sum().backward()
    assert [name for name, _ in model.named_parameters()] == ["scale", "inner.weight", "inner.bias"]
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("device", DEVICES)
def test_a_model_moves_and_its_optimizer_follows(device):
    model = mlp("numpy")
    optimizer = mg.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for where in ("numpy", device, "numpy"):
        model.to(where)
        model(mg.ones(2, 64, device=where)).sum().backward()
        optimizer.step()
        assert {p.device for p in model.parameters()} == {where}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: mg.nn.Linear(0, 3), "Linear: inputs=0 must be a whole number of at least 1"),
        (lambda p: mg.nn.Linear(3, 1.5), "Linear: outputs=1.5 must be a whole number"),
        (lambda p: mg.nn.Linear(3, 3, "sim"), "Linear: bias takes True or False; got str 'sim'"),
        (lambda p: mg.nn.Sequential(1), "Sequential takes modules and functions of a tensor; got int 1"),
        (lambda p: mg.optim.SGD([p]), "SGD takes a learning rate: lr=0.1, for example."),
        (lambda p: mg.tensor([1, 2], requires_grad=True), "not int64: write 1.0."),
        (lambda p: mg.optim.SGD([p], lr="a"), "SGD: lr='a' must be a number of at least 0"),
        (lambda p: mg.optim.SGD([p], 0.1, momentum=-1), "SGD: momentum=-1 must be a number of at least 0"),
        (lambda p: mg.optim.Adam([p], betas=(1.0, 2.0)), r"Adam: betas\[0\]=1.0 must be a number from 0 to below 1"),
        (lambda p: mg.optim.Adam([p], betas=(0.9,)), r"betas=\(0.9,\) must be two numbers"),
        (lambda p: mg.optim.Adam([p], eps=float("nan")), "Adam: eps=nan must be a number of at least 0"),
        (lambda p: list(mg.data.batches([[1.0]], [1], size=1.5)), "batches: size=1.5 must be a whole number"),
        (lambda p: list(mg.data.batches([[1.0]], [1], seed=-1)), "batches: seed=-1 must be a whole number"),
        (lambda p: mg.data.digits(test="a"), "digits: test='a' must be a whole number"),
        (lambda p: mg.nn.accuracy(None, [1]), "accuracy takes logits as a tensor; got NoneType None"),
    ],
)
def test_arguments_of_the_wrong_kind(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(mg.ones(2, requires_grad=True))


def test_a_state_that_does_not_fit_changes_nothing():
    model = mg.nn.Sequential(mg.nn.Linear(2, 3), mg.nn.Linear(3, 1))
    before, other = model.state_dict(), {name: value + 1 for name, value in model.state_dict().items()}
    for wrong, message in (
        (np.ones(2), r"1\.bias is \(2,\); it must be \(1,\)"),
        ("a", "cannot make numbers of str"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            model.load_state_dict(other | {"1.bias": wrong})
        for name, value in model.state_dict().items():
            np.testing.assert_array_equal(value, before[name])
    with pytest.raises(TypeError, match="load_state_dict takes what state_dict"):
        model.load_state_dict(None)


def test_accuracy_wants_one_label_for_each_row():
    with pytest.raises(ValueError, match=r"logits \(4, 3\) and labels \(1,\)"):
        mg.nn.accuracy(mg.ones(4, 3), [0])
    with pytest.raises(ValueError, match=r"accuracy: label 5 in row 1 is not a class; 2 classes are 0 to 1"):
        mg.nn.accuracy(mg.ones(2, 2), [0, 5])
    with pytest.raises(ValueError, match="the logits of 1 rows hold NaN, row 1 first"):
        mg.nn.accuracy(mg.tensor([[1.0, 0.0], [float("nan"), 1.0]]), [0, 0])


def test_a_model_can_be_copied_and_pickled(device):
    model = mg.nn.Sequential(mg.nn.Linear(2, 1, device=device), mg.relu)
    for other in (copy.deepcopy(model.parts[0]), pickle.loads(pickle.dumps(model.parts[0]))):
        assert other.weight.requires_grad and other.weight.device == device
        with mg.no_grad():
            other.weight.assign(np.zeros((2, 1), "float32"))
        assert model.parts[0].weight.numpy().any(), "the copy has memory of its own"
    with pytest.raises(RuntimeError, match=r"was computed, and a tape is not copied. Use \.detach\(\)"):
        copy.deepcopy(model(mg.ones(1, 2, device=device)))


def test_numpy_scalars_are_numbers(kernel_device):
    assert (mg.ones(2, device=kernel_device) + np.float64(1)).numpy().tolist() == [2, 2]


def test_sizes_of_a_launch_are_whole_numbers():
    for wrong in (-1, 1.5, "a"):
        with pytest.raises(ValueError, match="must be a whole number of at least 0"):
            mg.matmul["tiled"].launch(wrong, 2, 3)
    with pytest.raises(ValueError, match=r"grid=1\.5 must be"):
        mg.relu["forward"](grid=1.5, block=16)
