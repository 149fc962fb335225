"""ZeroRedundancyOptimizer: the parameters of the optimizer without ranks, with a part of its states on each rank."""

import re

import numpy as np
import pytest
from rank_programs import HEAD

import minigrad as mg
from minigrad import distributed as dist
from minigrad.distributed import launch

HEAD += """
def make(device, dtype, layout="NCHW"):
    mg.manual_seed(3)
    own = {"device": device, "dtype": dtype}
    parts = nn.Conv2d(2, 3, 3, **own), mg.tanh, lambda x: x.reshape(-1, 12), nn.Linear(12, 5, **own), Scale(own)
    return dist.DataParallel(nn.Sequential(*parts).to(layout=layout))

class Scale(nn.Module):
    def __init__(self, own):
        self.factor = mg.ones(requires_grad=True, **own)
        self.unused = mg.ones(4, requires_grad=True, **own)  # no gradient: no update, not by weight decay either

    def forward(self, x):
        return x * self.factor

def run(model, optimizer, steps, first=0):
    for step in range(first, first + steps):
        x = np.random.default_rng((step, rank)).standard_normal((3, 2, 4, 4))
        x = mg.tensor(x.astype(model.parameters()[0].dtype.name), device=model.parameters()[0].device)
        optimizer.zero_grad()
        if isinstance(optimizer, dist.ZeroRedundancyOptimizer) and step % 3:
            with model.no_sync():
                (model(x) ** 2).mean().backward()
        else:
            (model(x) ** 2).mean().backward()
        optimizer.step()

RULES = {
    "SGD": (mg.optim.SGD, {"lr": 0.1}),
    "momentum": (mg.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "Adam": (mg.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "AdamW": (mg.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1, "betas": (0.8, 0.9)}),
}

def same(found, wanted, exact, tolerance=1e-12):
    assert found.keys() == wanted.keys()
    for name, x in wanted.items():
        y = found[name]
        assert (x.dtype, x.shape) == (y.dtype, y.shape), name
        assert x.tobytes() == y.tobytes() if exact else np.allclose(x, y, tolerance, tolerance), name
"""

AS_WITHOUT = """
for name, (rule, settings) in RULES.items():
    kinds = ("numpy", "float64", "NCHW"), ("sim", "float32", "NHWC")
    for device, dtype, layout in kinds if name in ("momentum", "AdamW") else kinds[:1]:
        plain, split = make(device, dtype, layout), make(device, dtype, layout)
        whole = rule(plain.parameters(), **settings)
        own = dist.ZeroRedundancyOptimizer(split.parameters(), rule, **settings)
        schedules = [mg.optim.StepLR(x, 3, 0.5) for x in (whole, own)]
        for first in (0, 3):
            run(plain, whole, 3, first)
            run(split, own, 3, first)
            for schedule in schedules:
                for _ in range(3):
                    schedule.step()
        split.check_parameters()
        exact, tolerance = size <= 2, 1e-12 if dtype == "float64" else 1e-5  # two numbers have one sum, in any order
        same(split.state_dict(), plain.state_dict(), exact, tolerance)
        same(own.state_dict(), whole.state_dict(), exact, tolerance)
        assert own.lr == whole.lr == settings["lr"] / 4
        for i, p in enumerate(own.parameters):
            elements = [x.size for state, x in zip(own.states, own.local._states[i]) if state != "t"]
            assert elements == [-(-p.size // size)] * len(elements) and len(elements) == (i != 5) * len(elements)
        held = sum(x.array.nbytes for states in own.local._states for x in states if x.size > 1)
        assert held <= sum(x.array.nbytes for row in whole._states for x in row) / size + 64, name
done = repr(own)
"""


@pytest.mark.mpi
@pytest.mark.sample(2)
@pytest.mark.parametrize("ranks", [3, 2])
def test_parameters_and_states_are_those_without_ranks(ranks):
    done = launch(ranks, HEAD + AS_WITHOUT, get="done")["done"]
    assert done[0].startswith("ZeroRedundancyOptimizer of 6 parameters: lr=0.0025, betas=(0.8, 0.9), eps=1e-08")
    assert done[0].endswith(f"AdamW's states split over {ranks} ranks")


