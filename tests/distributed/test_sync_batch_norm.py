"""SyncBatchNorm2d: a network with batch norm trains on any number of ranks as in one process with the whole batch."""

import re

import numpy as np
import pytest
from rank_programs import HEAD, alone

import minigrad as mg
from minigrad import distributed as dist
from minigrad.distributed import launch

TRAIN = """
device, dtype, momentum, layout = sys.argv[1], sys.argv[2], eval(sys.argv[3]), sys.argv[4]
own = {"device": device, "dtype": dtype}

class Net(nn.Module):
    def __init__(self):
        self.first = nn.Sequential(nn.Conv2d(2, 4, 3, **own), nn.BatchNorm2d(4, momentum=momentum, **own))
        self.conv = nn.Conv2d(4, 4, 3, padding=1, **own)
        self.norm = nn.BatchNorm2d(4, eps=1e-3, momentum=momentum, **own)
        self.plain = nn.BatchNorm2d(4, affine=False, momentum=momentum, **own)
        self.steps = nn.Sequential(self.plain, mg.relu)  # a second way to a layer
        self.last = nn.Linear(16, 3, **own)

    def forward(self, x):
        x = self.first(x)
        return self.last(self.steps(self.norm.relu(self.conv(x), x)).reshape(-1, 16))

mg.manual_seed(1)
net = Net().to(layout=layout)
model = dist.DataParallel(dist.SyncBatchNorm2d.convert(net) if size > 1 else net)
assert size == 1 or {type(n) for _, n in net.named_modules() if "Norm" in repr(type(n))} == {dist.SyncBatchNorm2d}
optimizer = mg.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
rng = np.random.default_rng(0)
shares = [{1: [13], 2: [9, 4], 3: [6, 7, 0]}, {1: [3], 2: [1, 2], 3: [1, 1, 1]}]  # rows of each rank, step by step
losses = []
for step in range(6):
    share = shares[step % 2][size]
    rows = slice(sum(share[:rank]), sum(share[: rank + 1]))
    images = (3 + 2 * rng.standard_normal((sum(share), 2, 4, 4))).astype(dtype)
    labels = mg.tensor((images[:, 0].mean((1, 2)) * 5).astype(int)[rows] % 3, device=device)
    part = mg.tensor(images[rows], device=device, requires_grad=True)
    logits = model(part.to(layout=layout))
    if size > 1:
        loss = dist.mean_over_ranks(mg.cross_entropy(logits, labels, reduction="none"))
    else:
        loss = mg.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    grads = [p.grad.numpy() for p in model.parameters()]
    pixels = part.grad.numpy() / size  # the loss of all ranks together is that of a rank, once for each
    optimizer.step()
    losses.append(loss.item())
model.check_parameters()
state = net.state_dict()
model.eval()
evaluated = model(mg.tensor(images[:1], device=device)).numpy()
"""


@pytest.mark.mpi
@pytest.mark.sample(2)
@pytest.mark.parametrize("device, dtype, momentum, layout, tolerance, all_ranks", [
    ("sim", "float32", "None", "NHWC", 1e-5, (3,)), ("numpy", "float64", "0.1", "NCHW", 1e-12, (2, 3)),
])  # fmt: skip
def test_training_is_that_of_one_process(device, dtype, momentum, layout, tolerance, all_ranks):
    names = ["losses", "state", "grads", "pixels", "evaluated"]
    arguments = [device, dtype, momentum, layout]
    one = alone(HEAD + TRAIN, arguments, names)

    def near(found, wanted):
        np.testing.assert_allclose(found, wanted, tolerance, tolerance)

    assert one["losses"][-1] < one["losses"][0]
    for ranks in all_ranks:
        run = launch(ranks, HEAD + TRAIN, arguments, get=names)
        near(np.concatenate(run["pixels"]), one["pixels"])
        for rank in range(ranks):
            near(run["losses"][rank], one["losses"])
            near(run["evaluated"][rank], one["evaluated"])
            for found, wanted in zip(run["grads"][rank], one["grads"], strict=True):
                near(found, wanted)
            for name, wanted in one["state"].items():
                near(run["state"][rank][name], wanted)
                assert run["state"][rank][name].tobytes() == run["state"][0][name].tobytes()


