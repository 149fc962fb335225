"""Functions to fuse, and a comparison of the fused function with the ops one by one."""

import numpy as np

import minigrad as mg

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}  # of the largest element


def chain(x):
    return ((x * x + 1).log() * x.exp()).sum()


def squashed(x, w, b, scale=0.5):
    chosen = mg.where(x > w, (x - w) * b, w - x)  # no jump at x = w
    return (chosen.sigmoid() * scale + mg.maximum(w, 2 * b) ** 2).mean(axis=-1)


def mixed(x, y):
    return x.tanh() * y + (x - y) / (1 + y * y)


def results(fn, hosts, device, dtype):
    """The value and the gradients, from the same upstream gradient."""
    xs = [mg.tensor(np.asarray(h, dtype), requires_grad=True, device=device) for h in hosts]
    y = fn(*xs)
    y.backward(mg.tensor(np.cos(np.arange(y.size, dtype=dtype)).reshape(y.shape), device=device))
    return [y.numpy(), *(None if x.grad is None else x.grad.numpy() for x in xs)]


def same(fn, hosts, device, dtype, fused=None):
    """Fused and op by op agree."""
    for mine, theirs in zip(
        results(fused or mg.fuse(fn), hosts, device, dtype), results(fn, hosts, device, dtype), strict=True
    ):
        if mine is None or theirs is None:  # an input that only a condition reads
            assert mine is None or not mine.any()
            continue
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        size = np.abs(theirs[np.isfinite(theirs)]).max(initial=1)
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * size)


def of_macros(closing, names):
    product = " + ".join(f"{name} * {name}" for name in names)
    return mg.fuse(eval(f"lambda {', '.join(names)}: ({product}){closing}"))
