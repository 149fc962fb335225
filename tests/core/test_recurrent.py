"""RNN, LSTM and GRU: the reference's numbers, gradients by central differences, training, and what they refuse."""

from functools import partial

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.ops import recurrence

CELLS = {
    "rnn": (nn.RNN, "tanh"),
    "relu": (partial(nn.RNN, nonlinearity="relu"), "relu"),
    "lstm": (nn.LSTM, "lstm"),
    "gru": (nn.GRU, "gru"),
}
RAGGED = [(hidden, batch, steps) for hidden in (1, 31, 33) for batch in (1, 3) for steps in (1, 2, 20)]
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
LENGTHS = [3, 7, 1, 5]


def tupled(state):
    return state if isinstance(state, tuple) else (state,)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def both_ways(make, device="numpy", dtype="float64", **how):
    """Two layers in both directions, with a batch of 4 that the lengths cut off at 3, 7, 1 and 5 of 7 steps."""
    mg.manual_seed(0)
    module = make(3, 5, 2, bidirectional=True, device=device, dtype=dtype, **how)
    x = mg.tensor(numbers(7, 4, 3), requires_grad=True, device=device, dtype=dtype)
    state = [
        mg.tensor(numbers(4, 4, 5, seed=1 + i), requires_grad=True, device=device, dtype=dtype)
        for i in range(module.parts)
    ]
    return module, x, state


def called(module, x, state, lengths=None):
    """The results in one tuple."""
    y, last = module(x, state[0] if module.parts == 1 else tuple(state), lengths)
    return y, *tupled(last)