PARTS = """
x = mg.tensor([1.0 + rank, 2.0], requires_grad=True, device="numpy", dtype="float64")
y = dist.sum_over_ranks(x * x)
(y * mg.tensor([1.0 + rank, 0.0], device="numpy", dtype="float64")).sum().backward()
total = sum((1.0 + r) ** 2 for r in range(size))
assert y.numpy().tolist() == [total, 4.0 * size] and y.requires_grad
assert x.grad.numpy().tolist() == [2 * (1.0 + rank) * sum(1.0 + r for r in range(size)), 0.0]
with mg.no_grad():
    assert not dist.sum_over_ranks(x).requires_grad
uneven = mg.tensor(np.arange(float(rank)), requires_grad=True, device="sim")  # none on rank 0
mean = dist.mean_over_ranks(uneven)
mean.backward()
every = [float(i) for r in range(size) for i in range(r)]
assert abs(mean.item() - sum(every) / len(every)) < 1e-6
np.testing.assert_allclose(uneven.grad.numpy(), [size / len(every)] * rank, 1e-6)

empty, norm = mg.zeros(0, 2, 3, 3, device="numpy"), dist.SyncBatchNorm2d(2, device="numpy")
assert norm(empty).shape == empty.shape and norm.num_batches_tracked.item() == 0
one = rank == 1
def norm_of(channels, **settings):
    x = mg.ones(2, channels, 2, 2, device="numpy", requires_grad=True)
    return dist.SyncBatchNorm2d(channels, device="numpy", **settings)(x)
found = [
    said(lambda: norm_of(3 + one)),
    said(lambda: norm_of(3, eps=1e-3 if one else 1e-5)),
    said(lambda: dist.barrier() if one else norm_of(3)),
    said(lambda: dist.barrier() if one else norm_of(3).sum().backward()),
    said(lambda: norm(mg.ones(int(one), 2, 1, 1, device="numpy"))),
]
"""
SENTENCES = [
    r"distributed: ranks 0, 2 are at SyncBatchNorm2d number 2 with 3 channels, .*; rank 1 is at .* 2 with 4 channels",
    r"distributed: ranks 0, 2 .* eps=1e-05, momentum=0.1: .*; rank 1 is at SyncBatchNorm2d number 3 .*, eps=0.001, ",
    r"distributed: ranks 0, 2 are at SyncBatchNorm2d number 4 .*; rank 1 is at barrier\. Every rank must make the",
    r"distributed: ranks 0, 2 are at SyncBatchNorm2d number 5 .*; rank 1 is at barrier\. Every rank must make the",
    r"SyncBatchNorm2d: the batches of all ranks have one value a channel, its own mean",
]


@pytest.mark.mpi
def test_sums_are_differentiable_and_modules_that_differ_are_named():
    for found in launch(3, HEAD + PARTS, get="found")["found"]:
        for sentence, wanted in zip(found, SENTENCES, strict=True):
            assert re.match(f"ValueError: {wanted}", sentence), sentence


def test_alone_it_is_batch_norm_and_a_module_is_converted_in_place():
    mg.manual_seed(0)
    model = mg.nn.ResNet(3, "small", widths=(4, 8), blocks=1, device="numpy")
    x, before = mg.randn(4, 3, 8, 8, device="numpy"), dict(model.named_parameters())
    state = model.state_dict()
    y = model(x).numpy()
    running = model.state_dict()
    model.load_state_dict(state)
    assert dist.SyncBatchNorm2d.convert(model) is model and "SyncBatchNorm2d(8)" in repr(model)
    assert all(before[name] is x for name, x in model.named_parameters())
    np.testing.assert_allclose(model(x).numpy(), y, 1e-5, 1e-5)
    for name, wanted in running.items():
        np.testing.assert_allclose(model.state_dict()[name], wanted, 1e-5, 1e-6)
    with pytest.raises(TypeError, match="convert takes a module; got"):
        dist.SyncBatchNorm2d.convert(mg.relu)
