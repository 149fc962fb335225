"""A runner and the module that it runs, compared on the same numbers."""

from functools import partial
from itertools import product

import numpy as np

import minigrad as mg
from minigrad import nn

MAKERS = {"tanh": nn.RNN, "relu": partial(nn.RNN, nonlinearity="relu"), "lstm": nn.LSTM, "gru": nn.GRU}
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def indexed(*choices):
    """The elements of a product, each with its indices; of their sums, every second one is like a chessboard."""
    for chosen in product(*map(enumerate, choices)):
        yield [i for i, _ in chosen], [choice for _, choice in chosen]


def tupled(state):
    return state if isinstance(state, tuple) else (state,)


def compare(runner, module, batch, steps, lengths=None, start=True):
    """The runner and the module on the same numbers: y and the last state."""
    rng = np.random.default_rng(1)
    at = {"device": next(iter(module.parameters())).device, "dtype": next(iter(module.parameters())).dtype}
    x = mg.tensor(rng.standard_normal((steps, batch, module.input_size)), **at)
    shape = (module.num_layers * len(module.directions), batch, module.hidden_size)
    parts = tuple(mg.tensor(rng.standard_normal(shape), **at) for _ in range(module.parts)) if start else None
    state = parts if parts is None or module.parts > 1 else parts[0]
    with mg.no_grad():
        wanted, last = module(x, state, lengths)
    found, end = runner(x, state, lengths)
    tolerance = TOLERANCE[str(x.dtype)]
    for a, b in zip((found, *tupled(end)), (wanted, *tupled(last)), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype and not a.requires_grad
        np.testing.assert_allclose(a.numpy(), b.numpy(), tolerance, tolerance)
