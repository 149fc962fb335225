"""mg.graph: a step captured and replayed takes the same steps as one that runs, here over a fake driver."""

from typing import NamedTuple

import numpy as np
import pytest
from graph_steps import Network, batch, on

import minigrad as mg

MAKERS = {"sgd": lambda p: mg.optim.SGD(p, 0.1, 0.9), "adam": lambda p: mg.optim.Adam(p, 0.05)}


def follow(step_of, gpu, calls=5):
    """Take the same steps by a graph and on `numpy`; after each, all parameters must be equal."""
    ours, truth = Network(gpu), Network(None)
    fast, plain = mg.graph(step_of(ours)), step_of(truth)
    for i in range(calls):
        x, y = batch(i)
        fast(on(gpu, x), on(gpu, y)), plain(mg.Tensor(x), mg.Tensor(y))
        for p, q in zip(ours.parameters, truth.parameters, strict=True):
            np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=5e-5, atol=1e-6)
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=5e-5, atol=1e-6)
    return fast


class Found(NamedTuple):
    double: mg.Tensor
    rest: dict


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_replays_take_the_steps_of_numpy(gpu, driver, make):
    ours, truth = Network(gpu, make), Network(None, make)
    fast = mg.graph(ours.step)
    for i in range(6):
        x, y = batch(i, rows=4 if i != 3 else 2)  # another shape in between runs, and has no graph yet
        loss, expected = fast(on(gpu, x), on(gpu, y)), truth.step(mg.Tensor(x), mg.Tensor(y))
        np.testing.assert_allclose(loss.numpy(), expected.numpy(), rtol=1e-5)
        for p, q in zip(ours.parameters, truth.parameters, strict=True):
            np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=2e-5, atol=1e-6)
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=2e-5, atol=1e-6)
    assert fast.replays == driver.calls["replay"] == 4


def test_a_replay_launches_nothing_else_and_takes_no_memory(gpu, driver):
    net = Network(gpu)
    fast, (x, y) = mg.graph(net.step), batch(0)
    x, y = on(gpu, x), on(gpu, y)
    results = [fast(x, y) for _ in range(2)]
    before = dict(driver.calls)
    results += [fast(x, y) for _ in range(3)]
    changed = {name: n - before.get(name, 0) for name, n in driver.calls.items() if n != before.get(name, 0)}
    assert changed == {"replay": 3, "copy": 6}
    assert results[1] is results[2] is results[4] is not results[0]


@pytest.mark.parametrize(
    "read, message",
    [
        (lambda x: x.sum().item(), r"reads a tensor on the host.*read it after the step"),
        (lambda x: x.numpy(), "reads a tensor on the host"),
        (lambda x: x * on(x.array.device, np.ones(3, np.float32)), "sends data to the GPU.*as an argument"),
    ],
)
def test_what_cannot_be_captured_is_refused_and_harms_nothing(gpu, driver, read, message):
    fast, x = mg.graph(read), on(gpu, np.ones(3, np.float32))
    fast(x)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"mg.graph: the step {message}"):
            fast(x)
    assert (x + x).numpy().tolist() == [2, 2, 2] and driver.noted is None


def test_gradients_from_before_are_refused(gpu):
    net = Network(gpu)

    def step(x, y):
        net.loss(x, y).backward()
        net.optimizer.step()

    x, y = (on(gpu, part) for part in batch(0))
    fast = mg.graph(step)
    fast(x, y)
    with pytest.raises(RuntimeError, match=r"adds to a gradient that was there before it.*zero_grad"):
        fast(x, y)
    for _ in range(2):
        net.optimizer.zero_grad()  # outside will do, if it is done every time
        fast(x, y)
    with pytest.raises(RuntimeError, match="zero_grad"):
        fast(x, y)


def test_a_replay_is_a_write_in_place(gpu):
    net, (x, y) = Network(gpu), batch(0)
    x, y = on(gpu, x), on(gpu, y)
    fast = mg.graph(net.step)
    fast(x, y), fast(x, y)
    loss = net.loss(x, y)
    fast(x, y)
    with pytest.raises(RuntimeError, match="kept b at version"):
        loss.backward()


@pytest.mark.parametrize("device", ["numpy", "sim"])
def test_where_there_are_no_graphs_the_step_runs(device):
    w = mg.ones(3, requires_grad=True, device=device)
    fast = mg.graph(lambda x: (x * w).sum())
    x = mg.tensor([1.0, 2.0, 3.0], device=device)
    assert [fast(x).item() for _ in range(3)] == [6, 6, 6] and fast.replays == 0
    assert "no graphs, so the step runs as it is" in repr(fast)


