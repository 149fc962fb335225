"""attention with dropout: weights that are dropped at random, the same ones on the way back, and others each time."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

SIZE = 2, 2, 9, 11


def weights(device, count=1, p=0.5, **how):
    """The weights of some calls, (batch, heads, queries, keys): values of 1 at one place each bring them out."""
    zeros, one = np.zeros(SIZE), np.broadcast_to(np.eye(11), (2, 2, 11, 11)).copy()
    given = [mg.tensor(x, device=device) for x in (zeros, np.zeros((2, 2, 11, 11)), one)]
    return [mg.attention(*given, dropout=p, **how).numpy() for _ in range(count)]


def test_a_weight_is_dropped_or_grows_and_others_at_each_call(device):
    mg.manual_seed(3)
    found = weights(device, 3)
    mg.manual_seed(3)
    for mine, same in zip(found, weights("numpy", 3), strict=True):
        np.testing.assert_allclose(mine, same, rtol=1e-12)
        dropped = mine == 0
        np.testing.assert_allclose(mine[~dropped], 2 / 11)
        assert 0.4 < dropped.mean() < 0.6
    assert all((a != b).any() for i, a in enumerate(found) for b in found[:i])
    assert {(a[0, 0] == b).all() for a in found for b in (a[0, 1], a[1, 0])} == {False}


def test_the_ends_of_p(device):
    (plain,), (none,) = weights(device, p=0), weights(device, p=1.0)
    np.testing.assert_allclose(plain, 1 / 11)
    assert (none == 0).all()


def test_the_gradient_has_the_mask_of_its_own_call(device):
    rng, grads = np.random.default_rng(0), []
    q, k, v = (mg.tensor(rng.standard_normal((1, 2, 5, 4)), True, device) for _ in range(3))
    mg.manual_seed(1)
    ys = [mg.attention(q, k, v, causal=True, dropout=0.4) for _ in range(2)]
    for y in ys[::-1]:
        for x in (q, k, v):
            x.grad = None
        y.backward(mg.tensor(np.ones(y.shape), device=device))
        grads.append([x.grad.numpy() for x in (q, k, v)])
        # y is linear in v, so its slope along v is y itself, with this mask and no other
        np.testing.assert_allclose((grads[-1][2] * v.numpy()).sum(), y.numpy().sum(), rtol=1e-10)
    assert np.abs(grads[0][2] - grads[1][2]).max() > 1e-3


def test_the_layer_drops_in_training_alone(device):
    mg.manual_seed(0)
    layer = nn.MultiHeadAttention(8, 2, causal=True, dropout=0.5, device=device)
    x = mg.tensor(np.random.default_rng(0).standard_normal((2, 6, 8)).astype(np.float32), device=device)
    first, second = layer(x).numpy(), layer(x).numpy()
    assert (first != second).any() and (first == 0).any()
    layer.eval()
    exact = nn.MultiHeadAttention(8, 2, causal=True, device=device)
    exact.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(layer(x).numpy(), exact(x).numpy())


def test_refusals(device):
    x = mg.ones(1, 1, 2, 4, device=device)
    with pytest.raises(ValueError, match=r"attention: dropout=1\.5 must be a number from 0"):
        mg.attention(x, x, x, dropout=1.5)
    with pytest.raises(TypeError, match=r"attention_dropout: the state is float32 \(1, 1, 2, 4\); it must be uint64"):
        mg.attention_dropout(x, x, x, x)
