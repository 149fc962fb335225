"""The runners: each gives the module's numbers, in every cell, layer and direction, for any lengths."""

from functools import partial

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn
from minigrad.recurrent import NumPy, OpenMP
from minigrad.recurrent.openmp import RUNGS

MAKERS = {"tanh": nn.RNN, "relu": partial(nn.RNN, nonlinearity="relu"), "lstm": nn.LSTM, "gru": nn.GRU}
RUNNERS = {"NumPy": NumPy} | {f"OpenMP {rung}": partial(OpenMP, rung=rung, threads=2) for rung in RUNGS}
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
RAGGED = [(1, 1, 1), (31, 3, 2), (33, 1, 20), (513, 3, 2)]  # hidden, batch, steps


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


@pytest.fixture(params=RUNNERS)
def runner(request):
    return RUNNERS[request.param]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", MAKERS)
def test_ragged_sizes(runner, kind, dtype):
    mg.manual_seed(0)
    for hidden, batch, steps in RAGGED:
        module = MAKERS[kind](7, hidden, dtype=dtype)
        compare(runner(module), module, batch, steps)


@pytest.mark.parametrize("lengths", [None, [3, 7, 1, 5]], ids=["whole", "cut off"])
@pytest.mark.parametrize("kind", MAKERS)
def test_layers_both_directions_and_lengths(runner, kind, lengths):
    mg.manual_seed(0)
    module = MAKERS[kind](3, 17, 2, bidirectional=True, dtype="float64")
    compare(runner(module), module, 4, 7, lengths)
    module = MAKERS[kind](3, 17, 3, bias=False, dtype="float64")
    compare(runner(module), module, 4, 7, lengths, start=False)


def test_refusals_are_the_module_s(runner):
    run = runner(nn.LSTM(3, 4))
    with pytest.raises(ValueError, match=r"x is \(5, 2, 4\); it must be \(T, B, 3\)"):
        run(mg.zeros((5, 2, 4)))
    with pytest.raises(ValueError, match="a length is 9"):
        run(mg.zeros((5, 1, 3)), lengths=[9])
    with pytest.raises(TypeError, match=r"takes an nn\.RNN, nn\.LSTM or nn\.GRU"):
        runner(nn.Linear(3, 4))
