"""The runner MPI on 1 to 4 ranks: each split gives every rank the module's numbers, or says why it cannot."""

from pathlib import Path

import pytest

from minigrad.distributed import launch
from minigrad.errors import RankError

pytestmark = pytest.mark.mpi
HEAD = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from functools import partial
from itertools import product
import numpy as np
from mpi4py import MPI
import minigrad as mg
from minigrad import nn, recurrent
from recurrent_runs import MAKERS, TOLERANCE, compare, indexed, tupled

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
mg.manual_seed(0)
"""

SPLITS = """
def check(split, module, batch, steps, lengths=None, **how):
    runner = recurrent.MPI(module, comm, split, **how)

    def same(*arguments):
        y, state = runner(*arguments)
        bits = b"".join(part.numpy().tobytes() for part in (y, *tupled(state)))
        assert comm.allgather(bits) == [bits] * ranks
        return y, state

    compare(same, module, batch, steps, lengths, start=lengths is None)

for at, (kind, dtype) in indexed(MAKERS, TOLERANCE):
    if (sum(at) + ranks) % 2:
        continue  # with one rank more
    for split, both in product(("batch", "hidden", "shared"), (False, True)):
        module = MAKERS[kind](7, 12, 2, bidirectional=both, bias=both, dtype=dtype)
        check(split, module, 5, 4, [3, 4, 1, 4, 2])
    module = MAKERS[kind](3, 5, 4, dtype=dtype)
    check("layers", module, 5, 7, [3, 7, 1, 5, 7], chunk=2)

for hidden, batch, steps in ((12, 1, 1), (36, 3, 2), (12, 1, 100), (516, 2, 2)):
    for split in ("batch", "hidden", "shared"):
        check(split, nn.LSTM(7, hidden), batch, steps)
for hidden in (1, 31, 33, 513):
    check("batch", nn.GRU(7, hidden), 2, 3)
    check("layers", nn.GRU(7, hidden, 5), 1, 3)
check("batch", nn.LSTM(3, 4), 0, 3)

class Inner(recurrent.NumPy):
    calls = 0

    def scan(self, *arguments):
        Inner.calls += 1
        return super().scan(*arguments)

check("layers", nn.GRU(3, 4, 4), 2, 7, inner=Inner, chunk=4)
assert Inner.calls == 2 * ((4 * (rank + 1)) // ranks - 4 * rank // ranks)  # two chunks through its layers
mg.manual_seed(0)  # the pipeline hands on sequences that have ended to a runner of its own
for rung in ("packed", "units", "wavefront"):
    inner = partial(recurrent.OpenMP, rung=rung, threads=1)
    check("layers", nn.LSTM(3, 4, 4), 3, 7, [2, 7, 3], inner=inner, chunk=2)
done = True
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("ranks", [2, 1, 3, 4])
def test_every_split_gives_the_module_s_numbers_and_every_rank_the_same(ranks):
    assert launch(ranks, HEAD + SPLITS, get="done")["done"] == [True] * ranks


REFUSED = """
def said(*arguments, **options):
    try:
        recurrent.MPI(*arguments, comm, **options)
    except (TypeError, ValueError) as error:
        return str(error)
    return "nothing"

sizes = said(nn.RNN(3, 10), split="hidden"), said(nn.RNN(3, 2), split="shared")
layers = said(nn.RNN(3, 4, 2), split="layers"), said(nn.RNN(3, 4, 3, bidirectional=True), split="layers")
words = said(nn.RNN(3, 4), split="rows"), said(nn.RNN(3, 4), chunk=0), said(nn.Linear(3, 4))
device = said(nn.RNN(3, 4, device="sim"))
mg.manual_seed(1)
network = said(nn.LSTM(3, 4 + (rank == 2)))
mg.manual_seed(1)
module = nn.LSTM(3, 4)
if rank == 1:
    module.weight_hh_l0 = mg.zeros((16, 5))
shape = said(module)
mg.manual_seed(2 if rank == 2 else 1)
numbers = said(nn.LSTM(3, 4))
mg.manual_seed(1)
runner = recurrent.MPI(nn.LSTM(3, 4), comm)
try:
    runner(mg.zeros((2 + (rank == 1), 4, 3)))
except ValueError as error:
    call = str(error)
"""


def test_a_split_that_does_not_fit_and_ranks_that_differ_are_told_in_a_sentence():
    names = ["sizes", "layers", "words", "device", "network", "shape", "numbers", "call"]
    found = launch(3, HEAD + REFUSED, get=names)
    assert all(found[name] == [found[name][0]] * 3 for name in names), "every rank says the same"
    assert found["sizes"][0] == (
        "MPI: 10 hidden units are 3.3 for each of 3 ranks. Take 1 or 2 or 5 or 10 ranks, or 9 or 12 units.",
        "MPI: 2 hidden units are 0.7 for each of 3 ranks. Take 1 or 2 ranks, or 3 units.",
    )
    assert found["layers"][0][0] == "MPI: 2 layers cannot be split over 3 ranks; take 2 ranks."
    assert 'split="layers" runs in one direction' in found["layers"][0][1]
    assert "split='rows' must be among batch, hidden, shared, layers" in found["words"][0][0]
    assert "chunk=0 must be a whole number" in found["words"][0][1]
    assert "MPI takes an nn.RNN, nn.LSTM or nn.GRU" in found["words"][0][2]
    assert "the network is on 'sim'; move it: module.to('numpy')" in found["device"][0]
    assert found["network"][0].startswith("MPI: the network is LSTM(3 -> 5) of lstm on rank 2 and LSTM(3 -> 4) of lstm")
    assert found["shape"][0].startswith("MPI: weight_hh_l0 is (16, 5) float32 with checksum")
    assert "weight_ih_l0 is (16, 3) float32 with checksum" in found["numbers"][0] and "on rank 2" in found["numbers"][0]
    assert found["call"][0].startswith("MPI: the shape of x is (3, 4, 3) on rank 1 and (2, 4, 3) on rank 0.")


@pytest.mark.parametrize("split", ["hidden", "shared"])
def test_a_rank_that_fails_while_the_others_gather_ends_the_job(split):
    code = """
runner = recurrent.MPI(nn.LSTM(3, 6), comm, sys.argv[1])
if rank == 1:
    def step(*arguments):
        raise FloatingPointError("planted")
    runner.step = step
runner(mg.zeros((4, 2, 3)))
"""
    with pytest.raises(RankError, match=r"rank 1 of 3 raised FloatingPointError: planted"):
        launch(3, HEAD + code, [split])
