"""Optimizers: their formulas, their numbers, and what they reject."""

import numpy as np
import pytest

import minigrad as mg


@pytest.mark.parametrize("decay", [0.0, 0.25])
@pytest.mark.parametrize("device", mg.devices())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_optimizers_take_the_steps_of_their_formulas(device, dtype, decay):
    start, gradients = np.array([1.0, -2.0, 3.0], dtype), np.array([[0.5, -1.0, 0.0], [0.25, 2.0, 1e-3]], dtype)
    p, v = start.copy(), np.zeros(3, dtype)
    q, m, s = start.copy(), np.zeros(3, dtype), np.zeros(3, dtype)
    r, m_r, s_r = start.copy(), np.zeros(3, dtype), np.zeros(3, dtype)
    stepped, adapted, apart = (mg.tensor(start, requires_grad=True, device=device) for _ in range(3))
    like = {"lr": 0.1, "weight_decay": decay}
    optimizers = [mg.optim.SGD([stepped], momentum=0.9, **like), mg.optim.Adam([adapted], **like)]
    optimizers.append(mg.optim.AdamW([apart], **like))
    for t, g in enumerate(gradients, 1):
        v = 0.9 * v + g + decay * p
        p = p - 0.1 * v
        slope = g + decay * q
        m, s = 0.9 * m + 0.1 * slope, 0.999 * s + 0.001 * slope * slope
        q = q - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
        m_r, s_r = 0.9 * m_r + 0.1 * g, 0.999 * s_r + 0.001 * g * g
        r = r * (1 - 0.1 * decay) - 0.1 * (m_r / (1 - 0.9**t)) / (np.sqrt(s_r / (1 - 0.999**t)) + 1e-8)
        for x in (stepped, adapted, apart):
            x.grad = mg.tensor(g, device=device)
        for optimizer in optimizers:
            optimizer.step()
    rtol = {"float32": 5e-7, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(stepped.numpy(), p, rtol=rtol)
    np.testing.assert_allclose(adapted.numpy(), q, rtol=rtol)
    np.testing.assert_allclose(apart.numpy(), r, rtol=rtol)


@pytest.mark.parametrize("device", mg.devices())
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_many_parameters_of_any_size_and_dtype_step_as_on_numpy(name, device):
    """More than a launch takes, some empty, some longer than a block, of two dtypes, some without a gradient."""
    sizes, rng = [3, 0, 256, 257, 1, 1025, 31, 2, 513, 5, 7, 600, 8, 9, 10, 11, 12, 13, 14], np.random.default_rng(0)
    starts = [rng.standard_normal(n).astype("float64" if i % 3 == 1 else "float32") for i, n in enumerate(sizes)]
    grads = [rng.standard_normal(n).astype(x.dtype) for n, x in zip(sizes, starts, strict=True)]
    tolerance = {"float32": {"rtol": 1e-6, "atol": 1e-7}, "float64": {"rtol": 1e-13}}
    stepped = {}
    for place in ("numpy", device):
        xs = [mg.tensor(x, requires_grad=True, device=place) for x in starts]
        optimizer = getattr(mg.optim, name)(xs, lr=0.1)
        for step in range(2):
            for i, (x, g) in enumerate(zip(xs, grads, strict=True)):
                x.grad = mg.tensor(g, device=place) if i % 5 or step else None
            optimizer.step()
        stepped[place] = [x.numpy() for x in xs]
    for i, (got, wanted) in enumerate(zip(stepped[device], stepped["numpy"], strict=True)):
        np.testing.assert_allclose(got, wanted, **tolerance[wanted.dtype.name])
        assert got.size == 0 or np.abs(got - starts[i]).min() > 0


@pytest.mark.parametrize("device", mg.devices())
def test_adam_counts_the_steps_of_each_parameter(device):
    often, late = (mg.ones(1, requires_grad=True, device=device) for _ in range(2))
    optimizer = mg.optim.Adam([often, late], lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        (often * often).sum().backward()
        optimizer.step()
    (late * 1.0).sum().backward()
    optimizer.step()
    np.testing.assert_allclose(late.numpy(), [0.9], rtol=1e-6)  # a first step is as long as lr


def test_an_optimizer_refuses_nonsense():
    with pytest.raises(ValueError, match="no parameters"):
        mg.optim.SGD([], lr=0.1)
    with pytest.raises(ValueError, match="lr=nan"):
        mg.optim.Adam([mg.ones(1, requires_grad=True)], lr=float("nan"))


def test_an_optimizer_says_what_it_does():
    w, b = (mg.ones(2, requires_grad=True, device="numpy") for _ in range(2))
    said = "SGD of 2 parameters: lr=0.1, momentum=0.9, weight_decay=0.0"
    assert repr(mg.optim.SGD([w, b], lr=0.1, momentum=0.9)) == said
    said = "Adam of 1 parameter: lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.0"
    assert repr(mg.optim.Adam([w])) == said


def test_optimizers_refuse_what_cannot_train():
    p = mg.ones(3, requires_grad=True)
    for wrong in (p, [p * 2], [mg.ones(3)], [3]):
        with pytest.raises(TypeError, match=r"model\.parameters\(\)"):
            mg.optim.SGD(wrong, lr=0.1)
    with pytest.raises(ValueError, match="twice"):
        mg.optim.SGD([p, p], lr=0.1)


def test_numpy_numbers_are_numbers_to_an_optimizer():
    assert mg.optim.SGD([mg.ones(1, requires_grad=True)], lr=np.float32(0.5), momentum=np.float16(0.25)).lr == 0.5


def test_an_optimizer_that_is_not_made_yet_has_no_settings():
    assert not hasattr(mg.optim.SGD.__new__(mg.optim.SGD), "lr")


@pytest.mark.parametrize(
    ("make", "name", "value", "message"),
    [
        (mg.optim.SGD, "lr", np.array([0.1, 0.2]), r"SGD: lr=array\(\[0.1, 0.2\]\) must be a number of at least 0"),
        (mg.optim.SGD, "lr", np.nan, "SGD: lr=nan must be a number of at least 0"),
        (mg.optim.SGD, "momentum", "0.9", "SGD: momentum='0.9' must be a number"),
        (mg.optim.SGD, "weight_decay", -1, "SGD: weight_decay=-1 must be a number of at least 0"),
        (mg.optim.Adam, "eps", -1e-8, "Adam: eps=-1e-08 must be a number of at least 0"),
        (mg.optim.Adam, "betas", (0.9, 1.0), r"Adam: betas\[1\]=1.0 must be a number from 0 to below 1"),
        (mg.optim.Adam, "betas", (0.9,), r"Adam: betas=\(0.9,\) must be two numbers"),
    ],
)
def test_a_number_of_an_optimizer_that_is_set_later_is_checked_as_well(device, make, name, value, message):
    w = mg.ones(2, requires_grad=True, device=device)
    optimizer = make([w], lr=0.5)
    before = optimizer.settings
    with pytest.raises((TypeError, ValueError), match=message):
        setattr(optimizer, name, value)
    assert optimizer.settings == before
    optimizer.lr = np.float32(0.25)
    w.grad = mg.ones(2, device=device)
    optimizer.step()
    assert type(optimizer.lr) is float and w.numpy().tolist() == pytest.approx([0.75, 0.75])
