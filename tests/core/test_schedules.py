"""Schedules of the learning rate: their formulas, warm-up, state, and what they refuse."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.optim import CosineAnnealingLR, Schedule, StepLR


def optimizer(device="numpy", **settings):
    return mg.optim.SGD([mg.ones(3, requires_grad=True, device=device)], **{"lr": 0.5, **settings})


def rates(make, steps):
    sgd = optimizer()
    schedule, found = make(sgd), []
    for _ in range(steps):
        found.append(sgd.lr)
        schedule.step()
    return found


def test_the_rates_are_those_of_the_formulas():
    assert rates(lambda sgd: StepLR(sgd, 3), 8) == pytest.approx([0.5] * 3 + [0.05] * 3 + [0.005] * 2)
    assert rates(lambda sgd: StepLR(sgd, 1, gamma=0.5), 4) == [0.5, 0.25, 0.125, 0.0625]
    wave = [0.1 + 0.2 * (1 + np.cos(np.pi * t / 10)) for t in range(11)]
    assert rates(lambda sgd: CosineAnnealingLR(sgd, 10, eta_min=0.1), 11) == pytest.approx(wave)
    assert wave[0] == 0.5 and wave[10] == pytest.approx(0.1)


def test_the_rate_rises_to_its_base_in_a_line_and_then_follows_the_schedule():
    assert rates(lambda sgd: StepLR(sgd, 2, warmup=3), 7) == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.5, 0.05, 0.05])
    found = rates(lambda sgd: CosineAnnealingLR(sgd, 10, warmup=4), 11)
    assert found[:5] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5]) and found[10] == pytest.approx(0)
    assert found[7] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("StepLR", {"step_size": 3, "gamma": 0.3}), ("CosineAnnealingLR", {"T_max": 9, "eta_min": 0.01})],
)
def test_the_rates_are_pytorchs(name, settings):
    torch, _ = pytest.importorskip("torch"), pytest.importorskip("sympy")  # which torch.optim imports
    theirs = torch.optim.SGD([torch.ones(3, requires_grad=True)], lr=0.5)
    schedule, wanted = getattr(torch.optim.lr_scheduler, name)(theirs, **settings), []
    for _ in range(20):
        wanted.append(theirs.param_groups[0]["lr"])
        theirs.step()
        schedule.step()
    assert rates(lambda sgd: getattr(mg.optim, name)(sgd, **settings), 20) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_every_step_has_its_own_rate(device):
    """p = 1 - the sum of the rates, where the gradient is 1."""
    sgd = optimizer(device)
    (p,), schedule, total = sgd.parameters, StepLR(sgd, 1, gamma=0.5), 0.0
    for _ in range(4):
        p.grad = mg.ones(3, device=device)
        sgd.step()
        total += sgd.lr
        schedule.step()
    assert p.numpy().tolist() == [1 - total] * 3 and total == 0.9375


def test_a_schedule_goes_on_from_its_state(tmp_path):
    first, other = optimizer(), optimizer(lr=7.0)
    schedules = [CosineAnnealingLR(sgd, 20, eta_min=0.01, warmup=5) for sgd in (first, other)]
    for _ in range(9):
        schedules[0].step()
    mg.save(tmp_path / "run.npz", optimizer=first, schedule=schedules[0])
    mg.load(tmp_path / "run.npz", optimizer=other, schedule=schedules[1])
    for _ in range(12):
        assert first.lr == other.lr
        for schedule in schedules:
            schedule.step()
    with pytest.raises(KeyError, match=r"StepLR\.load_state_dict: missing: steps; unexpected: none"):
        StepLR(first, 3).load_state_dict({"base": 0.5})


def test_a_schedule_says_what_it_is_and_refuses_nonsense():
    sgd = optimizer()
    schedule = StepLR(sgd, 1)
    schedule.step()
    assert repr(schedule) == "StepLR: lr=0.05 after 1 step"
    for make, message in (
        (lambda: StepLR(None, 3), "StepLR takes an optimizer; got NoneType None"),
        (lambda: StepLR(sgd, 0), "StepLR: step_size=0 must be a whole number of at least 1"),
        (lambda: StepLR(sgd, 3, gamma=-1), "StepLR: gamma=-1 must be a number of at least 0"),
        (lambda: CosineAnnealingLR(sgd, 5, warmup=5), "CosineAnnealingLR: warmup=5 must be shorter than T_max=5"),
        (lambda: CosineAnnealingLR(sgd, 5, eta_min="a"), "CosineAnnealingLR: eta_min='a' must be a number"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            make()
    with pytest.raises(NotImplementedError):
        Schedule(sgd)
