"""DataParallel: the losses of one process on any number of ranks, and parameters that are equal to the last bit."""

import copy
import gc
import re
import time

import numpy as np
import pytest
from rank_programs import HEAD, alone

import minigrad as mg
from minigrad import distributed as dist
from minigrad import tape
from minigrad.distributed import launch
from minigrad.errors import RankError

TRAIN = """
device, dtype, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(7)
inputs = rng.standard_normal((60, 6)).astype(dtype)
labels = inputs[:, :4].argmax(axis=1)
mg.manual_seed(rank)  # the parameters of rank 0 are sent to the others
own = {"device": device, "dtype": dtype}
model = dist.DataParallel(nn.Sequential(nn.Linear(6, 16, **own), mg.tanh, nn.Linear(16, 4, **own)), bucket_mb=5e-4)
optimizer = mg.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
losses, batch, step = [], 12 // size, 0
while step < steps:
    rows = dist.shard(60, 3, epoch=step // 5)
    for at in range(0, len(rows), batch):
        x = mg.tensor(inputs[rows[at : at + batch]], device=device)
        y = mg.tensor(labels[rows[at : at + batch]], device=device)
        loss = mg.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(dist.all_reduce(loss.detach(), "mean").item())
        step += 1
model.check_parameters()
state = model.module.state_dict()
"""


@pytest.mark.sample(2)
@pytest.mark.mpi
@pytest.mark.parametrize("device, dtype, steps, all_ranks, tolerance", [
    ("numpy", "float32", 50, (2, 4), 1e-5), ("numpy", "float64", 50, (2, 3, 4), 1e-12),
    ("sim", "float32", 10, (2,), 1e-5),
])  # fmt: skip
def test_losses_are_those_of_one_process(device, dtype, steps, all_ranks, tolerance):
    arguments, names = [device, dtype, str(steps)], ["losses", "state"]
    wanted = alone(HEAD + TRAIN, arguments, names)["losses"]
    runs = [launch(n, HEAD + TRAIN, arguments, get=names) for n in all_ranks]
    assert len(wanted) == steps and wanted[-1] < 0.8 * wanted[0]
    for run in runs:
        first, *others = run["state"]
        assert list(first) == ["0.weight", "0.bias", "2.weight", "2.bias"]
        for losses in run["losses"]:
            np.testing.assert_allclose(losses, wanted, tolerance, tolerance)
        for name, x in first.items():
            assert all(x.tobytes() == other[name].tobytes() for other in others)


