"""A captured step over images: a residual block with its channels last keeps its running statistics in every replay."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.devices.array import Array


class Step:
    """A small residual network, its optimizer and a step, on one device."""

    def __init__(self, device):
        mg.manual_seed(0)
        self.net = nn.Sequential(nn.Residual(4, 8, 2, device="numpy"), nn.GlobalAvgPool2d())
        for tensor in (*self.net.parameters(), *(x for x in self.net.buffers() if x.ndim)):
            if device:
                tensor.array = Array.upload(device, tensor.array, tensor.ndim == 4)
        self.optimizer = mg.optim.SGD(self.net.parameters(), 0.1, 0.9)

    def __call__(self, x, dy):
        self.optimizer.zero_grad()
        y = self.net(x)
        y.backward(dy)
        self.optimizer.step()
        return y


def test_replays_update_running_statistics(gpu, driver):
    ours, truth, rng = Step(gpu), Step(None), np.random.default_rng(0)
    fast = mg.graph(ours)
    for _ in range(5):
        x, dy = rng.standard_normal((3, 4, 6, 5)).astype(np.float32), rng.standard_normal((3, 8)).astype(np.float32)
        y = fast(*(mg.Tensor(Array.upload(gpu, a, a.ndim == 4)) for a in (x, dy)))
        np.testing.assert_allclose(y.numpy(), truth(mg.Tensor(x), mg.Tensor(dy)).numpy(), rtol=2e-4, atol=2e-5)
    assert fast.replays == driver.calls["replay"] == 4
    wanted = dict(truth.net.named_buffers())
    for name, buffer in ours.net.named_buffers():
        if buffer.ndim:
            np.testing.assert_allclose(buffer.numpy(), wanted[name].numpy(), rtol=1e-4, err_msg=name)
            assert buffer.version.count == 5
        else:
            assert buffer.item() == wanted[name].item() == 5


def test_a_mean_over_all_batches_is_not_captured(gpu):
    layer = nn.BatchNorm2d(3, momentum=None, device="numpy")
    for tensor in (*layer.parameters(), *(x for x in layer.buffers() if x.ndim)):
        tensor.array = Array.upload(gpu, tensor.array)
    fast, x = mg.graph(layer), mg.Tensor(Array.upload(gpu, np.ones((2, 3, 4, 5), np.float32)))
    fast(x)
    with pytest.raises(RuntimeError, match=r"a replay has one weight. Give the layer a momentum"):
        fast(x)
