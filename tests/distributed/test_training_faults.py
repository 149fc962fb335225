"""A rank that goes wrong while all train: the job ends at once, and its sentence names the rank and the call."""

import time

import pytest
from rank_programs import HEAD

from minigrad.distributed import launch
from minigrad.errors import RankError

TRAIN = """
import os
place, fault = sys.argv[1:]
wrong, step, own = rank == 1, 0, {"device": "numpy"}

def at(here):
    if wrong and step == 2 and here == place:
        exec(fault)

class Fault(nn.Module):
    def forward(self, x):
        def rule(dy):
            at("backward")
            return (dy,)

        at("forward")
        y = mg.Tensor(x.array)
        y.record("fault", (x,), rule, ())
        return y

def augment(x, rng):
    if wrong and place == "loader" and loader.epoch == 2:
        exec(fault)
    return x

images = np.random.default_rng(0).standard_normal((18 - 6 * (wrong and place == "batches"), 2, 4, 4))
extra = [nn.BatchNorm2d(3, **own) for _ in range(wrong and place == "model")]
model = nn.Sequential(
    nn.Conv2d(2, 3, 3, **own), nn.BatchNorm2d(3, **own), Fault(), nn.BatchNorm2d(3, **own), *extra, nn.Flatten(),
    nn.Linear(12, 1, **own),
)
dist.SyncBatchNorm2d.convert(model)
model = model if place == "model" else dist.DataParallel(model)
optimizer = dist.ZeroRedundancyOptimizer(model.parameters()[-2:], mg.optim.Adam, lr=0.01)
images, labels = images.astype("float32"), np.zeros(len(images))
loader = mg.data.Loader(images, labels, 6, augment=augment, rank=rank, ranks=size, **own)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        try:
            loss = dist.mean_over_ranks(model(x) ** 2)
            loss.backward()
            at("update")
            optimizer.step()
        except LookupError:
            pass  # and on to the next batch
        step += 1
    if place == "batches":
        break
"""
NORM = r"SyncBatchNorm2d number %d with 3 channels, eps=1e-05, momentum=0.1: the count"
RANKS = r"rank [01] of 2 raised .*Error: distributed: rank 0 is at"
FAULTS = {  # place, statement on rank 1 in its third step, and the sentence of the job
    "an exception": ("backward", "raise ValueError('row 7')", r"rank 1 of 2 raised ValueError: row 7 \(line"),
    "an exception in the data": ("loader", "raise OSError('no disk')", r"rank 1 of 2 raised OSError: no disk"),
    "killed before the update": (
        "update", "os.kill(os.getpid(), 9)",
        r"rank 1 of 2 was killed by SIGKILL, as .*\. Then rank 0 waited at ZeroRedundancyOptimizer\.step\.",
    ),
    "the rest of a step is left out": ("forward", "raise LookupError", f"{RANKS} {NORM % 2}; rank 1 is at {NORM % 1}"),
    "an update is left out": (
        "update", "raise LookupError", f"{RANKS} ZeroRedundancyOptimizer.step; rank 1 is at {NORM % 1}",
    ),
    "fewer batches": ("batches", "", f"{RANKS} {NORM % 1}; rank 1 is at the end of its program"),
    "a layer more": ("model", "", f"{RANKS} mean_over_ranks of float32 .*; rank 1 is at {NORM % 3}"),
}  # fmt: skip


@pytest.mark.mpi
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_the_job_in_a_sentence(fault):
    place, statement, sentence = FAULTS[fault]
    start = time.monotonic()
    with pytest.raises(RankError, match=sentence):
        launch(2, HEAD + TRAIN, [place, statement], timeout=20)
    assert time.monotonic() - start < 15