PARTS = """
def make(seed, device="numpy"):
    mg.manual_seed(seed)
    own = {"device": device, "dtype": "float64"}
    images = nn.Conv2d(2, 3, 3, **own), nn.BatchNorm2d(3, **own)
    return nn.Sequential(*images, lambda x: x.reshape(-1, 12), nn.Linear(12, 2, **own))

def run(model, seed):
    x = np.random.default_rng(seed).standard_normal((4, 2, 4, 4))
    return (model(mg.tensor(x, device=model.parameters()[0].device)) ** 2).mean()

def grads(model):
    return [p.grad.numpy() for p in model.parameters()]

def averaged(model, *seeds):  # by hand, on a copy
    model.zero_grad()
    for seed in seeds:
        run(model, seed).backward()
    return [dist.all_reduce(g, "mean") for g in grads(model)]

def near(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)

for device in ("numpy", "sim"):
    plain, inner = make(0, device), make(rank, device)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        x = getattr(inner.parts[1], name)
        x.assign(np.full(x.shape, rank + 5, x.dtype))
    if device == "sim":
        inner.to(layout="NHWC")
    model = dist.DataParallel(inner)
    for name, x in model.module.state_dict().items():
        if name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
            assert (x == 5).all(), name
        else:
            np.testing.assert_array_equal(x, plain.state_dict()[name])
    assert list(model.state_dict())[0] == "module.0.weight"

    run(model, rank).backward()  # another batch on each rank
    near(grads(model), averaged(plain, rank))
    model.zero_grad()
    with model.no_sync():
        run(model, rank).backward()
    mine = grads(model)
    plain.zero_grad()
    run(plain, rank).backward()
    near(mine, grads(plain))
    run(model, rank + 10).backward()
    near(grads(model), averaged(plain, rank, rank + 10))
    with model.no_sync():
        model.reduce_gradients()  # by hand, and once more: the mean of equal numbers
    near(grads(model), averaged(plain, rank, rank + 10))

small, large = dist.DataParallel(make(1), bucket_mb=0), dist.DataParallel(make(1), bucket_mb=1)
counts = [len(list(m._buckets(m.parameters()))) for m in (small, large)]
(run(small, rank) + run(large, rank)).backward()  # two modules in one backward pass
near(grads(small), grads(large))
large.train(False).module.parts[3].bias.requires_grad = False  # frozen: no gradient, and no message
large.zero_grad()
run(large, rank).backward()
assert large.module.parts[3].bias.grad is None and not large.module.training
large.check_parameters()

tied = nn.Sequential(*(nn.Linear(2, 2, device="numpy") for _ in range(2)))
tied.parts[1].weight = tied.parts[0].weight
tied = dist.DataParallel(tied)
tied(mg.ones(1, 2, device="numpy") * rank).sum().backward()
tied.check_parameters()
assert (dist.all_gather(tied.module.parts[0].weight.grad).numpy() == tied.module.parts[1].weight.grad.numpy()).all()

from contextlib import nullcontext
branches = dist.DataParallel(nn.Sequential(*(nn.Linear(1, 1, bias=False, device="numpy") for _ in range(3))), 1e-9)
first, second, third = branches.module.parts
for turn in range(3):  # the order in which gradients come is another on rank 1, and later on rank 0
    optimizer = mg.optim.SGD(branches.parameters(), lr=0.1)
    z = mg.tensor([[1.0 + rank]], device="numpy")
    a, b = (second, third) if (rank == 1) == (turn < 2) else (third, second)
    optimizer.zero_grad()
    (b(first(z)) * 2 + a(z)).sum().backward()
    wanted = dist.all_reduce(np.stack([second.weight.grad.numpy(), third.weight.grad.numpy()]), "mean")
    assert (wanted == [second.weight.grad.numpy(), third.weight.grad.numpy()]).all()
    optimizer.step()
branches.check_parameters()

from contextlib import nullcontext
found = [said(lambda: dist.DataParallel(nn.Linear(3, 2 + (rank == 1), device="numpy")))]
two = dist.DataParallel(nn.Sequential(nn.Linear(2, 2, device="numpy"), nn.Linear(2, 2, device="numpy")))
x = mg.ones(1, 2, device="numpy")
found.append(said(lambda: (two.module.parts[0](x) if rank == 1 else two(x)).sum().backward()))
with mg.no_grad():
    two.module.parts[1].weight *= 1 + 1e-6 * (rank == 1)
found.append(said(two.check_parameters))

def unlike():
    with two.no_sync() if rank == 1 else nullcontext():
        two(x).sum().backward()
    two(x).sum().backward()
found.append(said(unlike))

twins = [dist.DataParallel(nn.Linear(2, 2, device="numpy")) for _ in range(2)]
found.append(said(lambda: twins[rank == 1](x).sum().backward()))
found.append(said(lambda: dist.DataParallel(two.module, bucket_mb=1e-5 if rank == 1 else 1)))
if rank == 1:
    two.module.parts[1].weight = two.module.parts[0].weight
found.append(said(lambda: dist.DataParallel(two.module)))
found.append(said(lambda: two(x).sum().backward()))
"""

