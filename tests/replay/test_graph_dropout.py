"""Dropout in a captured step: every replay has a new mask, its own in both directions, from the seed as elsewhere."""

import numpy as np
from graph_steps import Network, batch, on

import minigrad as mg


class Dropping(Network):
    """Two dropouts in a step, the second of logits."""

    def loss(self, x, y):
        hidden = mg.dropout((x @ self.w1 + self.b1).relu(), 0.5)
        return mg.cross_entropy(mg.dropout(hidden @ self.w2 + self.b2, 0.25), y)


def test_replays_have_the_masks_that_numpy_has(gpu):
    ours, truth = Dropping(gpu), Dropping(None)
    fast, losses, wanted = mg.graph(ours.step), [], []
    x, y = batch(0)
    mg.manual_seed(4)
    for i in range(8):
        if i == 5:
            mg.manual_seed(9)  # a replay goes on from the new seed
        losses.append(fast(on(gpu, x), on(gpu, y)).item())
        wanted.append(truth.step(mg.Tensor(x), mg.Tensor(y)).item())
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    for p, q in zip(ours.parameters, truth.parameters, strict=True):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=2e-5, atol=1e-6)
    assert (fast.captures, fast.replays) == (1, 7)


def test_a_captured_forward_pass_differs_from_replay_to_replay(gpu):
    fast, x = mg.graph(mg.dropout), on(gpu, np.ones(100, np.float32))
    masks = [fast(x).numpy() for _ in range(5)]
    assert all((a != b).any() for i, a in enumerate(masks) for b in masks[:i])


def test_attention_drops_other_weights_in_each_replay(gpu):
    ones = np.ones((1, 2, 6, 4), np.float32)
    fast = mg.graph(lambda x: mg.attention(x, x, x, dropout=0.5))
    mg.manual_seed(7)
    found = [fast(on(gpu, ones)).numpy() for _ in range(5)]
    mg.manual_seed(7)
    x = mg.Tensor(ones)
    for y in found:
        np.testing.assert_allclose(y, mg.attention(x, x, x, dropout=0.5).numpy(), rtol=1e-5)
    assert (fast.captures, fast.replays) == (1, 4) and (found[2] != found[3]).any()
