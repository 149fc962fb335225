"""Collectives and DataParallel on the device cuda: over fake GPUs, and on two real ones where they are here."""

import time
from pathlib import Path

import numpy as np
import pytest
from rank_programs import AGAINST_NUMPY, HEAD, alone

from minigrad.distributed import launch
from minigrad.errors import RankError

FAKE = f"""
import sys
sys.path.append({str(Path(__file__).parents[1])!r})
from fake_nccl import install
driver, nccl = install()
"""
REAL = pytest.param("", 2, marks=[pytest.mark.gpu, pytest.mark.gpus(2)], id="2 GPUs")
FAKES = {n: pytest.param(FAKE, n, id=f"{n} fake") for n in (1, 2, 3)}

COLLECTIVES = """
import ml_dtypes

def on_gpu(x, layout):
    x = mg.tensor(x, device=dist.device())
    assert x.device == "cuda"
    return x.to(layout=layout) if layout else x

for shape in [(), (0,), (12,), (24, 5), (7, 3), (12, 3, 2, 5)]:
    for dtype in ["float32", "float64", "int32", "int64", "uint8", "bool", "bfloat16"]:
        for layout in [None, "NHWC"][: 1 + (len(shape) == 4 and dtype[:5] == "float")]:
            try_all(drawn(shape, dtype), lambda x: on_gpu(x, layout))
x = mg.tensor(np.full((2, size), rank, "bfloat16"), device="cuda")  # NCCL's own number of this dtype
for mean in (dist.all_reduce(x, "mean"), dist.reduce_scatter(x.T, "mean")):
    assert mean.device == "cuda" and mean.dtype == x.dtype and (mean.numpy() == (size - 1) / 2).all()
x = mg.tensor([np.nan if rank == size - 1 else 1.0], device="cuda")
assert all(np.isnan(dist.all_reduce(x, op).item()) for op in ("max", "min"))
images = mg.ones(2, 3, 2, 2, device="cuda")
found = [
    said(lambda: dist.all_reduce(mg.ones(2, device="cuda", dtype="int16"), "sum").device),
    said(lambda: dist.all_reduce(mg.ones(2, device="cuda" if rank else "numpy"))),
    said(lambda: dist.broadcast(images.to(layout="NHWC") if rank else images)),
]
dist.barrier()
where = mg.ones(2).array.device.number
"""
SENTENCES = (
    "TypeError: NCCL takes no sum of int16; convert x with .astype('int32').",
    "ValueError: distributed: rank 0 is at all_reduce of float32 (2,), op='sum'; {others} all_reduce of float32 (2,) "
    "on a GPU, op='sum'. Every rank must",
    "ValueError: distributed: rank 0 is at broadcast of float32 (2, 3, 2, 2) on a GPU, root=0; {others} broadcast of "
    "float32 (2, 3, 2, 2) on a GPU, NHWC, root=0. Every rank must make the same calls",
)


@pytest.mark.mpi
@pytest.mark.parametrize("start, ranks", [FAKES[1], FAKES[3], REAL])
def test_collectives_give_what_numpy_gives(start, ranks):
    done = launch(ranks, start + HEAD + AGAINST_NUMPY + COLLECTIVES, get=["found", "where"])
    assert done["where"] == [*range(ranks)]
    others = {2: "rank 1 is at", 3: "ranks 1, 2 are at"}.get(ranks)
    for found in done["found"] if others else ():
        for said, wanted in zip(found, SENTENCES, strict=True):
            assert said.startswith(wanted.format(others=others)), said


