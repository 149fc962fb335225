"""The OpenMP ladder and PyTorch's RNN, LSTM and GRU: the same numbers."""

import numpy as np
import pytest
from recurrent_runs import TOLERANCE, tupled

import minigrad as mg
from minigrad import nn
from minigrad.recurrent import OpenMP
from minigrad.recurrent.openmp import RUNGS

torch = pytest.importorskip("torch")
CELLS = [("RNN", {}), ("RNN", {"nonlinearity": "relu"}), ("LSTM", {}), ("GRU", {})]
LENGTHS = [20, 3, 1]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both ways"])
@pytest.mark.parametrize("name, how", CELLS, ids=["tanh", "relu", "lstm", "gru"])
def test_every_rung_gives_pytorchs_numbers(name, how, both, dtype):
    torch.manual_seed(0)
    other = getattr(torch.nn, name)(7, 33, 2, bidirectional=both, dtype=getattr(torch, dtype), **how)
    mine = getattr(nn, name)(7, 33, 2, bidirectional=both, dtype=dtype, **how)
    mine.load_state_dict({key: x.numpy() for key, x in other.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((20, 3, 7)).astype(dtype)
    with torch.no_grad():
        packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), LENGTHS)
        y, last = other(packed)
        wanted = [torch.nn.utils.rnn.pad_packed_sequence(y)[0], *tupled(last)]
    for rung in RUNGS:
        y, state = OpenMP(mine, rung, threads=2)(mg.tensor(x), None, LENGTHS)
        for got, truth in zip((y, *tupled(state)), wanted, strict=True):
            np.testing.assert_allclose(got.numpy(), truth.numpy(), 0, TOLERANCE[dtype], err_msg=rung)
