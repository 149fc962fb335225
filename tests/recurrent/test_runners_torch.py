"""The runners and PyTorch's RNN, LSTM and GRU: the same numbers."""

from pathlib import Path

import numpy as np
import pytest
from recurrent_runs import TOLERANCE, tupled

import minigrad as mg
from minigrad import nn
from minigrad.distributed import launch
from minigrad.recurrent import CUDA, MPI, OpenMP, cuda, mpi, openmp

torch = pytest.importorskip("torch")
CELLS = {"tanh": ("RNN", {}), "relu": ("RNN", {"nonlinearity": "relu"}), "lstm": ("LSTM", {}), "gru": ("GRU", {})}
LENGTHS = [20, 3, 1]


def pair(cell, both, dtype, device="numpy"):
    """A module with PyTorch's weights, x, and PyTorch's y and last state."""
    torch.manual_seed(0)
    name, how = CELLS[cell]
    other = getattr(torch.nn, name)(7, 34, 2, bidirectional=both, dtype=getattr(torch, dtype), **how)
    mine = getattr(nn, name)(7, 34, 2, bidirectional=both, dtype=dtype, device=device, **how)
    mine.load_state_dict({key: x.numpy() for key, x in other.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((20, 3, 7)).astype(dtype)
    with torch.no_grad():
        packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), LENGTHS)
        y, last = other(packed)
    wanted = [torch.nn.utils.rnn.pad_packed_sequence(y)[0], *tupled(last)]
    return mine, mg.tensor(x, device=device), [part.numpy() for part in wanted]


def compare(runner, x, wanted, dtype, name):
    y, state = runner(x, None, LENGTHS)
    for got, truth in zip((y, *tupled(state)), wanted, strict=True):
        np.testing.assert_allclose(got.numpy(), truth, 0, TOLERANCE[dtype], err_msg=name)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("both", [False, True], ids=["forward", "both ways"])
@pytest.mark.parametrize("cell", CELLS)
def test_every_rung_of_openmp_gives_pytorchs_numbers(cell, both, dtype):
    mine, x, wanted = pair(cell, both, dtype)
    for rung in openmp.RUNGS:
        compare(OpenMP(mine, rung, threads=2), x, wanted, dtype, rung)


@pytest.mark.parametrize("cell", CELLS)
def test_every_rung_of_cuda_gives_pytorchs_numbers(cell):
    mine, x, wanted = pair(cell, False, "float32", "sim")
    for rung in cuda.RUNGS:
        compare(CUDA(mine, rung), x, wanted, "float32", rung)


def check_splits(comm):
    """Each split of MPI on a rank of this job."""
    for cell in ("lstm", "gru"):
        mine, x, wanted = pair(cell, False, "float64")
        for split in mpi.SPLITS:
            compare(MPI(mine, comm, split), x, wanted, "float64", split)


@pytest.mark.mpi
def test_every_split_of_mpi_gives_pytorchs_numbers():
    code = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), str(Path(__file__).parents[1])]!r}
from mpi4py import MPI
from test_runners_torch import check_splits
check_splits(MPI.COMM_WORLD)
done = True
"""
    assert launch(2, code, get="done")["done"] == [True] * 2
