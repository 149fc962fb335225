"""Sharded data and checkpoints: the losses of one process, and a job that goes on from a file to the last bit."""

import numpy as np
import pytest
from rank_programs import HEAD, alone

import minigrad as mg
from minigrad import distributed as dist
from minigrad.distributed import launch

HEAD += """
from pathlib import Path
folder, dropout = Path(sys.argv[1]), float(sys.argv[2])
rng = np.random.default_rng(5)
images = rng.standard_normal((22, 2, 4, 4))
labels = np.arange(22) % 3
images[np.arange(22), :, labels] += 2
own = {"device": "numpy", "dtype": "float64"}
model = nn.Sequential(
    nn.Conv2d(2, 4, 3, **own), nn.BatchNorm2d(4, **own), mg.relu, nn.Flatten(), nn.Dropout(dropout),
    nn.Linear(16, 3, **own),
)
dist.SyncBatchNorm2d.convert(model)
fresh = model.state_dict()

def start(seed, lr):  # parameters and random numbers of their own on every rank, until rank 0's parameters arrive
    mg.manual_seed(100 * seed + rank)
    model.load_state_dict(fresh)
    for p in model.parameters():
        with mg.no_grad():
            p.assign(mg.randn(*p.shape, **own) * 0.3)
    parallel = dist.DataParallel(model)
    loader = mg.data.Loader(
        images, labels, 5, shuffle=True, seed=7, device="numpy", rank=rank, ranks=size,
        augment=(lambda x, rng: x + rng.standard_normal(x.shape)) if dropout else (),
    )
    optimizer = dist.ZeroRedundancyOptimizer(parallel.parameters(), mg.optim.AdamW, lr=lr)
    schedule = mg.optim.CosineAnnealingLR(optimizer, 40)
    return parallel, {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": loader}

def run(parallel, parts, steps, path=None):
    losses, optimizer = [], parts["optimizer"]
    while True:
        for x, y in parts["loader"]:
            with parallel.no_sync():
                optimizer.zero_grad()
                loss = dist.mean_over_ranks(mg.cross_entropy(parallel(x), y, reduction="none"))
                loss.backward()
            optimizer.step()
            parts["schedule"].step()
            losses.append(loss.item())
            if len(losses) == steps:
                if path:
                    dist.save(path, **parts, best=0.5)
                return losses
"""

TRAIN = """
parallel, parts = start(0, 0.05)
losses = run(parallel, parts, 16)
parallel.check_parameters()
state = model.state_dict()
"""


@pytest.mark.mpi
@pytest.mark.soak
def test_losses_are_those_of_one_process_with_last_batches_smaller_than_the_job(tmp_path):
    """22 rows in batches of 5: the last one has 2 rows, and one of 3 ranks none."""
    arguments, names = [str(tmp_path), "0"], ["losses", "state"]
    one, three = alone(HEAD + TRAIN, arguments, names), launch(3, HEAD + TRAIN, arguments, get=names)
    wanted = one["losses"]
    assert len(wanted) == 16 and np.mean(wanted[10:14]) < 0.8 * np.mean(wanted[:4])  # whole batches
    assert three["losses"] == [three["losses"][0]] * 3
    np.testing.assert_allclose(three["losses"][0], wanted, 1e-10, 1e-12)
    for name, x in one["state"].items():
        np.testing.assert_allclose(three["state"][0][name], x, 1e-9, 1e-11)


RESUME = """
import os
path = folder / "run.npz"
if len(sys.argv) == 3:
    parallel, parts = start(0, 0.05)
    first = run(parallel, parts, 7, folder / f"run{rank or ''}.npz")  # in the middle of the second epoch
    assert os.listdir(folder) == ["run.npz"]  # whole, as soon as any rank goes on
    losses = run(*start(0, 0.05), 16)
    assert losses[:7] == first
    wanted = losses[7:]
else:
    parallel, parts = start(1, 7.0)  # everything is another, until it is loaded
    run(parallel, parts, 2)
    rest = dist.load(path, **parts)
    assert rest == {"best": 0.5}
    wanted = run(parallel, parts, 9)
random, state = mg.randn(3, device="numpy").numpy(), model.state_dict()
"""


@pytest.mark.mpi
def test_a_job_goes_on_in_the_middle_of_an_epoch_to_the_last_bit(tmp_path):
    ranks, names = 3, ["wanted", "random", "state"]
    before, after = (launch(ranks, HEAD + RESUME, [str(tmp_path), "0.25", *more], get=names) for more in ([], ["on"]))
    assert after["wanted"] == before["wanted"] and len(before["wanted"][0]) == 9
    assert len({x.tobytes() for x in before["random"]}) == ranks, "the random numbers of each rank are its own"
    for rank in range(ranks):
        assert after["random"][rank].tobytes() == before["random"][rank].tobytes()
        assert all(x.tobytes() == before["state"][rank][name].tobytes() for name, x in after["state"][rank].items())


SENTENCES = """
found = [said(lambda: dist.save(folder / "run.txt", model))]
dist.save(folder / "model.npz", model)
assert dist.load(folder / "model.npz", model).keys() == model.state_dict().keys()
found.append(said(lambda: dist.load(folder / f"model{'' if rank == 0 else '2'}.npz", model)))
found.append(said(lambda: dist.save(folder / "run.npz", **({"model": model} if rank else {"epoch": 1}))))
parallel, parts = start(0, 1.0)
found.append(said(lambda: mg.save(folder / "run.npz", **parts) if rank == 0 else dist.barrier()))
"""


@pytest.mark.mpi
def test_a_fault_in_a_checkpoint_names_the_rank(tmp_path):
    for found in launch(2, HEAD + SENTENCES, [str(tmp_path), "0"], get="found")["found"]:
        assert found[0].startswith("ValueError: distributed: rank 0 is at an error in save: save: run.txt must end in")
        assert "rank 1 is at the end of save." in found[0]
        assert "rank 0 is at the end of load; rank 1 is at an error in load: [Errno 2] No such file" in found[1]
        assert found[2].startswith("ValueError: save: rank 0 has epoch; rank 1 has model.")
        assert "rank 0 is at ZeroRedundancyOptimizer.state_dict; rank 1 is at barrier." in found[3]


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("drop_last", [False, True])
def test_ranks_share_each_batch_of_one_process(ranks, drop_last):
    def batches(rank, ranks):
        settings = {"shuffle": True, "seed": 3, "device": "numpy", "drop_last": drop_last}
        loader = mg.data.Loader(np.arange(22.0), np.arange(22), 5, rank=rank, ranks=ranks, **settings)
        return [[y.numpy() for _, y in loader] for _ in range(2)]

    whole, parts = batches(0, 1), [batches(rank, ranks) for rank in range(ranks)]
    for epoch in range(2):
        order = np.random.default_rng((3, epoch)).permutation(22)
        assert np.concatenate(whole[epoch]).tolist() == order[: 20 if drop_last else 22].tolist()
        for k, batch in enumerate(whole[epoch]):
            for rank in range(ranks):
                assert parts[rank][epoch][k].tolist() == batch[rank::ranks].tolist()
    rows = [dist.shard(20, 3, 1, rank, 5) for rank in range(5)]  # the same parts, where the job divides the batch
    settings = {"shuffle": True, "seed": 3, "device": "numpy", "ranks": 5}
    for rank in range(5):
        loader = mg.data.Loader(np.arange(20.0), np.arange(20), 10, rank=rank, **settings)
        loader.epoch = 1
        assert np.concatenate([y.numpy() for _, y in loader]).tolist() == rows[rank].tolist()
