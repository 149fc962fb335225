"""Checkpoints: a run that is saved and resumed takes the steps that it would have taken, to the last bit."""

import numpy as np
import pytest

import minigrad as mg
from minigrad import nn

MAKERS = {
    "sgd": lambda p, lr=0.1: mg.optim.SGD(p, lr, momentum=0.9),
    "adam": lambda p, lr=0.01: mg.optim.Adam(p, lr, betas=(0.8, 0.95)),
}


class Run:
    """A small network with buffers, its optimizer, and steps on random batches."""

    def __init__(self, device, make, seed=0, **settings):
        mg.manual_seed(seed)
        like = {"device": device}
        self.device = device
        self.model = nn.Sequential(
            nn.Conv2d(1, 3, 3, **like),
            nn.BatchNorm2d(3, **like),
            mg.relu,
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(12, 2, **like),
        )
        self.optimizer = make(self.model.parameters(), **settings)
        self.schedule = mg.optim.CosineAnnealingLR(self.optimizer, 9, warmup=2)
        self.parts = {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}

    def steps(self, count):
        losses = []
        for _ in range(count):
            x = mg.randn(5, 1, 4, 4, device=self.device)
            self.optimizer.zero_grad()
            loss = (self.model(x) ** 2.0).mean()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            losses.append(loss.item())
        return losses


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_resumed_run_has_the_same_losses(make, kind, device, tmp_path):
    if kind == "safetensors":
        pytest.importorskip("safetensors")
    run, path = Run(device, make), tmp_path / f"run.{kind}"
    before = run.steps(3)
    mg.save(path, **run.parts, best=0.1, note=np.arange(2))
    wanted = run.steps(4)
    resumed = Run(device, make, seed=1, lr=7.0)  # everything is another, until it is loaded
    resumed.steps(1)
    addresses = [x.array.address for x in resumed.model.parameters()] if device != "numpy" else []
    rest = mg.load(path, **resumed.parts)
    assert (rest.pop("best"), rest.pop("note").tolist(), rest) == (0.1, [0, 1], {})
    assert resumed.steps(4) == wanted and wanted[:3] != before
    for name, value in run.model.state_dict().items():
        np.testing.assert_array_equal(resumed.model.state_dict()[name], value)
    if addresses:  # a captured step works on these
        assert addresses == [x.array.address for x in resumed.model.parameters()]


def test_a_state_from_before_the_first_step_starts_anew(device):
    run = Run(device, MAKERS["adam"])
    model, optimizer = run.model.state_dict(), run.optimizer.state_dict()
    assert list(optimizer) == ["lr", "betas", "eps", "weight_decay"]
    mg.manual_seed(5)
    wanted = run.steps(2)
    run.model.load_state_dict(model)
    run.optimizer.load_state_dict(optimizer)
    run.schedule.load_state_dict({"base": 0.01, "steps": 0})
    mg.manual_seed(5)
    assert run.steps(2) == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0.v": np.zeros(3)}, r"SGD\.load_state_dict: 0\.v is \(3,\); it must be \(3, 1, 3, 3\)"),
        ({"momentum": None}, r"SGD\.load_state_dict: missing: momentum; unexpected: none"),
        ({"9.v": np.zeros(3), "0.m": np.zeros(3)}, r"missing: none; unexpected: 0\.m, 9\.v"),
        ({"lr": np.array(-1.0)}, r"SGD: lr=-1\.0 must be a number of at least 0"),
    ],
)
def test_a_state_that_does_not_fit_changes_no_part(change, message, tmp_path):
    run = Run("numpy", MAKERS["sgd"])
    run.steps(1)
    wrong = {name: x for name, x in (run.optimizer.state_dict() | change).items() if x is not None}
    mg.save(tmp_path / "run.npz", model=run.model, optimizer=wrong, schedule=run.schedule)
    run.steps(1)
    before = run.model.state_dict(), run.optimizer.state_dict()
    with pytest.raises((KeyError, ValueError), match=message):
        mg.load(tmp_path / "run.npz", **run.parts)
    for old, new in zip(before, (run.model.state_dict(), run.optimizer.state_dict()), strict=True):
        assert old.keys() == new.keys() and all((old[name] == new[name]).all() for name in old)


def test_what_is_no_checkpoint_is_refused(tmp_path):
    path, model = tmp_path / "run.npz", nn.Linear(2, 3, device="numpy")
    for state, parts in (((), {}), ((model,), {"epoch": 3})):
        with pytest.raises(TypeError, match="save takes a path, and either a module or parts by name"):
            mg.save(path, *state, **parts)
    mg.save(path, model=model, epoch=3)
    with pytest.raises(TypeError, match="load: epoch takes no state; leave it out"):
        mg.load(path, epoch=0)
    with pytest.raises(KeyError, match="missing: bias, weight"):
        mg.load(path, net=model)
    assert {"model.weight", "model.bias", "epoch"} < mg.load(path).keys()


def test_another_number_of_draws_does_not_matter_where_the_state_is_saved(tmp_path):
    mg.manual_seed(3)
    mg.randn(5)
    mg.save(tmp_path / "run.npz", epoch=0)
    wanted = mg.randn(4, device="numpy").numpy()
    mg.randn(7)
    mg.load(tmp_path / "run.npz", model=Empty())
    np.testing.assert_array_equal(mg.randn(4, device="numpy").numpy(), wanted)


class Empty(nn.Module):
    """A module without parameters."""