def test_it_says_what_it_is(gpu):
    fast = mg.graph(Network(gpu).step)
    assert repr(fast) == "graph of step: not captured yet; the second call does that"
    x, y = (on(gpu, part) for part in batch(0))
    for _ in range(3):
        fast(x, y)
    assert "launches and copies for float32 (4, 5), int64 (4,) in " in repr(fast)
    assert "captured 1 and replayed 2 times" in repr(fast)
    with pytest.raises(TypeError, match=r"mg.graph takes a step whose arguments are tensors; got ndarray"):
        fast(np.ones(3))
    with pytest.raises(TypeError, match=r"mg.graph takes a function of tensors"):
        mg.graph(3)


def test_what_would_be_lost_is_refused_as_input(gpu):
    x = on(gpu, np.ones(3, np.float32))
    with pytest.raises(TypeError, match="an argument requires a gradient"):
        mg.graph(lambda x: x.sum())(on(gpu, np.ones(3, np.float32), True))

    def grow(x):
        x += 1.0
        return x * 2.0

    fast = mg.graph(grow)
    fast(x)
    with pytest.raises(RuntimeError, match="changes an input in place"):
        fast(x)


def test_a_refused_capture_leaves_no_gradient_behind(gpu):
    ours = Network(gpu)

    def step(x, y):
        loss = ours.step(x, y)
        return loss.item()

    fast = mg.graph(step)
    x, y = (on(gpu, part) for part in batch(0))
    fast(x, y)
    with pytest.raises(RuntimeError, match=r"mg\.graph"):
        fast(x, y)
    assert all(p.grad is None for p in ours.parameters)
    ours.step(x, y)
    assert all(np.isfinite(p.numpy()).all() for p in ours.parameters)


def test_gradients_forgotten_at_the_end_of_a_step(gpu):
    ours, truth = Network(gpu), Network(None)

    def of(network):
        def step(x, y):
            loss = network.loss(x, y)
            loss.backward()
            network.optimizer.step()
            network.optimizer.zero_grad()
            return loss

        return step

    fast, plain = mg.graph(of(ours)), of(truth)
    for i in range(5):
        x, y = batch(i)
        np.testing.assert_allclose(
            fast(on(gpu, x), on(gpu, y)).numpy(), plain(mg.Tensor(x), mg.Tensor(y)).numpy(), rtol=1e-5
        )
        assert all(p.grad is None for p in ours.parameters)


def test_a_result_that_a_replay_overwrites_has_a_new_version(gpu):
    fast, w = mg.graph(lambda x: x * 2.0), on(gpu, np.ones(3, np.float32), True)
    x = on(gpu, np.ones(3, np.float32))
    for _ in range(2):
        h = fast(x)
    loss = (h * w).sum()
    fast(x)
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_a_step_with_the_gradients_of_the_step_before(gpu):
    def late(network):
        network.step(*(on(network.gpu, part) if network.gpu else mg.Tensor(part) for part in batch(9)))

        def step(x, y):
            network.optimizer.step()
            network.optimizer.zero_grad()
            network.loss(x, y).backward()

        return step

    follow(late, gpu)


def test_a_gradient_that_the_step_reads_may_be_another_each_time(gpu):
    w = on(gpu, np.ones(3, np.float32), True)

    def update(lr):
        with mg.no_grad():
            w.assign(w - lr * w.grad)

    fast, truth = mg.graph(update), np.ones(3, np.float32)
    for i in range(5):
        g = np.full(3, i, np.float32)
        w.grad = None  # what was there is free, and may be handed out again
        others = [on(gpu, np.full(3, 9, np.float32)) for _ in range(3)]
        w.grad = on(gpu, g)
        fast(on(gpu, np.float32(0.5)))
        truth -= np.float32(0.5) * g
        np.testing.assert_array_equal(w.numpy(), truth)
        assert len(others) == 3
    assert fast.captures == 4
    held = w.grad
    for _ in range(3):
        w.grad = held
        fast(on(gpu, np.float32(0.5)))
        truth -= np.float32(0.5) * g
        np.testing.assert_array_equal(w.numpy(), truth)
    assert fast.captures == 4


def test_it_says_so_where_every_step_is_captured_anew(gpu):
    ours = Network(gpu)
    fast, (x, y) = mg.graph(ours.step), (on(gpu, part) for part in batch(0))
    fast(x, y)
    for i in range(4):
        ours.optimizer.momentum = i / 10
        fast(x, y)
    ours.optimizer.momentum = 0.5
    with pytest.warns(RuntimeWarning, match="captured anew 4 times in a row.*Change the numbers of an optimizer once"):
        fast(x, y)


def test_gradients_that_the_step_changes_are_there_after_a_replay(gpu):
    def clipped(network):
        def step(x, y):
            network.optimizer.zero_grad()
            network.loss(x, y).backward()
            for p in network.parameters:
                p.grad = p.grad * 0.5
            network.optimizer.step()

        return step

    assert follow(clipped, gpu).replays == 4


