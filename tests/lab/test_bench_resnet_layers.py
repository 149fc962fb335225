"""Single layers of ResNet-18: correct results before any time, in every arithmetic; the times themselves need a GPU."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.lab.bench.resnet import layers
from minigrad.lab.bench.resnet.modes import MODES
from minigrad.lab.bench.timer import Timing
from minigrad.lab.check import ValueMismatch


class FakeTimer:
    """A timer that runs every contestant three times, so that all sets of inputs are used."""

    def interleaved(self, calls, repeats):
        for _ in range(3):
            for call in calls.values():
                call()
        return {name: Timing(1e-3, 1e-3, 1e-3, repeats) for name in calls}


@pytest.fixture
def stage(monkeypatch):
    monkeypatch.setattr(layers, "timer", FakeTimer)
    monkeypatch.setattr(layers, "BATCH", 2)
    return lambda make, *numbers, dtype="float32": layers.Stage(make(*numbers), dtype, get("sim"), cache=4000)


def test_each_way_of_a_convolution_is_checked_and_measured(stage):
    staged = stage(layers.convolution, 8, 8, 3, 1, 6)
    for way in staged.layer.ways:
        m = staged.measured(way, MODES["tf32"], ())
        assert m.title == f"conv 3x3 8->8 of 6x6, {way}, tf32" and m.unit == "tf32" and not m.rivals
        assert m.flops == 2 * (2 * 8 * 6 * 6) * 8 * 9 and m.nbytes == 4 * (2 * (2 * 8 * 6 * 6) + 8 * 8 * 9)
        end = {"forward": "", "gradient of x": "_backward_x", "gradient of w": "_backward_w"}[way]
        assert f"conv2d_mma_tf32{end}" in m.kernels


@pytest.mark.parametrize("make", [layers.norm_relu, layers.pool])
def test_layers_of_several_ops_are_measured_forward_and_backward(stage, make):
    staged = stage(make, 8, 6)
    assert len(staged.sets) > 1
    for way in staged.layer.ways:
        m = staged.measured(way, MODES["float32"], ())
        assert m.kernels and m.nbytes >= 4 * 2 * 8 * (36 + 9)


def test_rounding_switches_no_relu(stage):
    """Otherwise the gradients of two correct libraries would differ by a whole dy here and there."""
    staged = stage(layers.norm_relu, 8, 6)
    (y,), (dx, *_) = staged.truth("forward"), staged.truth("backward")
    on = (y > 0).all(axis=(0, 2, 3))
    assert on.tolist() == [True, False] * 4 and not y[:, ~on].any() and not dx[:, ~on].any() and dx[:, on].all()


def test_a_wrong_result_is_not_timed(stage):
    staged, mode = stage(layers.convolution, 4, 4, 1, 1, 3), MODES["tf32"]
    (truth,) = staged.truth("forward")
    for factor in (1 + mode.layer * 2, np.nan):
        with pytest.raises(
            ValueMismatch, match=r"of 3x3, forward, tf32 by torch is off by .* allows 0\.002\. It is not"
        ):
            staged.check([Array.upload(get("sim"), truth * np.float32(factor))], "forward", mode, "torch")
    staged.check([Array.upload(get("sim"), truth * np.float32(1 + mode.layer / 2))], "forward", mode, "torch")


def test_rivals_get_the_same_inputs_and_their_results_are_checked(stage, monkeypatch):
    """A rival in place of PyTorch, which runs minigrad's own ops."""
    seen = []

    def layer(links, needs, sets, mode, stream, layout):
        seen.append((len(sets), layout, stream))
        return sets[0].call(links, needs, mode)

    fake = SimpleNamespace(layer=layer, contiguous=lambda call, stream: call())
    monkeypatch.setattr(layers, "rival", lambda: fake)
    monkeypatch.setattr(layers, "pytorch", lambda: SimpleNamespace(stream="s", arrays=list))
    staged = stage(layers.pool, 4, 6)
    m = staged.measured("backward", MODES["float32"], ("torch",))
    assert list(m.rivals) == ["torch", "torch, NCHW"]
    assert seen == [(n, layout, "s") for layout in ("NHWC", "NCHW") for n in (1, len(staged.sets))]
    assert list(staged.measured("forward", replace(MODES["float32"], layouts=("NHWC",)), ("torch",)).rivals) == [
        "torch"
    ]
    fake.contiguous = lambda call, stream: [Array.upload(get("sim"), y.numpy() + 1) for y in call()]
    with pytest.raises(ValueMismatch, match="by torch is off by"):
        staged.measured("backward", MODES["float32"], ("torch",))


def test_the_layers_are_those_of_the_network():
    """Every shape of convolution that ResNet-18 has, and no other."""
    shapes = {p.shape for p in mg.nn.resnet18(device="numpy").parameters() if p.ndim == 4}
    works = layers.works()
    assert {(k, c, size, size) for c, k, size, *_ in layers.CONVOLUTIONS} == shapes - {
        (256, 128, 1, 1),
        (512, 256, 1, 1),
    }
    assert len(works) == 9 * 3 * 3 + 2 * 2 and len({layer.title(way, mode) for layer, way, mode in works}) == len(works)
    sizes = {layer.name: layer.cost("forward") for layer in layers.layers()}
    first, norm = sizes["conv 7x7 s2 3->64 of 224x224"], sizes["batch norm + relu of 64 x 112x112"]
    assert first.output == (128, 64, 112, 112) and round(first.flops / 1e9, 1) == 30.2
    assert first.nbytes // 10**6 == 488 and norm.nbytes // 10**6 == 822


def test_a_folded_batch_norm_is_no_launch():
    trained, folded = (layers.launched(layers.conv_norm_relu(fold), "forward", MODES["tf32"]) for fold in (False, True))
    norms = [name for name in trained if name.startswith("batch_norm_relu")]
    assert len(norms) == 1 and set(folded) == set(trained) - set(norms)
