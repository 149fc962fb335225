"""The timeline of a training step: the layer, op and way of each launch, over a fake driver."""

from types import SimpleNamespace

import numpy as np
import pytest
from bench_examples import find_gpu, tick

import minigrad as mg
from minigrad import nn
from minigrad.lab.bench.resnet import timeline
from minigrad.op import Op
from minigrad.optim import Optimizer

METHODS = ((nn.Module, "__call__"), (Op, "__call__"), (Optimizer, "step"))
HOLDS = SimpleNamespace(hold=lambda seconds: None)
IMAGE, KERNELS = 2 * 8 * 6 * 6, 8 * 8 * 3 * 3  # elements of the images in a block, and of its kernels


class Block(nn.Module):
    """relu(conv2(relu(conv1(x))) + x)"""

    def __init__(self):
        self.conv1, self._conv2 = (nn.Conv2d(8, 8, 3, padding=1, bias=False, device="cuda") for _ in range(2))

    def forward(self, x):
        return mg.relu(self._conv2(mg.relu(self.conv1(x))) + x)


@pytest.fixture
def step(gpu, monkeypatch):
    """A step on a GPU whose clock shows a microsecond more at each event."""
    find_gpu(monkeypatch)
    tick(gpu, monkeypatch)
    first = nn.Conv2d(3, 8, 3, padding=1, bias=False, device="cuda")
    net = nn.Sequential(first, Block(), nn.GlobalAvgPool2d(), nn.Linear(8, 3, device="cuda"))
    updates, rng = mg.optim.SGD(net.parameters(), 0.1, 0.9), np.random.default_rng(0)
    x = mg.tensor(rng.standard_normal((2, 3, 6, 6)), dtype="float32", device="cuda")
    y = mg.tensor(np.array([0, 2]), device="cuda")

    def take():
        updates.zero_grad()
        mg.cross_entropy(net(x), y).backward()
        updates.step()

    return take


def test_each_launch_belongs_to_a_layer_an_op_and_a_way(gpu, step):
    plain, log = [getattr(*method) for method in METHODS], gpu.context.launched
    found = timeline.timeline(step, gpu, HOLDS, "tf32")
    assert [getattr(*method) for method in METHODS] == plain and type(gpu.context.launched) is type(log)
    assert list(found) == [
        "0, conv2d, forward", "1.conv1, conv2d, forward", "1, relu, forward", "1.conv2, conv2d, forward",
        "1, add, forward", "2, mean, forward", "3, matmul, forward", "3, add, forward", "cross_entropy, forward",
        "cross_entropy, backward", "3, add, backward", "3, matmul, backward", "2, mean, backward", "1, relu, backward",
        "1.conv2, conv2d, backward", "1.conv1, conv2d, backward", "0, conv2d, backward", "SGD, update",
    ]  # fmt: skip  # an addition hands its gradient on and launches nothing
    assert found["SGD, update"].kernels == ("sgd_steps",)
    assert "add_vectorized" in found["1.conv1, conv2d, backward"].kernels, "the two gradients of x are added behind it"
    assert found["1, relu, forward"].timing.seconds == pytest.approx(2e-6), "two in one block"
    assert all(m.timing.repeats == timeline.REPEATS and not m.timing.host for m in found.values())


def test_a_part_has_the_costs_of_its_op(gpu, step):
    found = timeline.timeline(step, gpu, HOLDS, "tf32")
    forward, backward = (found[f"1.conv2, conv2d, {way}"] for way in ("forward", "backward"))
    assert forward.flops == 2 * IMAGE * 8 * 9 and backward.flops == 2 * forward.flops
    assert forward.nbytes == 4 * (2 * IMAGE + KERNELS) and backward.nbytes == 4 * (3 * IMAGE + 2 * KERNELS)
    first = found["0, conv2d, backward"]
    assert first.flops == found["0, conv2d, forward"].flops, "the images have no gradient"
    assert {forward.unit, found["3, matmul, forward"].unit} == {"tf32"} and found["1, add, forward"].unit == "float32"
    assert found["1, relu, forward"].nbytes == 2 * 4 * 2 * IMAGE and found["1, add, forward"].nbytes == 4 * 3 * IMAGE
    assert found["1, relu, backward"].nbytes == 2 * 4 * 3 * IMAGE
    parameters = 8 * 3 * 9 + 2 * KERNELS + 8 * 3 + 3
    assert found["SGD, update"].nbytes == 5 * 4 * parameters, "p and v read and written, g read"


def test_a_step_that_fails_leaves_everything_as_it_was(gpu, step):
    plain = [getattr(*method) for method in METHODS]
    with pytest.raises(ZeroDivisionError), timeline.watched(gpu):
        step()
        _ = 1 / 0
    assert [getattr(*method) for method in METHODS] == plain
    assert not isinstance(gpu.context.launched, timeline.LaunchLog)


def test_a_step_that_was_not_queued_in_time_says_so(gpu, step, monkeypatch):
    monkeypatch.setattr(gpu, "passed", lambda event: True)
    assert all(m.timing.host for m in timeline.timeline(step, gpu, HOLDS, "tf32").values())