def test_a_tensor_that_the_step_replaces_is_refused(gpu, driver):
    state = [on(gpu, np.zeros(3, np.float32))]

    def step(x):
        state.append(state.pop() + x)
        return state[0]

    fast, x = mg.graph(step), on(gpu, np.ones(3, np.float32))
    fast(x)
    with pytest.raises(RuntimeError, match=r"lets go of a tensor that it works on.*x\.assign\(new\)"):
        fast(x)
    assert driver.noted is None


def test_a_step_that_the_driver_stops_noting_says_what_was_wrong_with_it(gpu, driver):
    waits = [False]

    def step(x):
        if waits[0]:
            gpu.stream.synchronize()  # which CUDA forbids, and ends the capture
        return x * 2.0

    fast, x = mg.graph(step), on(gpu, np.ones(3, np.float32))
    fast(x)
    waits[0] = True
    with pytest.raises(driver.Error, match="not permitted when stream is capturing"):
        fast(x)
    waits[0] = False
    assert fast(x).numpy().tolist() == [2, 2, 2] and fast.replays == 1


def test_a_graph_within_a_step_is_part_of_its_graph(gpu):
    ours, truth = Network(gpu), Network(None)
    inner = mg.graph(ours.step)
    fast = mg.graph(lambda x, y: inner(x, y))
    for i in range(6):
        ours.optimizer.momentum = truth.optimizer.momentum = 0.5 + 0.1 * (i > 3)
        x, y = batch(i)
        loss, expected = fast(on(gpu, x), on(gpu, y)), truth.step(mg.Tensor(x), mg.Tensor(y))
        np.testing.assert_allclose(loss.numpy(), expected.numpy(), rtol=1e-5)
    assert fast.captures == 2 and inner.captures == 0


@pytest.mark.parametrize("frozen_first", [True, False])
def test_a_leaf_that_is_frozen_or_thawed_needs_another_graph(gpu, frozen_first):
    ours, truth = Network(gpu), Network(None)
    fast = mg.graph(ours.step)
    for i in range(10):
        for net in (ours, truth):
            net.parameters[2].requires_grad = (i >= 5) == frozen_first
        x, y = batch(i)
        fast(on(gpu, x), on(gpu, y)), truth.step(mg.Tensor(x), mg.Tensor(y))
        for p, q in zip(ours.parameters, truth.parameters, strict=True):
            np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-4, atol=1e-6)
            assert (p.grad is None) == (q.grad is None)
    assert fast.captures == 2 and fast.replays == 8  # each step runs once


def test_a_leaf_that_no_optimizer_knows_may_be_thawed(gpu):
    w, v = (on(gpu, np.ones(3, np.float32), True) for _ in range(2))
    v.requires_grad = False

    def step(x):
        w.grad = v.grad = None
        (x * w * v).sum().backward()

    fast, x = mg.graph(step), on(gpu, np.full(3, 2, np.float32))
    fast(x), fast(x)
    v.requires_grad = True
    fast(x), fast(x)
    assert v.grad.numpy().tolist() == [2.0] * 3 and fast.captures == 2
    others = [on(gpu, np.ones(3, np.float32), True) for _ in range(3)]
    others[0].requires_grad = False
    fast(x)
    assert fast.captures == 2


def test_a_gradient_that_the_step_only_forgets_is_forgotten(gpu):
    w, v = (on(gpu, np.ones(3, np.float32), True) for _ in range(2))

    def step(x):
        w.grad = v.grad = None
        (x * w).sum().backward()

    fast, x = mg.graph(step), on(gpu, np.ones(3, np.float32))
    for _ in range(4):
        v.grad = on(gpu, np.ones(3, np.float32))
        fast(x)
        assert v.grad is None and w.grad is not None


def test_a_result_may_be_a_named_tuple_or_a_dict(gpu):
    w, later = on(gpu, np.ones(3, np.float32), True), []
    fast = mg.graph(lambda x: Found(x * w, {"sum": (x * w).sum(), "count": 3}))
    for i in range(4):
        found = fast(on(gpu, np.full(3, i, np.float32)))
        assert type(found) is Found and found.rest["count"] == 3 and found.rest["sum"].item() == 3 * i
        later.append((found.rest["sum"] * w).sum())
    assert found.double.is_leaf and found.rest["sum"].is_leaf
    with pytest.raises(RuntimeError, match="changed in place"):
        later[2].backward()


def test_a_result_in_which_tensors_may_hide_is_refused(gpu):
    fast, x = mg.graph(lambda x: {x * 2.0}), on(gpu, np.ones(3, np.float32))
    fast(x)
    with pytest.raises(TypeError, match=r"a step that returns tensors, in tuples, lists or dicts; got set \{tensor"):
        fast(x)


def test_images_with_their_channels_last_keep_their_places(gpu):
    fast = mg.graph(lambda x: x * 2)
    images = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    for start in range(4):
        doubled = fast(on(gpu, images + start).to(layout="NHWC"))
        assert (doubled.numpy() == 2 * (images + start)).all() and doubled.layout == "NHWC"
