"""Clipping of gradients: the norm that it returns, the gradients that it leaves, and what it refuses."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.optim import clip_grad_norm


def leaves(device, *grads, dtype="float32"):
    made = [mg.zeros(len(g) if g else 1, requires_grad=True, device=device, dtype=dtype) for g in grads]
    for p, g in zip(made, grads, strict=True):
        p.grad = mg.tensor(g, device=device, dtype=dtype) if g else None
    return made


def test_gradients_are_shortened_together_and_in_place(device):
    p, q, without = leaves(device, [3.0, 0.0], [0.0, 4.0, 12.0], None)
    held = p.grad
    norm = clip_grad_norm((each for each in (p, q, without)), 6.5)
    assert norm.item() == 13 and norm.device == device and not norm.requires_grad
    np.testing.assert_allclose(p.grad.numpy(), [1.5, 0], rtol=1e-6)
    np.testing.assert_allclose(q.grad.numpy(), [0, 2, 6], rtol=1e-6)
    assert p.grad is held and without.grad is None


def test_short_gradients_stay_to_the_last_bit(device):
    (p,) = leaves(device, [0.1, 0.7])
    assert clip_grad_norm([p], 1).item() == pytest.approx(0.5**0.5)
    np.testing.assert_array_equal(p.grad.numpy(), np.array([0.1, 0.7], "float32"))


def test_gradients_in_bfloat16_are_summed_and_scaled_in_float32(device):
    """In the 8 digits of bfloat16 the sum of ones stays at 256."""
    pytest.importorskip("ml_dtypes")
    many = leaves(device, *[[1.0]] * 400, dtype="bfloat16")
    norm = clip_grad_norm(many, 5)
    assert (norm.item(), norm.dtype) == (20, "float32")
    assert {(p.grad.item(), p.grad.dtype.name) for p in many} == {(0.25, "bfloat16")}


def test_a_gradient_of_zero_and_a_largest_norm_of_zero(device):
    p, q = leaves(device, [0.0, 0.0], [3.0, 4.0])
    assert clip_grad_norm([p], 1.0).item() == 0 and not p.grad.numpy().any()
    assert clip_grad_norm([q], 0).item() == 5 and not q.grad.numpy().any()


def test_nonsense_is_refused():
    (p,) = leaves("numpy", [1.0])
    for norm in (-1, float("nan")):
        with pytest.raises(ValueError, match="clip_grad_norm: max_norm="):
            clip_grad_norm([p], norm)
    with pytest.raises(TypeError, match=r"\[w\], or model.parameters\(\)"):
        clip_grad_norm(p, 1.0)
    p.grad = None
    with pytest.raises(ValueError, match=r"call it between backward\(\) and step\(\)"):
        clip_grad_norm([p], 1.0)


def test_an_infinite_largest_norm_measures_and_changes_nothing():
    w = mg.tensor([3.0, 4.0], requires_grad=True, device="numpy")
    (w * w).sum().backward()
    assert mg.optim.clip_grad_norm([w], float("inf")).item() == 10 and w.grad.numpy().tolist() == [6, 8]
