"""RNN, LSTM and GRU and PyTorch's: the same names, values and gradients."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

torch = pytest.importorskip("torch")
CELLS = [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {}), ("GRU", {})]
LENGTHS = [3, 7, 1, 5]


def pairs(*shapes, device):
    """The same random numbers as tensors of both."""
    arrays = [np.random.default_rng(i).standard_normal(shape) for i, shape in enumerate(shapes)]
    mine = [mg.tensor(array, requires_grad=True, device=device) for array in arrays]
    return mine, [torch.tensor(array, requires_grad=True) for array in arrays]


def in_one(state):
    """h, or (h, c), as a list."""
    return list(state) if isinstance(state, tuple) else [state]


def theirs(module, x, state, lengths):
    """PyTorch's results for a batch that is padded behind each sequence."""
    if lengths is None:
        return module(x, state)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    y, last = module(packed, state)
    return torch.nn.utils.rnn.pad_packed_sequence(y, total_length=len(x))[0], last


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("layers, bias", [(1, True), (2, True), (2, False)])
@pytest.mark.parametrize("name, how", CELLS, ids=["RNN", "relu", "LSTM", "GRU"])
def test_values_and_gradients_are_pytorchs(name, how, layers, bias, bidirectional, lengths, device):
    how = {**how, "bias": bias, "bidirectional": bidirectional}
    torch.manual_seed(0)
    other = getattr(torch.nn, name)(3, 5, layers, dtype=torch.float64, **how)
    mine = getattr(nn, name)(3, 5, layers, device=device, dtype="float64", **how)
    assert [(key, x.shape) for key, x in mine.named_parameters()] == [
        (key, tuple(x.shape)) for key, x in other.named_parameters()
    ]
    mine.load_state_dict({key: x.numpy() for key, x in other.state_dict().items()})
    shape = (layers * (1 + bidirectional), 4, 5)
    (x, *state), (x2, *state2) = pairs((7, 4, 3), *[shape] * mine.parts, device=device)
    y, last = mine(x, tuple(state) if mine.parts > 1 else state[0], lengths)
    y2, last2 = theirs(other, x2, tuple(state2) if mine.parts > 1 else state2[0], lengths)
    results, wanted = [y, *in_one(last)], [y2, *in_one(last2)]
    upstream, upstream2 = pairs(*(r.shape for r in results), device=device)
    mg.concatenate([(r * dy).reshape(-1) for r, dy in zip(results, upstream, strict=True)], axis=0).sum().backward()
    torch.cat([(r * dy).reshape(-1) for r, dy in zip(wanted, upstream2, strict=True)]).sum().backward()
    for got, truth in zip(results, wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), truth.detach().numpy(), rtol=0, atol=1e-12)
    for got, truth in zip([x, *state, *mine.parameters()], [x2, *state2, *other.parameters()], strict=True):
        np.testing.assert_allclose(got.grad.numpy(), truth.grad.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_without_a_state_and_in_float32(name, device):
    torch.manual_seed(0)
    other, mine = getattr(torch.nn, name)(3, 33, 2), getattr(nn, name)(3, 33, 2, device=device)
    mine.load_state_dict({key: x.numpy() for key, x in other.state_dict().items()})
    values = np.random.default_rng(0).standard_normal((20, 3, 3)).astype("float32")
    y, last = mine(mg.tensor(values, device=device))
    y2, last2 = other(torch.tensor(values))
    for got, truth in zip([y, *in_one(last)], [y2, *in_one(last2)], strict=True):
        np.testing.assert_allclose(got.numpy(), truth.detach().numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("max_norm", [0.5, 1e3])
def test_clipping_is_pytorchs(max_norm, device):
    shapes = [(3, 4), (5,), (), (2, 0)]
    mine, others = pairs(*shapes, device=device)
    grads, grads2 = pairs(*shapes, device=device)
    for p, p2, g, g2 in zip(mine, others, grads, grads2, strict=True):
        p.grad, p2.grad = g.detach() * 2.0, g2.detach() * 2
    found = mg.optim.clip_grad_norm(mine, max_norm)
    wanted = torch.nn.utils.clip_grad_norm_(others, max_norm)
    assert found.shape == () and found.item() == pytest.approx(wanted.item(), rel=1e-14)
    for p, p2 in zip(mine, others, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), p2.grad.numpy(), rtol=1e-14)