MEAN = "ValueError: the mean of gradients of DataParallel: ranks? 0.* ha(s|ve)"
SENTENCES = [
    r"ValueError: DataParallel: ranks? 0.* ha(s|ve) weight, float32 \(3, 2\); rank 1 has weight, float32 \(3, 3\)\. "
    r"Every rank must make the same module, with the same dtypes and bucket_mb\.",
    rf"{MEAN} 1.weight, float32 \(2, 2\) with a gradient; "
    r"rank 1 has 1.weight, float32 \(2, 2\) without a gradient\. Every rank must",
    r"ValueError: check_parameters: ranks? 0.* ha(s|ve) 1.weight, float32 \(2, 2\) with checksum .*; "
    r"rank 1 has 1.weight, .*\. Every rank must change parameters in the same way",
    rf"{MEAN} 0 backward passes in no_sync; rank 1 has 1 backward pass in no_sync\. Every rank must",
    rf"{MEAN} DataParallel number 8; "
    r"rank 1 has DataParallel number 9\. Every rank must make the same calls",
    r"ValueError: DataParallel: ranks? 0.* ha(s|ve) bucket_mb=1.0; rank 1 has bucket_mb=1e-05\. Every rank must make",
    r"ValueError: DataParallel: ranks? 0.* ha(s|ve) 1.weight, float32 \(2, 2\); rank 1 has 1.weight, which is 0.weight",
    rf"{MEAN} 1.weight, float32 \(2, 2\) with a gradient; "
    r"rank 1 has 1.weight, which is 0.weight with a gradient\. Every rank must",
]


@pytest.mark.sample(2)
@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [3, 2])
def test_start_gradients_accumulation_and_differences(ranks):
    done = launch(ranks, HEAD + PARTS, get=["found", "counts"])
    assert done["counts"] == [[6, 1]] * ranks
    for found in done["found"]:
        assert found == done["found"][0]
        for said, wanted in zip(found, SENTENCES, strict=True):
            assert re.match(wanted, said), said


@pytest.mark.mpi
@pytest.mark.parametrize("then", ["", "dist.all_reduce(np.ones(2))"])
def test_a_rank_with_fewer_batches_ends_the_job_in_a_sentence(then):
    start = time.monotonic()
    code = """
model = dist.DataParallel(nn.Linear(2, 1, device="numpy"))
for batch in range(4 - (rank == 1)):
    model(mg.ones(3, 2, device="numpy")).sum().backward()
"""
    other = "all_reduce of float64" if then else "the end of its program"
    with pytest.raises(RankError, match=f"rank 0 is at the mean of gradients of DataParallel; rank 1 is at {other}"):
        launch(2, HEAD + code + then)
    assert time.monotonic() - start < 15


def test_alone_it_is_the_module_and_is_called_no_more_after_its_end():
    before = len(tape.FOLLOWERS)
    model = dist.DataParallel(mg.nn.Linear(2, 3, device="numpy"))
    x = mg.ones(4, 2, device="numpy")
    model(x).sum().backward()
    assert model.module.weight.grad.numpy().tolist() == [[4.0] * 3] * 2
    model.check_parameters()
    with pytest.raises(TypeError, match=r"copy its \.module"):
        copy.deepcopy(model)
    assert copy.deepcopy(model.module).weight.shape == (2, 3)
    with pytest.raises(TypeError, match="DataParallel takes a module; got"):
        dist.DataParallel(mg.relu)
    assert len(tape.FOLLOWERS) == before + 1
    del model
    gc.collect()
    assert len(tape.FOLLOWERS) == before


@pytest.mark.parametrize("n, size", [(0, 3), (1, 3), (12, 3), (13, 3), (14, 4), (5, 1)])
@pytest.mark.parametrize("seed", [None, 0, 5])
def test_shards_are_disjoint_and_equally_long(n, size, seed):
    order = np.arange(n) if seed is None else np.random.default_rng((seed, 2)).permutation(n)
    kept = [dist.shard(n, seed, 2, rank, size, drop_last=True) for rank in range(size)]
    assert {len(rows) for rows in kept} == {n // size}
    assert np.stack(kept, 1).ravel().tolist() == order[: n // size * size].tolist()
    padded = np.stack([dist.shard(n, seed, 2, rank, size) for rank in range(size)], 1).ravel()
    assert len(padded) == -(-n // size) * size and padded[:n].tolist() == order.tolist()
    assert padded[n:].tolist() == [order[i % n] for i in range(len(padded) - n)]


def test_shards_of_epochs_differ_and_arguments_are_checked():
    assert dist.shard(9, 1, 0).tolist() != dist.shard(9, 1, 1).tolist()
    assert sorted(dist.shard(9)) == list(range(9))
    with pytest.raises(ValueError, match="shard: rank=2 must be below size=2"):
        dist.shard(9, rank=2, size=2)
    with pytest.raises(ValueError, match="shard: n=-1"):
        dist.shard(-1)
