"""Random C++ with structs: the adjoint reads it as the compiler does, and its gradients agree with differences.

Each kernel runs once on points beside each other, so its own results are the reference, compiled from the same text.
"""

from collections import Counter

import numpy as np
import pytest
from adjoint_random_structs import Structs

import minigrad as mg
from minigrad.adjoint import NotDifferentiable

THREADS, MOVES = 8, (0, 1, -1, 2, -2)
WHOLE = np.array([1, 2, 3, 4, 2, 1, 4, 3], np.int32)


def on_sim(*args):
    return [mg.tensor(a, device="sim") if isinstance(a, np.ndarray) else a for a in args]


def differences(kernel, x, h, rtol):
    """y, its derivatives (threads, 3) to the order of h^4, and where those of two steps agree: no jump is near."""
    moved = [x, *(x + move * h * axis for axis in np.eye(3) for move in MOVES[1:])]
    n = len(moved) * THREADS
    args = on_sim(np.concatenate(moved).ravel(), np.ones(n), np.tile(WHOLE, len(moved)), np.zeros(n), n)
    kernel(*args, grid=len(moved), block=THREADS)
    y = args[3].numpy().reshape(-1, THREADS)
    up, down, far_up, far_down = y[1:].reshape(3, 4, THREADS).transpose(1, 2, 0)
    near, far = (up - down) / (2 * h), (far_up - far_down) / (4 * h)
    size = 1 + np.abs(near).max(axis=1, keepdims=True) + np.abs(y[0])[:, None]
    return y[0], (4 * near - far) / 3, np.abs(near - far) < 3 * rtol * size, size


def check(seed):
    """Compare values and gradients of a kernel; why it was rejected, or an empty text."""
    writer = Structs(seed)
    kernel = mg.kernel(writer.kernel(), "f")
    x = np.random.default_rng(seed).uniform(0.4, 1.4, (THREADS, 3))
    h, rtol = (1e-2, 3e-4) if writer.single else (1e-4, 1e-7)  # a float moves by steps of 1e-7
    y, wanted, smooth, size = differences(kernel, x, h, rtol)
    if not np.abs(y).max() < 1e5:
        return ""  # it overflows
    try:
        made = mg.adjoint(kernel, wrt=["x", "scale"])
    except NotDifferentiable as error:
        assert "f.cu:" in str(error)
        return str(error).split(" ", 1)[1]
    args = on_sim(x.ravel(), np.ones(THREADS), WHOLE, np.zeros(THREADS), THREADS)
    found, value = made.vjp(*args, dy=on_sim(np.ones(THREADS)), grid=1, block=THREADS)
    np.testing.assert_allclose(value.numpy(), y, rtol=1e-6, atol=1e-6, err_msg="the adjoint's reading and the kernel")
    wrong = smooth & (np.abs(found.numpy().reshape(-1, 3) - wanted) > rtol * size)
    assert not wrong.any(), np.argwhere(wrong)
    return ""


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(72))
def test_as_people_write_it(seed):
    check(seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 1400, 50))
def test_few_are_rejected(first):
    """At most one in ten; the reasons are told."""
    reasons = Counter(why for why in map(check, range(first, first + 50)) if why)
    assert reasons.total() <= 5, reasons.most_common()