TRAIN = """
way, device, steps = sys.argv[1], "numpy" if size == 1 else "cuda", int(sys.argv[2])
rng = np.random.default_rng(7)
inputs = rng.standard_normal((steps * 12, 6)).astype("float32")
labels = inputs[:, :4].argmax(axis=1)
mg.manual_seed(rank)  # the parameters of rank 0 are sent to the others
inner = nn.Sequential(nn.Linear(6, 16, device=device), mg.tanh, nn.Linear(16, 4, device=device))
model = dist.DataParallel(inner, bucket_mb=4e-4)  # 3 messages
optimizer = mg.optim.Adam(model.parameters(), lr=0.05)
losses, batch = [], 12 // size

def step(x, y):
    loss = mg.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return dist.all_reduce(loss.detach(), "mean")

def uneven(x, y):
    loss = dist.mean_over_ranks(mg.cross_entropy(model(x), y, reduction="none"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

def accumulating(x, y):
    optimizer.zero_grad()
    half = len(x) // 2
    with model.no_sync():
        first = mg.cross_entropy(model(x[:half]), y[:half]) / 2
        first.backward()
    second = mg.cross_entropy(model(x[half:]), y[half:]) / 2
    second.backward()
    optimizer.step()
    return dist.all_reduce((first + second).detach(), "mean")

taken = {"accumulating": accumulating, "uneven": uneven}.get(way, step)
taken = mg.graph(taken) if way != "eager" else taken
for at in range(steps):
    rows = slice(at * 12 + rank * batch, at * 12 + (rank + 1) * batch)
    if way == "uneven" and at % 4 > 1:  # of 11 or 10 rows rank 0 has as many as of 12, as on a last batch
        rows = np.array_split(np.arange(at * 12, at * 12 + 13 - at % 4), size)[rank]
    losses.append(taken(mg.tensor(inputs[rows], device=device), mg.tensor(labels[rows], device=device)).item())
model.check_parameters()
replays = getattr(taken, "replays", 0)
state = inner.state_dict()
"""


@pytest.mark.sample(8)
@pytest.mark.mpi
@pytest.mark.parametrize("start, ranks", [FAKES[3], REAL])
@pytest.mark.parametrize("way", ["eager", "graph", "accumulating", "uneven"])
def test_losses_are_those_of_one_process(way, start, ranks):
    steps = 12 if start else 50
    wanted = alone(HEAD + TRAIN, [way, str(steps)], ["losses", "state"])
    code = TRAIN + ("calls = nccl.calls[-4:]" if start else "calls = None")
    done = launch(ranks, start + HEAD + code, [way, str(steps)], get=["losses", "state", "replays", "calls"])
    assert wanted["losses"][-1] < 0.7 * wanted["losses"][0]
    for losses, state in zip(done["losses"], done["state"], strict=True):
        np.testing.assert_allclose(losses, wanted["losses"], 1e-5, 1e-6)
        for name, x in state.items():
            np.testing.assert_allclose(x, wanted["state"][name], 1e-4, 1e-6)
            assert x.tobytes() == done["state"][0][name].tobytes()
    sizes = {"eager": steps, "uneven": 3}.get(way, 1)  # the first step of each size runs as it is
    assert done["replays"] == [steps - sizes] * ranks
    if start:  # the last step's: gradients on the side stream, then the mean of the losses, which `uneven` takes first
        assert done["calls"] == [["all_reduce*"] * 3 + ["all_reduce" + "*" * (way == "uneven")]] * ranks


IMAGES = """
device, steps = "numpy" if size == 1 else "cuda", 6
like = {"device": device, "dtype": "float64"}
rng = np.random.default_rng(1)
inputs, labels = rng.standard_normal((steps, 4, 2, 4, 4)), rng.integers(0, 3, (steps, 4))
mg.manual_seed(rank)
layers = nn.Conv2d(2, 3, 3, **like), nn.BatchNorm2d(3, **like), mg.relu, nn.Flatten(), nn.Linear(12, 3, **like)
model = dist.DataParallel(dist.SyncBatchNorm2d.convert(nn.Sequential(*layers).to(layout="NHWC")))
optimizer = dist.ZeroRedundancyOptimizer(model.parameters(), mg.optim.Adam, lr=0.05)
losses, batch = [], 4 // size

def step(x, y):
    loss = dist.mean_over_ranks(mg.cross_entropy(model(x), y, reduction="none"))
    optimizer.zero_grad()
    with model.no_sync():
        loss.backward()
    optimizer.step()
    return loss

fast = mg.graph(step)
for number, (x, y) in enumerate(zip(inputs, labels, strict=True)):
    rows = np.array_split(np.arange(4 - number % 2), size)[rank]  # of 3 rows rank 0 has 2, and rank 1 has 1
    losses.append(fast(mg.tensor(x[rows], device=device), mg.tensor(y[rows], device=device)).item())
model.check_parameters()
replays = fast.replays
"""