def weighted(results):
    """A number in which every element of the results has a weight of its own."""
    parts = [(y * mg.tensor(numbers(*y.shape, seed=9), device=y.device, dtype=y.dtype)).sum() for y in results]
    return sum(parts[1:], parts[0])


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CELLS)
def test_it_gives_the_numbers_of_the_reference_at_ragged_sizes(name, dtype, device):
    make, kind = CELLS[name]
    mg.manual_seed(0)
    for hidden, batch, steps in RAGGED:
        module = make(4, hidden, device=device, dtype=dtype)
        x, state = numbers(steps, batch, 4).astype(dtype), [np.zeros((batch, hidden), dtype)] * module.parts
        wanted = recurrence.scan(kind, x, *module.state_dict().values(), *state)
        y, last = module(mg.tensor(x, device=device))
        for got, truth in zip((y, *tupled(last)), (wanted[0], *(s[None] for s in wanted[1:])), strict=True):
            assert (got.shape, got.dtype, got.device) == (truth.shape, dtype, device)
            np.testing.assert_allclose(got.numpy(), truth, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.sample(5)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("name", CELLS)
def test_layers_directions_lengths_and_a_state_give_the_numbers_of_the_reference(name, lengths, dtype, device):
    make, kind = CELLS[name]
    for bias in (True, False):
        module, x, state = both_ways(make, device, dtype, bias=bias)
        arrays = [x.numpy(), module.state_dict(), [s.numpy() for s in state]]
        wanted = recurrence.network(kind, *arrays, lengths)
        for got, truth in zip(called(module, x, state, lengths), wanted, strict=True):
            assert got.shape == truth.shape and got.dtype == dtype
            np.testing.assert_allclose(got.numpy(), truth, rtol=0, atol=TOLERANCE[dtype])


def test_the_reference_is_the_formula_for_one_unit():
    """Written once more with plain numbers: two steps of one unit, in a batch of one."""
    w, u, b, c, h0 = np.arange(1, 5) / 3, np.arange(4, 0, -1) / 5, np.full(4, 0.1), np.full(4, -0.3), 0.5
    x = np.array([0.7, -1.2])

    def s(a):
        return 1 / (1 + np.exp(-a))

    h, cell = h0, 0.25
    for x_t in x:
        i, f, g, o = w * x_t + b + u * h + c
        cell = s(f) * cell + s(i) * np.tanh(g)
        h = s(o) * np.tanh(cell)
    column, start = x[:, None, None], np.array([[h0]])
    found = recurrence.scan("lstm", column, w[:, None], u[:, None], b, c, start, np.array([[0.25]]))
    assert [float(part.ravel()[-1]) for part in found] == pytest.approx([h, h, cell], rel=1e-14)
    h = h0
    for x_t in x:
        gates, more = (w * x_t + b)[:3], (u * h + c)[:3]
        r, z = s(gates[0] + more[0]), s(gates[1] + more[1])
        h = (1 - z) * np.tanh(gates[2] + r * more[2]) + z * h
    found = recurrence.scan("gru", column, w[:3, None], u[:3, None], b[:3], c[:3], start)
    assert [float(part.ravel()[-1]) for part in found] == pytest.approx([h, h], rel=1e-14)
    h = h0
    for x_t in x:
        h = np.tanh(w[0] * x_t + b[0] + u[0] * h + c[0])
    found = recurrence.scan("tanh", column, w[:1, None], u[:1, None], b[:1], c[:1], start)
    assert [float(part.ravel()[-1]) for part in found] == pytest.approx([h, h], rel=1e-14)


@pytest.mark.sample(3)
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("name", CELLS)
def test_central_differences_confirm_the_gradients(name, lengths):
    module, x, state = both_ways(CELLS[name][0])
    weighted(called(module, x, state, lengths)).backward()
    for i, leaf in enumerate([x, *state, *module.parameters()]):
        direction, start, step = numbers(*leaf.shape, seed=20 + i), leaf.numpy(), 1e-5
        values = []
        with mg.no_grad():
            for sign in (1, -1):
                leaf.assign(start + sign * step * direction)
                values.append(weighted(called(module, x, state, lengths)).item())
            leaf.assign(start)
        slope = (values[0] - values[1]) / (2 * step)
        assert (leaf.grad.numpy() * direction).sum() == pytest.approx(slope, rel=1e-6, abs=1e-8), i


@pytest.mark.parametrize("name", CELLS)
def test_the_gradients_are_those_of_numpy(name, kernel_device):
    found = []
    for device in ("numpy", kernel_device):
        module, x, state = both_ways(CELLS[name][0], device)
        weighted(called(module, x, state, LENGTHS)).backward()
        found.append([leaf.grad.numpy() for leaf in (x, *state, *module.parameters())])
    for got, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", CELLS)
def test_nothing_beyond_a_length_is_read(name, device):
    """Neither the values nor the gradients know what lies there, even NaN."""
    found = []
    for beyond in (0.0, np.nan):
        module, x, state = both_ways(CELLS[name][0], device)
        outside = np.arange(7)[:, None] >= LENGTHS
        x = mg.tensor(np.where(outside[:, :, None], beyond, x.numpy()), requires_grad=True, device=device)
        results = called(module, x, state, LENGTHS)
        weighted(results).backward()
        assert not results[0].numpy()[outside].any() and not x.grad.numpy()[outside].any()
        found.append([*(y.numpy() for y in results), *(leaf.grad.numpy() for leaf in (x, *module.parameters()))])
    for got, wanted in zip(*found, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_names_and_shapes_are_pytorchs():
    shapes = {name: x.shape for name, x in nn.LSTM(3, 5, 2, bidirectional=True).named_parameters()}
    assert list(shapes)[:5] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse"]
    assert list(shapes)[-1] == "bias_hh_l1_reverse" and len(shapes) == 16
    assert [shapes[name] for name in ("weight_ih_l0", "weight_ih_l1", "weight_hh_l1_reverse")] == [
        (20, 3), (20, 10), (20, 5)
    ]  # fmt: skip
    assert [x.shape for x in nn.GRU(3, 5, bias=False).parameters()] == [(15, 3), (15, 5)]


def test_weights_start_as_pytorchs():
    mg.manual_seed(0)
    for p in nn.GRU(40, 25).parameters():
        assert 0.15 < np.abs(p.numpy()).max() <= 0.2 and abs(p.numpy().mean()) < 0.04


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", ["npz", "safetensors"])
@pytest.mark.parametrize("name", CELLS)
def test_weights_are_saved_and_loaded(name, kind, device, tmp_path):
    if kind == "safetensors":
        pytest.importorskip("safetensors")
    module, x, state = both_ways(CELLS[name][0], device)
    mg.save(tmp_path / f"weights.{kind}", module)
    mg.manual_seed(1)
    other = CELLS[name][0](3, 5, 2, bidirectional=True, device=device, dtype="float64")
    wanted = called(module, x, state)
    assert (called(other, x, state)[0].numpy() != wanted[0].numpy()).any()
    mg.load(tmp_path / f"weights.{kind}", other)
    for got, truth in zip(called(other, x, state), wanted, strict=True):
        np.testing.assert_array_equal(got.numpy(), truth.numpy())


@pytest.mark.parametrize("name", CELLS)
def test_parts_of_a_sequence_give_the_whole_and_detach_cuts_their_gradient(name, device):
    mg.manual_seed(0)
    module = CELLS[name][0](2, 4, device=device, dtype="float64")
    first, second = (mg.tensor(numbers(3, 2, 2, seed=i), requires_grad=True, device=device) for i in (0, 1))
    whole, _ = module(mg.concatenate([first, second], axis=0))
    y, state = module(first)
    linked, _ = module(second, state)
    cut = tuple(part.detach() for part in tupled(state))
    truncated, _ = module(second, cut if module.parts > 1 else cut[0])
    np.testing.assert_allclose(np.concatenate([y.numpy(), truncated.numpy()]), whole.numpy(), rtol=0, atol=1e-14)
    truncated.sum().backward()
    assert first.grad is None and second.grad is not None
    linked.sum().backward()
    assert first.grad.numpy().any()


class Sine:
    """The next value of a noisy sine, from all values so far; the last value alone leaves an error of 0.115."""

    def __init__(self, device):
        mg.manual_seed(0)
        rng, self.device = np.random.default_rng(0), device
        phases, times = rng.uniform(0, 2 * np.pi, 8), np.arange(1001)[:, None]
        self.wave = (np.sin(0.5 * times + phases) + 0.05 * rng.standard_normal((1001, 8))).astype("float32")[..., None]
        self.lstm, self.read = nn.LSTM(1, 12, device=device), nn.Linear(12, 1, device=device)
        self.parameters = [*self.lstm.parameters(), *self.read.parameters()]
        self.optimizer, self.state = mg.optim.Adam(self.parameters, lr=0.02), None

    def step(self, at):
        """Ten values by truncated backpropagation; returns the loss and the norm of the gradient."""
        x, target = (mg.tensor(self.wave[i : i + 10], device=self.device) for i in (at, at + 1))
        y, state = self.lstm(x, self.state)
        self.state = tuple(part.detach() for part in state)
        loss = ((self.read(y.reshape(80, 12)) - target.reshape(80, 1)) ** 2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        norm = mg.optim.clip_grad_norm(self.parameters, 0.5)
        self.optimizer.step()
        return loss.item(), norm.item()


@pytest.mark.soak  # notebook 14 trains it
def test_an_lstm_learns_the_next_value_of_a_noisy_sine():
    sine = Sine("numpy")
    losses, norms = zip(*(sine.step(at) for at in range(0, 1000, 10)), strict=True)
    assert max(norms) > 0.5 > min(norms), "clipping has been at work, and not in every step"
    assert np.mean(losses[:3]) > 0.3 and np.mean(losses[-10:]) < 0.03


def test_the_first_losses_are_those_of_numpy(kernel_device):
    found, wanted = ([one.step(at) for at in (0, 10, 20)] for one in map(Sine, (kernel_device, "numpy")))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_autocast_multiplies_in_bfloat16_and_keeps_the_state_in_float32(device):
    pytest.importorskip("ml_dtypes")
    lstm, x = nn.LSTM(8, 16, device=device), mg.tensor(numbers(5, 4, 8).astype("float32"), device=device)
    exact, _ = lstm(x, lengths=[5, 2, 1, 4])
    with mg.autocast():
        y, (h, c) = lstm(x, lengths=[5, 2, 1, 4])
    assert y.dtype == h.dtype == c.dtype == "float32"
    assert 0 < np.abs(y.numpy() - exact.numpy()).max() < 0.02
    y.sum().backward()
    assert all(p.grad.dtype == "float32" for p in lstm.parameters())


def test_it_says_what_it_is():
    assert repr(nn.GRU(3, 5)) == "GRU(3 -> 5)"
    assert repr(nn.LSTM(3, 5, 2, bias=False, bidirectional=True)) == "LSTM(3 -> 5, 2 layers, both directions, no bias)"


@pytest.mark.parametrize(
    "lengths, kind, message",
    [
        ([3, 7, 1], ValueError, r"lengths have shape \(3,\); x \(7, 4, 3\) needs \(4,\), one a sequence"),
        ([3, 8, 1, 5], ValueError, "a length is 8; each must be from 1 to T=7. .* pad x"),
        ([3, 7, 0, 5], ValueError, "a length is 0; each must be from 1 to T=7. Leave out empty sequences"),
        ([3, 7, 1, 2.5], TypeError, "must be 4 whole numbers, one for each sequence"),
        (7, ValueError, r"lengths have shape \(\)"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(lengths, kind, message):
    module, x, state = both_ways(nn.GRU)
    with pytest.raises(kind, match=message):
        called(module, x, state, lengths)


@pytest.mark.parametrize("lengths", [None, []])
def test_an_empty_batch_gives_an_empty_result(lengths, device):
    y, h = nn.GRU(3, 5, bidirectional=True, device=device)(mg.ones(7, 0, 3, device=device), lengths=lengths)
    assert (y.shape, h.shape) == ((7, 0, 10), (2, 0, 5))


def test_inputs_and_states_that_do_not_fit_are_refused():
    lstm, gru = nn.LSTM(3, 5, device="numpy"), nn.GRU(3, 5, device="numpy")
    x, h = mg.ones(7, 4, 3, device="numpy"), mg.ones(1, 4, 5, device="numpy")
    with pytest.raises(ValueError, match=r"LSTM: x is \(4, 3\); it must be \(T, B, 3\)\. .* x\[:, None\]"):
        lstm(x[0])
    with pytest.raises(ValueError, match=r"x is \(7, 4, 2\); it must be \(T, B, 3\)"):
        lstm(x[..., :2])
    with pytest.raises(ValueError, match="a sequence of no steps"):
        lstm(x[:0])
    with pytest.raises(TypeError, match=r"GRU takes x as a tensor \(T, B, input_size\); got ndarray"):
        gru(x.numpy())
    with pytest.raises(TypeError, match=r"LSTM takes a state \(h, c\); got Tensor"):
        lstm(x, h)
    with pytest.raises(ValueError, match=r"LSTM: the state has 1 parts; it must be \(h, c\)"):
        lstm(x, (h,))
    with pytest.raises(ValueError, match=r"LSTM: c is \(4, 5\); it must be \(1, 4, 5\): layers \* directions, B"):
        lstm(x, (h, h[0]))
    with pytest.raises(TypeError, match=r"GRU: h takes a tensor \(1, 4, 5\), as forward returns it; got tuple"):
        gru(x, (h,))


def test_weights_and_settings_that_do_not_fit_are_refused():
    gru = nn.GRU(3, 5, device="numpy")
    state = gru.state_dict()
    with pytest.raises(ValueError, match=r"weight_hh_l0 is \(5, 15\); it must be \(15, 5\)"):
        gru.load_state_dict({**state, "weight_hh_l0": state["weight_hh_l0"].T})
    with pytest.raises(KeyError, match=r"missing: bias_hh_l1, .*unexpected: none"):
        nn.GRU(3, 5, 2, device="numpy").load_state_dict(state)
    with pytest.raises(ValueError, match="GRU: hidden_size=0 must be a whole number of at least 1"):
        nn.GRU(3, 0)
    with pytest.raises(ValueError, match="LSTM: num_layers=0"):
        nn.LSTM(3, 5, 0)
    with pytest.raises(TypeError, match="LSTM: bidirectional takes True or False"):
        nn.LSTM(3, 5, bidirectional="yes")
    with pytest.raises(ValueError, match="RNN: nonlinearity='sigmoid' must be among tanh, relu"):
        nn.RNN(3, 5, nonlinearity="sigmoid")
    with pytest.raises(TypeError, match="batch_first"):
        nn.LSTM(3, 5, batch_first=True)