RESUME = """
model = make("numpy", "float64")
optimizer = dist.ZeroRedundancyOptimizer(model.parameters(), mg.optim.AdamW)
if size == 2:
    optimizer = dist.ZeroRedundancyOptimizer(model.parameters(), mg.optim.AdamW, lr=0.05)
    run(model, optimizer, 3)
    state = optimizer.state_dict() | {f"model.{name}": x for name, x in model.state_dict().items()}
    if rank == 0:
        mg.save(sys.argv[1], state)
else:
    state = mg.load(sys.argv[1])
    model.load_state_dict({k.removeprefix("model."): state.pop(k) for k in [*state] if k.startswith("model.")})
    optimizer.load_state_dict(state)
    assert optimizer.lr == 0.05
    whole = mg.optim.AdamW(model.parameters(), lr=1)
    whole.load_state_dict(state)
    missing = {name: x for name, x in state.items() if name != "lr"}
    found = [
        said(lambda: optimizer.load_state_dict(missing)),
        said(lambda: optimizer.load_state_dict(state | {"0.m": np.zeros(3)})),
    ]
    assert "load_state_dict: missing: lr; unexpected: none." in found[0]
    assert found[1] == "ValueError: ZeroRedundancyOptimizer.load_state_dict: 0.m is (3,); it must be (3, 2, 3, 3)."
    same(optimizer.state_dict(), whole.state_dict(), exact=True)
rng = np.random.default_rng(0)
images = rng.standard_normal((6, 2, 4, 4))[rank::size]  # of all ranks together the same ones
for step in range(3):
    optimizer.zero_grad()
    (model(mg.tensor(images, device="numpy", dtype="float64")) ** 2).mean().backward()
    optimizer.step()
after = model.state_dict()
"""


@pytest.mark.mpi
def test_a_state_goes_on_with_another_number_of_ranks(tmp_path):
    path = str(tmp_path / "state.npz")
    two, three = (launch(n, HEAD + RESUME, [path], get="after")["after"] for n in (2, 3))
    for name, wanted in two[0].items():
        np.testing.assert_allclose(three[0][name], wanted, 1e-12, 1e-12)


DIFFERENCES = """
one, found = rank == 1, []
model = make("numpy", "float64")
parameters = model.parameters()
for settings in ({"lr": 0.1 + one}, {"lr": 0.1, "momentum": one / 2}):
    optimizer = dist.ZeroRedundancyOptimizer(parameters, mg.optim.SGD, **settings)
    found.append(said(optimizer.step))
optimizer = dist.ZeroRedundancyOptimizer(parameters, mg.optim.SGD, lr=0.1)
before = model.state_dict()
for p in parameters:
    p.grad = mg.ones(*p.shape, device="numpy", dtype="float64")
if one:
    parameters[1].grad = None
found.append(said(optimizer.step))
same(model.state_dict(), before, exact=True)
found.append(said(dist.barrier if one else optimizer.step))
found.append(said(dist.barrier if one else optimizer.state_dict))
for p in parameters:
    p.grad = None
optimizer.step()
same(model.state_dict(), before, exact=True)
"""
SENTENCES = [
    r"ZeroRedundancyOptimizer.step: ranks? 0.* ha(s|ve) lr=0.1; rank 1 has lr=1.1. Every rank must give the same",
    r"ZeroRedundancyOptimizer.step: ranks? 0.* ha(s|ve) momentum=0.0; rank 1 has momentum=0.5",
    r"ZeroRedundancyOptimizer.step: ranks? 0.* parameter 1, float64 \(3,\) with a gradient; rank 1 has .* without a",
    r"distributed: ranks? 0.* at ZeroRedundancyOptimizer.step; rank 1 is at barrier",
    r"distributed: ranks? 0.* at ZeroRedundancyOptimizer.state_dict; rank 1 is at barrier",
]


@pytest.mark.mpi
def test_ranks_that_differ_are_named_and_nothing_changes():
    for found in launch(3, HEAD + DIFFERENCES, get="found")["found"]:
        for sentence, wanted in zip(found, SENTENCES, strict=True):
            assert re.match(f"ValueError: {wanted}", sentence), sentence


def test_alone_settings_and_wrong_arguments():
    w = mg.ones(3, requires_grad=True, device="numpy")
    optimizer = dist.ZeroRedundancyOptimizer([w], mg.optim.SGD, lr=0.5)
    optimizer.momentum, w.grad = 0.25, mg.ones(3, device="numpy")
    optimizer.step()
    assert w.numpy().tolist() == [0.5] * 3 and optimizer.local.momentum == optimizer.momentum == 0.25
    w.grad = None
    optimizer.step()
    assert w.numpy().tolist() == [0.5] * 3 and optimizer.state_dict()["0.v"].tolist() == [1.0] * 3
    with pytest.raises(ValueError, match="SGD: lr=-1"):
        optimizer.lr = -1
    with pytest.raises(AttributeError, match="no attribute 'betas'"):
        _ = optimizer.betas
    with pytest.raises(TypeError, match=r"takes a class of optimizers, such as mg\.optim\.Adam; got SGD of"):
        dist.ZeroRedundancyOptimizer([w], mg.optim.SGD([w], lr=1))
    with pytest.raises(TypeError, match=r"SGD takes a list of tensors: \[w\], or model\.parameters\(\)"):
        dist.ZeroRedundancyOptimizer(w, mg.optim.SGD, lr=1)