@pytest.mark.mpi
@pytest.mark.parametrize("start, ranks", [FAKES[2], REAL])
def test_batch_norm_of_all_ranks_and_split_states_in_a_graph(start, ranks):
    wanted = alone(HEAD + IMAGES, [], ["losses"])["losses"]
    done = launch(ranks, start + HEAD + IMAGES, get=["losses", "replays"])
    for losses in done["losses"]:
        np.testing.assert_allclose(losses, wanted, 1e-12)
    assert done["replays"] == [4] * ranks


FAULTS = {  # of rank 1 in its fifth step, most of them replays, and the sentence of the job
    "an exception": ("raise ValueError('row 7')", r"rank 1 of \d raised ValueError: row 7"),
    "killed": (
        "os.kill(os.getpid(), 9)", r"rank 1 of \d was killed by SIGKILL, .*\. Then rank 0 waited at the mean of "
        r"gradients of DataParallel in mg.graph\(step\)"
    ),
    "fewer batches": (
        "sys.exit()", r"rank 0 of \d raised .*RankError: distributed: rank 0 is at the mean of gradients of "
        r"DataParallel in mg.graph\(step\); rank 1 is at the end of its program\. Every rank must make the same calls",
    ),
    "a hang": (
        "while True: time.sleep(1)",
        r"the time limit of \d+ s was reached, .*rank 0 in line \d+ of code.py, at the mean "
        r"of gradients of DataParallel in mg.graph\(step\); rank 1 in line \d+ of code.py, after the mean of gradients "
        r"of DataParallel in mg.graph\(step\)\. A"
    ),
    "a layer left out, and no graph": (
        "taken, left_out = step, True", r"rank [01] of \d raised ValueError: distributed: rank 0 is at the mean of "
        r"gradients of DataParallel in mg.graph\(step\); rank 1 is at the mean of gradients of DataParallel\. Every",
    ),
}  # fmt: skip
FAULT = """
import os, time
fault, left_out = sys.argv[1], False
inner = nn.Sequential(nn.Linear(6, 16, device="cuda"), nn.Linear(16, 4, device="cuda"))
inner = nn.Sequential(inner.parts[0], mg.tanh, inner.parts[1])
model = dist.DataParallel(inner, bucket_mb=1e-4)
optimizer = mg.optim.SGD(model.parameters(), 0.1)

def step(x):
    optimizer.zero_grad()
    loss = (model.module.parts[0](x) if left_out else model(x)).sum()
    loss.backward()
    optimizer.step()
    return loss

taken = mg.graph(step)
for number in range(8):
    if rank == 1 and number == 5:
        exec(fault)
    taken(mg.ones(5, 6, device="cuda"))
taken(mg.ones(5, 6, device="cuda")).item()
"""


@pytest.mark.mpi
@pytest.mark.parametrize("start, ranks", [FAKES[2], REAL])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_the_job_in_a_sentence(fault, start, ranks):
    statement, sentence = FAULTS[fault]
    limit, begun = 5 if start and fault == "a hang" else 20, time.monotonic()
    with pytest.raises(RankError, match=sentence):
        launch(ranks, start + HEAD + FAULT, [statement], timeout=limit)
    assert time.monotonic() - begun < limit + 5
