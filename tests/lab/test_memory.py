"""mg.memory: bytes by holder, counted by hand."""

import gc

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.array import Array
from minigrad.devices.cuda.pool import piece_size
from minigrad.lab.memory import timeline


@pytest.fixture
def before(device):
    """Bytes held on the device before the test, which looks at the increase."""
    gc.collect()
    found = mg.memory()
    return lambda holder: found.nbytes(holder, device)


def test_objects_of_others_are_not_woken():
    class Deprecated:
        @property
        def __class__(self):
            raise AssertionError("somebody asked for the class of a stranger")

    stranger = Deprecated()
    gc.collect()
    mg.memory()
    del stranger


def test_parameters_gradients_optimizer_and_tape_are_told_apart(device, before):
    def added(*holders):
        now = mg.memory()
        found = [now.nbytes(holder, device) - before(holder) for holder in holders]
        return found if len(found) > 1 else found[0]

    kinds = ("parameters", "gradients", "optimizer: SGD")
    w = mg.ones(30, 10, requires_grad=True, device=device)
    x = mg.ones(20, 30, device=device)
    optimizer = mg.optim.SGD([w], lr=0.1, momentum=0.9)
    assert added(*kinds, "tensors") == [1200, 0, 0, 2400]
    loss = (x @ w).exp().sum()
    exp, matmul = added("tape: exp", "tape: matmul")
    assert exp == 800  # y of exp; its input is freed
    assert matmul <= 4  # x belongs to its tensor, and a 0 stands for w, which no wanted gradient needs
    del x
    assert 2400 <= added("tape: matmul") <= 2404
    loss.backward()
    assert added("tape") == 0
    optimizer.step()
    assert added(*kinds) == [1200, 1200, 1200]
    del loss, w, optimizer
    gc.collect()
    assert added("") <= 8  # a constant that an op caches


def test_views_of_one_memory_count_once(device, before):
    x = mg.ones(100, device=device)
    views = [x, x.reshape(10, 10), x.detach()]
    assert mg.memory().nbytes("tensors", device) - before("tensors") == 400 and len(views) == 3


def test_it_is_a_table(before):
    kept = mg.ones(5, requires_grad=True, device="numpy")
    text = repr(mg.memory())
    assert text.splitlines()[0].split() == ["device", "held", "by", "arrays", "bytes"]
    assert "numpy   parameters" in text and "<table>" in mg.memory()._repr_html_() and kept.size == 5


def test_a_training_loop_takes_no_memory_after_its_first_steps(gpu, driver):
    w = mg.Tensor(Array.upload(gpu, np.ones((8, 4), np.float32)), True)
    optimizer = mg.optim.Adam([w])
    x = mg.Tensor(Array.upload(gpu, np.ones((5, 8), np.float32)))

    def step():
        optimizer.zero_grad()
        loss = (x @ w).exp().mean()
        loss.backward()
        optimizer.step()

    step(), step()
    taken, free = len(driver.taken), gpu.memory.pool.free
    for _ in range(5):
        step()
    assert (len(driver.taken), gpu.memory.pool.free) == (taken, free)


def test_what_a_graph_works_in_is_its_own(gpu, driver, monkeypatch):
    gc.collect()
    others = mg.memory().nbytes("", "cuda")  # arrays of other tests, on drivers of their own
    w = mg.Tensor(Array.upload(gpu, np.ones((8, 4), np.float32)), True)
    x = mg.Tensor(Array.upload(gpu, np.ones((5000, 8), np.float32)))

    def step(x):
        w.grad = None
        loss = (x @ w).exp().mean()
        loss.backward()
        return loss

    fast = mg.graph(step)
    fast(x)
    before = mg.memory()
    loss = fast(x)
    found = mg.memory()
    own = next(iter(fast._captured.values())).captured.pool.held
    of_graph = found.nbytes("graph: step", "cuda")
    assert before.nbytes("graph") == 0 and own > 80_000 and loss.size == 1
    assert own - 1024 <= of_graph < own, "without the gradient and the loss, which have names of their own"
    ((_, taken, free),) = found.pools
    assert taken == sum(piece_size(memory.nbytes) for memory in driver.taken)
    assert found.nbytes("", "cuda") - others <= taken - free
    del fast, loss
    w.grad = None
    gc.collect()
    assert mg.memory().nbytes("graph") == 0 and mg.memory().pools[0][1] == taken


def test_a_device_that_there_is_not():
    with pytest.raises(ValueError, match=r"device 'gpu' does not exist; the devices are numpy, sim, cuda"):
        mg.memory().nbytes("", "gpu")


@pytest.mark.gpu
def test_a_gpu_gives_no_memory_in_the_steady_state():
    w, x = mg.ones(64, 32, requires_grad=True, device="cuda"), mg.ones(16, 64, device="cuda")

    def step():
        w.grad = None
        (x @ w).exp().mean().backward()

    step(), step()
    (_, taken, free), *_ = mg.memory().pools
    for _ in range(20):
        step()
    assert mg.memory().pools == (("cuda", taken, free),)


def test_the_memory_of_a_step_rises_forward_and_falls_backward():
    w, x = mg.ones(4, 8, requires_grad=True, device="sim"), mg.ones(2, 4, device="sim")

    def step(x):
        w.grad = None
        (x @ w).exp().sum().backward()

    step(x)
    found = timeline(step, x)
    assert [name.split("_")[0] for name in found.kernels][:4] == ["matmul", "exp", "sum", "sum"]
    # x @ w; with exp; the sum, x @ w freed; its gradient; that of exp; that of w, 4 x 8, exp freed
    assert found.live == (64, 128, 68, 132, 196, 196) and found.peak == 196
    assert "allocate" not in vars(x.array.device)
    picture = mg.show.memory(step, x)
    assert f"holds at most {found.peak:,} bytes" in picture.title


def test_a_timeline_needs_sim():
    with pytest.raises(ValueError, match=r"show\.memory watches the launches of device 'sim'"):
        timeline(lambda x: x, mg.ones(2, device="numpy"))
    with pytest.raises(TypeError, match=r"show.memory takes a step and its tensors, as \(step, x, y\); got no tensor"):
        timeline(lambda: None)
    with pytest.raises(TypeError, match=r"show.memory takes a step .*; got NoneType None"):
        timeline(None, mg.ones(2, device="sim"))
