"""Collectives against NumPy, on every number of ranks; ranks that differ are all answered by the same sentence."""

import subprocess
import sys
import time
from contextlib import nullcontext

import numpy as np
import pytest
from rank_programs import AGAINST_NUMPY, HEAD

from minigrad import distributed as dist
from minigrad.distributed import launch, world
from minigrad.errors import DeviceError, RankError

EVERY_ARRAY = """
import ml_dtypes

makers = [lambda x: x.copy("F"), lambda x: mg.tensor(x, device="sim")]
last = [lambda x, d=d: mg.tensor(x, device=d).to(layout="NHWC") for d in ("numpy", "sim")]
for shape in [(), (0,), (12, 0), (12,), (24, 5), (7, 3), (12, 3, 2, 5)]:
    for dtype in ["float32", "float64", "int32", "int64", "uint8", "bool"]:
        for make in makers + last * (len(shape) == 4):
            try_all(drawn(shape, dtype), make)
for device in ("numpy", "sim"):
    try_all(drawn((12, 5), "bfloat16"), lambda x: mg.tensor(x, device=device))
    x = dist.all_reduce(mg.tensor(np.full(3, rank, "bfloat16"), device=device), "mean")
    assert x.dtype == "bfloat16" and (x.numpy() == (size - 1) / 2).all()
    images = mg.tensor(np.ones((4, 3, 2, 2), "float32"), device=device).to(layout="NHWC")
    assert dist.all_reduce(images).layout == dist.broadcast(images).layout == "NHWC"
x = np.random.default_rng(rank).standard_normal(1000).astype("float32")
one = dist.all_gather(dist.all_reduce(x, "mean"))
assert (one == one[0]).all(), "the same to the last bit"
found = dist.all_reduce(np.where(rank == size - 1, np.nan, rank), "max")
assert np.isnan(found)
leaf = mg.tensor([1.0], requires_grad=True, device="numpy")
assert not dist.all_reduce(leaf * 2).requires_grad
dist.broadcast(x, np.int64(0) if rank else 0)  # equal arguments of several types
dist.all_reduce(x, np.str_("sum") if rank else "sum")
dist.barrier()
done = [rank, size, dist.local_rank()]
"""


@pytest.mark.sample(4)
@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [3, 1, 2, 4])
def test_collectives_give_what_numpy_gives(ranks):
    found = launch(ranks, HEAD + AGAINST_NUMPY + EVERY_ARRAY, get="done")["done"]
    assert found == [[rank, ranks, rank] for rank in range(ranks)]


DIFFERENCES = {  # calls that differ on rank 1 of 3, and the sentence on all ranks
    "dist.all_reduce(np.ones((2 + one, 3)))": (
        "ValueError: distributed: ranks 0, 2 are at all_reduce of float64 (2, 3), op='sum'; "
        "rank 1 is at all_reduce of float64 (3, 3), op='sum'. Every rank must make the same calls"
    ),
    "dist.all_reduce(mg.tensor([1.0], device='sim').astype(['float32', 'float64'][one]))": (
        "ranks 0, 2 are at all_reduce of float32 (1,), op='sum'; rank 1 is at all_reduce of float64 (1,)"
    ),
    "dist.all_reduce(np.ones(3), ['sum', 'max'][one])": "rank 1 is at all_reduce of float64 (3,), op='max'",
    "dist.broadcast(np.ones(3), rank)": "root=0; rank 1 is at broadcast of float64 (3,), root=1; rank 2 is at",
    "dist.barrier() if one else dist.all_gather(np.ones(2))": "at all_gather of float64 (2,); rank 1 is at barrier.",
    "dist.all_reduce(np.ones(3), ['sum', 'prod'][one])": "rank 1 is at an error: all_reduce: op='prod' must be among",
    "dist.all_reduce([1.0] if one else np.ones(1))": "rank 1 is at an error: all_reduce takes a tensor or a NumPy",
    "dist.all_reduce(np.ones(3, int), 'mean')": "TypeError: all_reduce cannot take the mean of int64; convert x",
    "dist.init().numbers('step', 1 + one, 0)": "step: ranks 0, 2 have calls with the checksum 00000001; rank 1 has",
    "dist.all_reduce(np.ones(3, bool))": "TypeError: all_reduce cannot take the sum of bool; convert x",
    "dist.all_reduce(np.ma.masked_less(np.ones(3), 2))": "TypeError: all_reduce would send what is under the mask, too",
    "dist.all_gather(np.ones(3, complex))": "TypeError: all_gather cannot take complex128; convert x",
    "dist.broadcast(np.ones(3), 3)": "ValueError: broadcast: root=3 is no rank; they are 0 to 2.",
    "dist.reduce_scatter(np.ones((4, 3)))": "reduce_scatter: x is (4, 3); its first axis must be a multiple of the 3 r",
    "dist.reduce_scatter(np.array(1.0))": "reduce_scatter: x is (); its first axis must be a multiple of the 3 ranks.",
}


