"""The timeline of a training step: the layer, op and way of each launch, over a fake driver."""

from types import SimpleNamespace

import pytest
from bench_examples import find_gpu, make_tiny

from minigrad.lab.bench.resnet import network, timeline
from minigrad.lab.bench.resnet.modes import MODES
from minigrad.nn import Module
from minigrad.op import Op
from minigrad.optim import Optimizer

METHODS = ((Module, "__call__"), (Op, "__call__"), (Optimizer, "step"))
HOLDS = SimpleNamespace(hold=lambda seconds: None)


@pytest.fixture
def step(gpu, monkeypatch):
    """A step on a GPU whose clock shows a microsecond more at each event."""
    make_tiny(monkeypatch)
    find_gpu(monkeypatch)
    clock = iter(range(10**6))
    for name, method in {
        "mark": lambda: next(clock), "passed": lambda event: False, "between": lambda a, b: (b - a) * 1e-6,
    }.items():  # fmt: skip
        monkeypatch.setattr(gpu, name, method, raising=False)
    return network.training(network.task(2), MODES["float32"], "cuda")


def test_each_launch_belongs_to_a_layer_an_op_and_a_way(gpu, step):
    plain, log = [getattr(*method) for method in METHODS], gpu.context.launched
    found = timeline.timeline(step, gpu, HOLDS, "tf32")
    assert [getattr(*method) for method in METHODS] == plain and type(gpu.context.launched) is type(log)
    assert [title for title in found if "conv2d" in title] == [
        *(f"{layer}, conv2d, forward" for layer in ("conv1", "layer1.0.conv1", "layer1.0.conv2")),
        *(f"{layer}, conv2d, backward" for layer in ("layer1.0.conv2", "layer1.0.conv1", "conv1")),
    ]
    assert {"layer1.0, relu, forward", "relu, backward", "fc, matmul, backward", "cross_entropy, forward"} < set(found)
    assert list(found)[-1] == "SGD, update" and found["SGD, update"].kernels == ("sgd_steps",)
    assert "layer1.0, add, backward" not in found, "it hands its gradient on and launches nothing"
    assert found["layer1.0, relu, forward"].timing.seconds == pytest.approx(2e-6), "two in one block"
    assert all(m.timing.repeats == timeline.REPEATS and not m.timing.host for m in found.values())


def test_a_part_has_the_costs_of_its_op(gpu, step):
    found = timeline.timeline(step, gpu, HOLDS, "tf32")
    forward, backward = (found[f"layer1.0.conv2, conv2d, {way}"] for way in ("forward", "backward"))
    image, kernels = 2 * 8 * 8 * 8, 8 * 8 * 3 * 3
    assert forward.flops == 2 * image * 8 * 9 and backward.flops == 2 * forward.flops
    assert forward.nbytes == 4 * (2 * image + kernels) and backward.nbytes == 4 * (3 * image + 2 * kernels)
    first = found["conv1, conv2d, backward"]
    assert first.flops == found["conv1, conv2d, forward"].flops, "the images have no gradient"
    assert {forward.unit, found["fc, matmul, forward"].unit} == {"tf32"} and first.kernels[-1] == "conv2d_backward_w"
    assert found["relu, forward"].unit == "float32" and found["relu, forward"].nbytes == 8 * image
    assert found["relu, backward"].nbytes == 12 * image


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
