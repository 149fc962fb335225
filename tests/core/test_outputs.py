"""Ops with several outputs: a tuple of tensors, whose gradients reach one rule as a tuple."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.op import Op
from minigrad.source import Source

TEXT = """#include "common.cuh"
extern "C" __global__ void sincos_forward(const real* x, real* s, real* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { s[i] = sin(x[i]); c[i] = cos(x[i]); }
}
extern "C" __global__ void sincos_backward(const real* ds, const real* dc, const real* s, const real* c, real* dx, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { dx[i] = ds[i] * c[i] - dc[i] * s[i]; }
}
"""  # noqa: E501


def forward(x):
    """s, c = sin(x), cos(x)"""
    return np.sin(x), np.cos(x)


def backward(dy, y0, y1):
    """dx = ds * c - dc * s"""
    ds, dc = dy
    return (ds * y1 - dc * y0,)


def launch(kernels, x):
    s, c = (Array.empty(x.device, x.shape, x.dtype) for _ in range(2))
    kernels["forward"].launch(x.size)(x, s, c, x.size)
    return s, c


def launch_backward(kernels, needs, dy, s, c):
    dx = Array.empty(s.device, s.shape, s.dtype)
    kernels["backward"].launch(s.size)(*dy, s, c, dx, s.size)
    return (dx,)


def kernel(name):
    return Kernel(Source(TEXT, "sincos.cu"), name, ("n/32",), ("32",), "n")


@pytest.fixture
def sincos():
    kernels = {"forward": kernel("sincos_forward"), "backward": kernel("sincos_backward")}
    return Op(
        "sincos", forward, backward, kernels=kernels, launch=launch, launch_backward=launch_backward, outputs=2,
        listed=False,
    )  # fmt: skip


def test_outputs_are_a_tuple_and_their_gradients_meet_in_one_rule(sincos, device):
    x = mg.tensor([0.0, 0.5, 1.0], requires_grad=True, device=device)
    s, c = sincos(x)
    np.testing.assert_allclose(s.numpy(), np.sin([0, 0.5, 1]), rtol=1e-6)
    assert s.node.parents[0] is c.node.parents[0] and not s.is_leaf
    (s * 2 + c * s).sum().backward()
    at = np.array([0, 0.5, 1])
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos(at) + np.cos(2 * at), rtol=1e-5, atol=1e-6)


def test_an_output_without_a_gradient_counts_as_zeros(sincos, device):
    x = mg.tensor([0.0, 0.5, 1.0], requires_grad=True, device=device)
    _, c = sincos(x)
    c.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), -np.sin([0, 0.5, 1]), rtol=1e-5, atol=1e-7)


def test_a_changed_output_is_noticed_and_the_graph_is_freed(sincos, device):
    x = mg.tensor([1.0], requires_grad=True, device=device)
    s, c = sincos(x)
    with mg.no_grad():
        c.assign(c * 2)
    with pytest.raises(RuntimeError, match="sincos kept y1 at version 0"):
        s.backward()
    s, c = sincos(x)
    s.backward()
    with pytest.raises(RuntimeError, match="freed by an earlier backward"):
        c.backward()


def test_without_a_gradient_nothing_is_recorded(sincos, device):
    assert all(y.node is None for y in sincos(mg.tensor([1.0], device=device)))


def test_launches_of_several_outputs_are_replayed(sincos, repeating):
    x = mg.Tensor(Array.upload(repeating, np.array([0.5, 1.0], np.float32)), True)
    for i in range(3):
        prepared = repeating.prepared
        x.grad = None
        s, c = sincos(x)
        (s + c).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.cos(x.numpy()) - np.sin(x.numpy()), rtol=1e-5)
        assert repeating.prepared == prepared or i == 0