@pytest.mark.mpi
def test_ranks_that_differ_are_all_answered_and_go_on():
    calls = "".join(f"found.append(said(lambda: {call}))\n" for call in DIFFERENCES)
    code = f"{HEAD}one, found = int(rank == 1), []\n{calls}total = int(dist.all_reduce(np.array(rank)))"
    done = launch(3, code, get=["found", "total"])
    assert done["total"] == [3, 3, 3] and done["found"][0] == done["found"][1] == done["found"][2]
    for sentence, (call, wanted) in zip(done["found"][0], DIFFERENCES.items(), strict=True):
        assert wanted in sentence, call


@pytest.mark.mpi
def test_calls_of_a_second_thread_are_refused():
    code = """
from threading import Thread
found = []
def call():
    found.append(said(lambda: dist.all_reduce(np.array(rank)).item()))
calls = [call, Thread(target=call)][:: int(sys.argv[1])]
for each in calls:
    each() if each is call else (each.start(), each.join())
"""
    refused = "RuntimeError: all_reduce of int64 (), op='sum': another thread of this rank has called the others"
    for order in ("1", "-1"):  # the main thread first, or the other
        for first, second in launch(2, f"import sys{HEAD}{code}", [order], get="found")["found"]:
            assert first == "no error: 1" and second.startswith(refused)


@pytest.mark.mpi
@pytest.mark.parametrize(
    "calls", ["for _ in range(3 - (rank == 1)): dist.all_reduce(np.ones(5))", "rank == 1 or again()"]
)
def test_a_rank_at_its_end_is_known_to_the_others_at_once(calls):
    start = time.monotonic()
    again = "\ndef again():\n    print(said(dist.barrier))\n    dist.all_reduce(np.ones(5))\n"
    with pytest.raises(RankError, match=r"rank [02] of 3 raised .*RankError: ") as caught:
        launch(3, HEAD + again + calls)
    known = "answers no more" if "again" in calls else "rank 1 is at the end of its program"
    assert known in str(caught.value)
    assert time.monotonic() - start < 15


def test_a_process_without_mpi_is_a_world_of_one():
    x = np.arange(6.0).reshape(2, 3)
    for y in (dist.all_reduce(x, "mean"), dist.broadcast(x), dist.reduce_scatter(x, "max"), dist.all_gather(x)[0]):
        assert (y == x).all() and not np.shares_memory(x, y)
    dist.barrier()
    assert (dist.rank(), dist.size(), dist.local_rank()) == (0, 1, 0)
    code = "import sys, minigrad as mg; mg.distributed.init(); assert 'mpi4py' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_where_mpi_has_started_it_mpi4py_is_needed(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(DeviceError, match=r"mpi4py cannot be imported: pip install 'minigrad-cuda\[mpi\]'"):
        world.init.__wrapped__()


def test_the_device_of_a_rank_is_its_gpu_where_there_is_one(two_gpus, monkeypatch):
    found = []
    for ranks in (2, 3):
        monkeypatch.setattr(world.init(), "local_size", ranks)
        for local_rank in range(ranks):
            monkeypatch.setattr(world.init(), "local_rank", local_rank)
            said = "3 ranks on a machine with 2 GPUs, and NCCL needs one for each: all compute on 'sim'"
            with pytest.warns(RuntimeWarning, match=said) if (ranks, local_rank) == (3, 0) else nullcontext():
                found.append(dist.device("sim"))
    assert found == ["cuda", "cuda:1", "sim", "sim", "sim"]
