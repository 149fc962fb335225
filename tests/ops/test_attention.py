"""attention: what a query sees, what hidden keys cannot do, and what is refused."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.ops import attention


def made(*shapes, seed=0, device="numpy", grad=False):
    rng = np.random.default_rng(seed)
    return [mg.tensor(rng.standard_normal(shape), grad, device) for shape in shapes]


def test_equal_keys_give_the_mean_of_the_values(device):
    q, v = made((1, 2, 3, 5), (1, 2, 7, 5), device=device)
    k = mg.tensor(np.ones((1, 2, 7, 5)), device=device)
    mean = v.numpy().mean(2, keepdims=True)
    np.testing.assert_allclose(mg.attention(q, k, v).numpy(), np.broadcast_to(mean, q.shape), atol=1e-12)


def test_the_order_of_keys_does_not_matter(device):
    q, k, v = made((1, 2, 3, 5), (1, 2, 40, 5), (1, 2, 40, 5), device=device)
    turned = [mg.tensor(x.numpy()[:, :, ::-1].copy(), device=device) for x in (k, v)]
    np.testing.assert_allclose(mg.attention(q, *turned).numpy(), mg.attention(q, k, v).numpy(), atol=1e-12)


@pytest.mark.parametrize("queries, keys", [(4, 4), (2, 5), (5, 2)])
def test_a_causal_query_sees_as_far_as_its_place_from_the_end(queries, keys, device):
    """The last query sees all keys; with more queries than keys the first ones see none."""
    q, k, v = made((1, 1, queries, 3), (1, 1, keys, 3), (1, 1, keys, 3), device=device)
    y = mg.attention(q, k, v, causal=True).numpy()[0, 0]
    for i in range(queries):
        seen = max(0, i + 1 + keys - queries)
        few = [mg.tensor(x.numpy()[:, :, :seen], device=device) for x in (k, v)]
        wanted = mg.attention(mg.tensor(q.numpy()[:, :, i : i + 1], device=device), *few).numpy()[0, 0, 0]
        np.testing.assert_allclose(y[i], wanted if seen else 0, atol=1e-12)


def test_a_query_that_sees_no_key_gives_0_and_gets_no_gradient(device):
    q, k, v = made((1, 1, 2, 4), (1, 1, 3, 4), (1, 1, 3, 4), device=device, grad=True)
    mask = mg.tensor(np.array([[False] * 3, [True, True, False]]), device=device)
    y = mg.attention(q, k, v, mask)
    y.backward(mg.tensor(np.ones(y.shape), device=device))
    assert (y.numpy()[0, 0, 0] == 0).all() and (q.grad.numpy()[0, 0, 0] == 0).all()
    assert (k.grad.numpy()[0, 0, 2] == 0).all() and (v.grad.numpy()[0, 0, 2] == 0).all()
    assert np.abs(q.grad.numpy()[0, 0, 1]).min() > 0


@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_what_is_hidden_cannot_leak(strange, device):
    """A hidden key and value may be NaN: neither the output nor a gradient of others is."""
    q, k, v = made((1, 2, 3, 5), (1, 2, 4, 5), (1, 2, 4, 5), device=device, grad=True)
    spoiled = [mg.tensor(np.where(np.arange(4)[:, None] == 2, strange, x.numpy()), True, device) for x in (k, v)]
    mask, dy = mg.tensor(np.arange(4) != 2, device=device), made((1, 2, 3, 5), seed=1, device=device)[0]
    results = []
    for keys, values in ((k, v), spoiled):
        q.grad = None
        y = mg.attention(q, keys, values, mask)
        y.backward(dy)
        results.append([x.numpy() for x in (y, q.grad, keys.grad, values.grad)])
    for clean, found in zip(*results, strict=True):
        np.testing.assert_array_equal(found, clean)


def test_what_is_seen_shows(device):
    q, k, v = made((1, 1, 2, 3), (1, 1, 3, 3), (1, 1, 3, 3), device=device)
    spoiled = mg.tensor(np.where(np.arange(3)[:, None] == 2, np.nan, v.numpy()), device=device)
    y = mg.attention(q, k, spoiled, mg.tensor(np.array([[True, True, False], [True] * 3]), device=device)).numpy()
    assert np.isfinite(y[0, 0, 0]).all() and np.isnan(y[0, 0, 1]).all()


def test_large_scores_do_not_overflow(device):
    q, k, v = (mg.tensor(x.numpy() * 1e4, device=device) for x in made((1, 1, 3, 8), (1, 1, 40, 8), (1, 1, 40, 8)))
    y = mg.attention(q, k, v).numpy()[0, 0]
    best = (q.numpy() @ k.numpy().swapaxes(-1, -2))[0, 0].argmax(-1)
    np.testing.assert_allclose(y, v.numpy()[0, 0, best], rtol=1e-9)


def test_refusals():
    q, k = made((1, 4, 3, 5), (1, 4, 6, 5))
    with pytest.raises(ValueError, match=r"q is \(4, 3, 5\).*each must be \(batch, heads, length, width\)"):
        mg.attention(q[0], k, k)
    with pytest.raises(ValueError, match="k and v must have one shape, and the batch and the width of q"):
        mg.attention(q, k, k[:, :, :5])
    with pytest.raises(ValueError, match="q has 4 heads, k 3; the first must be a multiple of these"):
        mg.attention(q, k[:, :3], k[:, :3])
    with pytest.raises(TypeError, match="mask is float64; it must be bool, True where a query sees a key"):
        mg.attention(q, k, k, mg.tensor(np.ones((3, 6)), device="numpy"))
    with pytest.raises(
        ValueError, match=r"mask \(6, 3\) does not broadcast to \(batch, heads, queries, keys\) \(1, 4, 3"
    ):
        mg.attention(q, k, k, mg.tensor(np.ones((6, 3), bool), device="numpy"))
    with pytest.raises(ValueError, match="width 257 is more than the 256 that a kernel takes"):
        mg.attention(*(mg.zeros(1, 1, 2, 257, device="sim") for _ in range(3)))


def test_keys_without_a_query_get_a_gradient_of_0(device):
    q, k, v = made((2, 0, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4), device=device, grad=True)
    mg.attention(q, k, v).backward(mg.tensor(np.ones((2, 0, 3, 4)), device=device))
    assert q.grad.shape == q.shape and all((x.grad.numpy() == 0).all() for x in (k, v))


def test_without_a_mask_there_may_be_more_scores_than_an_array_has_elements():
    q = Array.empty(get("sim"), (1, 1, 2**16, 1), np.dtype(np.float32))
    assert attention.extents(q, q, None, False, None)[1:] == (1.0, 1, 1, 2**16, 2**16, 1, 0)
