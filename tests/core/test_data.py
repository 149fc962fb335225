"""Digits, batches, and batches that are copied to the GPU ahead of time."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel


def host_batches(count):
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((8 if i < count - 1 else 3, 4)).astype(np.float32), np.arange(8)) for i in range(count)
    ]


def test_batches_cover_every_row_once():
    x, y = np.arange(10.0).reshape(10, 1), np.arange(10)
    pieces = list(mg.data.batches(x, y, size=4, seed=3))
    assert [len(labels) for _, labels in pieces] == [4, 4, 2]
    assert sorted(np.concatenate([labels.numpy() for _, labels in pieces])) == list(range(10))
    for images, labels in pieces:
        np.testing.assert_array_equal(images.numpy()[:, 0], labels.numpy())
    with pytest.raises(ValueError, match=r"images \(10, 1\) and labels \(9,\)"):
        mg.data.batches(x, y[:9])
    for late in (lambda: mg.data.batches(x, y, device="gpu"), lambda: mg.data.prefetch([], "gpu")):
        with pytest.raises(ValueError, match="device 'gpu' does not exist"):
            late()


def test_digits_are_1797_and_the_parts_share_none():
    digits = mg.data.digits()
    assert (len(digits.train.images), len(digits.test.images)) == (1437, 360)
    assert digits.train.images.dtype == np.float32
    assert digits.train.images.min() >= 0 and digits.train.images.max() <= 1
    assert set(digits.test.labels) == set(range(10))


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_prefetched_batches_are_the_batches(device, count):
    given = host_batches(count)
    got = list(mg.data.prefetch(given, device))
    assert len(got) == count
    for (x, y), (x_host, y_host) in zip(got, given, strict=True):
        assert x.device == device and np.array_equal(x.numpy(), x_host) and np.array_equal(y.numpy(), y_host)


def test_the_next_batch_travels_while_the_step_runs(gpu, monkeypatch):
    monkeypatch.setattr(mg.data, "check", lambda name: name)
    monkeypatch.setattr(mg.data, "get", lambda name: gpu)
    given = host_batches(6)
    total, w = 0.0, mg.Tensor(Array.upload(gpu, np.ones((4, 1), np.float32)))
    for i, (x, _) in enumerate(mg.data.prefetch(given, "cuda")):
        assert len(gpu.sender._stream.waiting) == 0  # every copy has its event
        total += (x @ w).sum().item()
        if i == 4:
            break  # the copy that is on its way ends before its memory is used again
    assert np.isclose(total, sum(x.sum() for x, _ in given[:5]), atol=1e-4)
    assert all(not piece.sent.todo for pieces in gpu.sender._locked.values() for piece in pieces)


@pytest.mark.parametrize("count", [2, 4])
def test_a_step_that_is_captured_takes_no_batch_itself(gpu, driver, monkeypatch, count):
    monkeypatch.setattr(mg.data, "check", lambda name: name)
    monkeypatch.setattr(mg.data, "get", lambda name: gpu)
    batches = mg.data.prefetch(((np.full((2, 2), i, np.float32),) for i in range(count)), "cuda")
    fast, x = mg.graph(lambda x: x + next(batches)[0]), mg.Tensor(Array.upload(gpu, np.ones((2, 2), np.float32)))
    assert fast(x).numpy().tolist() == [[1, 1], [1, 1]]  # it runs, with the first of them
    with pytest.raises(RuntimeError, match=r"the step (takes|sends) a batch while it is captured.*before the step\."):
        fast(x)
    assert driver.noted is None and (x + x).numpy().tolist() == [[2, 2], [2, 2]]
    assert all(not piece.sent.todo for pieces in gpu.sender._locked.values() for piece in pieces)


def test_memory_for_batches_of_ever_new_shapes_is_bounded(gpu):
    for n in range(1, 100):
        array, sent = gpu.sender.send(np.full(n, n, np.float32))
        gpu.sender.arrive([sent])
        assert array.numpy().tolist() == [n] * n
    assert len(gpu.sender._locked) == 16


def test_memory_for_batches_that_are_still_sent_is_kept(gpu, driver):
    taken = []
    driver.pagelocked_empty = lambda shape, dtype: taken.append(shape) or np.empty(shape, dtype)
    for n in range(100, 130):
        for size in (7, n):
            _, sent = gpu.sender.send(np.ones(size, np.float32))
            gpu.sender.arrive([sent])
    assert taken.count((7,)) == 2 and len(gpu.sender._locked) == 16


@pytest.mark.parametrize("fails", ["converts", "sends"])
def test_a_batch_of_which_a_part_is_refused_is_not_let_go_of_in_flight(gpu, driver, monkeypatch, fails):
    monkeypatch.setattr(mg.data, "check", lambda name: name)
    monkeypatch.setattr(mg.data, "get", lambda name: gpu)
    good = np.ones((512, 512), np.float32)
    batches = [(good,), (good, "words" if fails == "converts" else np.ones((1024, 1024), np.float32))]
    if fails == "sends":
        plain = driver.mem_alloc
        driver.mem_alloc = lambda n: plain(n) if n < 4 << 20 else (_ for _ in ()).throw(driver.MemoryError("full"))
        driver.mem_get_info = lambda: (0, 0)
    with pytest.raises((TypeError, MemoryError)):
        list(mg.data.prefetch(batches, "cuda"))
    pieces = [piece for kept in gpu.sender._locked.values() for piece in kept]
    assert pieces and all(not piece.sent.todo for piece in pieces)


@pytest.mark.gpu
def test_the_copy_of_a_batch_ends_while_a_step_runs(monkeypatch):
    gpu = get("cuda")
    spin, ended = Kernel("bench/spin.cu", "spin"), Array.zeros(gpu, (1,), np.dtype(np.int64))
    copies, steps, send = [], [], gpu.sender.send

    def watched(host):
        array, sent = send(host)
        copies.append(sent)
        return array, sent

    monkeypatch.setattr(gpu.sender, "send", watched)
    given = [(np.full((1024, 1024), i, np.float32),) for i in range(6)]
    for i, (x,) in enumerate(mg.data.prefetch(given, "cuda")):
        start = gpu.mark()
        spin(ended, int(1e8), grid=1, block=1)  # a step of 100 ms, for a GPU that others use at the same time
        assert x[0, 0].shape == ()
        steps.append((start, gpu.mark()))
        total = x.sum().item() if i == len(given) - 1 else None
    assert total == 5 * 1024 * 1024
    for sent, (start, stop) in list(zip(copies[2:], steps[1:], strict=False))[2:]:
        assert gpu.between(start, sent) > 0 and gpu.between(sent, stop) > 0


@pytest.mark.parametrize("batch", [np.ones((2, 3)), mg.ones(2, 3, device="numpy"), "ab", 3, {"x": np.ones(2)}])
def test_a_batch_that_is_prefetched_is_a_tuple(batch):
    with pytest.raises(
        TypeError, match=r"prefetch takes batches that are tuples of arrays, of a single array \(x,\); got"
    ):
        list(mg.data.prefetch([batch], "numpy"))
    with pytest.raises(TypeError, match=r"prefetch takes batches, e\.g\. data\.batches"):
        mg.data.prefetch(3, "numpy")


def test_more_digits_than_there_are_are_refused():
    pytest.importorskip("sklearn")
    with pytest.raises(ValueError, match="digits: test=5000 must be at most 1797"):
        mg.data.digits(test=5000)
