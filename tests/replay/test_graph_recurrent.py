"""A captured step of a recurrent network: its state goes in and comes out, and its gradients are clipped."""

import numpy as np
from graph_steps import on

import minigrad as mg
from minigrad import nn


class Steps:
    """Truncated backpropagation through a sequence, in parts of 4 steps."""

    def __init__(self, gpu):
        self.gpu, rng = gpu, np.random.default_rng(0)
        self.gru = nn.GRU(2, 3, 2, device="numpy")
        for name, p in self.gru.named_parameters():
            start = rng.standard_normal(p.shape).astype(np.float32)
            setattr(self.gru, name, on(gpu, start, True) if gpu else mg.Tensor(start, True))
        self.parameters = self.gru.parameters()
        self.optimizer = mg.optim.SGD(self.parameters, 0.1)

    def step(self, x, h):
        self.optimizer.zero_grad()
        y, h = self.gru(x, h)
        (y * y).mean().backward()
        norm = mg.optim.clip_grad_norm(self.parameters, 0.01)
        self.optimizer.step()
        return h, norm


def test_replays_take_the_steps_of_numpy(gpu):
    ours, truth = Steps(gpu), Steps(None)
    fast, rng, zero = mg.graph(ours.step), np.random.default_rng(1), np.zeros((2, 3, 3), np.float32)
    h, h2 = on(gpu, zero), mg.Tensor(zero)
    for _ in range(5):
        x = rng.standard_normal((4, 3, 2)).astype(np.float32)
        (h, norm), (h2, norm2) = fast(on(gpu, x), h), truth.step(mg.Tensor(x), h2.detach())
        np.testing.assert_allclose(h.numpy(), h2.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(norm.numpy(), norm2.numpy(), rtol=1e-5)
        h = h.detach()
    assert fast.replays == 4 and norm.item() > 0.01
    for p, q in zip(ours.parameters, truth.parameters, strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_a_state_that_starts_as_zero_is_made_where_the_step_runs(gpu):
    ours, x = Steps(gpu), np.random.default_rng(1).standard_normal((4, 3, 2)).astype(np.float32)
    fast = mg.graph(lambda x: ours.gru(x)[0].detach())
    results = [fast(on(gpu, x)).numpy() for _ in range(3)]
    np.testing.assert_array_equal(results[2], results[0])
    assert fast.replays == 2 and np.abs(results[0]).max() > 0.1
