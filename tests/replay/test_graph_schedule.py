"""A learning rate that changes from step to step, in steps that are replayed: no launch is made anew for it."""

import numpy as np
import pytest
from graph_steps import Network, batch, on

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.optim import CosineAnnealingLR, StepLR

MAKERS = {"sgd": lambda p: mg.optim.SGD(p, 0.1, 0.9, 0.01), "adam": lambda p: mg.optim.Adam(p, 0.05, weight_decay=0.01)}


def follow(gpu, make, step_of, calls=7):
    """Take the same steps by a graph and on `numpy`; after each, all parameters and rates must be equal."""
    nets = Network(gpu, make), Network(None, make)
    fast, plain = mg.graph(step_of(nets[0])), step_of(nets[1])
    for i in range(calls):
        x, y = batch(i)
        fast(on(gpu, x), on(gpu, y)), plain(mg.Tensor(x), mg.Tensor(y))
        assert nets[0].optimizer.lr == nets[1].optimizer.lr
        for p, q in zip(nets[0].parameters, nets[1].parameters, strict=True):
            np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=5e-5, atol=1e-6)
    assert (fast.captures, fast.replays) == (1, calls - 1)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("first", [True, False])
def test_a_schedule_within_the_step_goes_on_at_every_replay(gpu, make, first):
    def scheduled(network):
        schedule = StepLR(network.optimizer, 1, gamma=0.5, warmup=2)

        def step(x, y):
            if first:
                schedule.step()
            network.step(x, y)
            if not first:
                schedule.step()

        return step

    follow(gpu, make, scheduled)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_rate_that_is_set_between_the_steps_reaches_the_next_replay(gpu, make):
    ours, truth = Network(gpu, make), Network(None, make)
    schedules = [CosineAnnealingLR(net.optimizer, 6) for net in (ours, truth)]
    fast = mg.graph(ours.step)
    for i in range(6):
        x, y = batch(i)
        fast(on(gpu, x), on(gpu, y)), truth.step(mg.Tensor(x), mg.Tensor(y))
        np.testing.assert_allclose(ours.w1.numpy(), truth.w1.numpy(), rtol=2e-5, atol=1e-6)
        for schedule in schedules:
            schedule.step()
    ours.optimizer.lr = truth.optimizer.lr = 0.3
    fast(on(gpu, x), on(gpu, y)), truth.step(mg.Tensor(x), mg.Tensor(y))
    np.testing.assert_allclose(ours.w1.numpy(), truth.w1.numpy(), rtol=2e-5, atol=1e-6)
    assert fast.captures == 1


def test_a_replay_sends_a_rate_only_if_it_is_another(gpu, driver):
    net, (x, y) = Network(gpu), batch(0)
    x, y = on(gpu, x), on(gpu, y)
    fast = mg.graph(net.step)
    fast(x, y), fast(x, y)
    before = driver.calls["upload"]
    fast(x, y)
    assert driver.calls["upload"] == before
    net.optimizer.lr = 0.2
    fast(x, y), fast(x, y)
    assert driver.calls["upload"] == before + 1


def test_a_rate_between_two_steps_of_a_graph_is_refused(gpu):
    net, (x, y) = Network(gpu), batch(0)
    schedule = StepLR(net.optimizer, 1)

    def twice(x, y):
        net.step(x, y)
        schedule.step()
        net.step(x, y)

    fast = mg.graph(twice)
    fast(on(gpu, x), on(gpu, y))
    with pytest.raises(RuntimeError, match=r"between two steps of an optimizer.*Capture one step, and call it twice"):
        fast(on(gpu, x), on(gpu, y))


def test_a_setting_that_the_step_itself_changes_is_refused(gpu):
    net, (x, y) = Network(gpu), batch(0)

    def step(x, y):
        net.optimizer.momentum = 0.9  # as it is
        net.step(x, y)
        net.optimizer.lr *= 0.5

    fast = mg.graph(step)
    fast(on(gpu, x), on(gpu, y))
    with pytest.raises(RuntimeError, match=r"mg\.graph: the step sets lr, and a replay cannot"):
        fast(on(gpu, x), on(gpu, y))


def test_another_rate_prepares_nothing(repeating):
    w = mg.Tensor(Array.upload(repeating, np.zeros(3, np.float32)), True)
    w.grad = mg.Tensor(Array.upload(repeating, np.ones(3, np.float32)))
    sgd = mg.optim.SGD([w], lr=1.0)
    sgd.step()
    prepared = repeating.prepared
    for sgd.lr in (0.5, 0.25):
        sgd.step()
    assert w.numpy().tolist() == [-1.75] * 3 and repeating.prepared == prepared
