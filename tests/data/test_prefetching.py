"""Batches that another thread makes ahead of their use, and copies to the GPU: order, errors, ends, memory."""

import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.array import Array
from minigrad.devices.cuda.prefetch import SPARE
from minigrad.kernels.kernel import Kernel


def host_batches(count):
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((8 if i < count - 1 else 3, 4)).astype(np.float32), np.arange(8)) for i in range(count)
    ]


def on_fake(gpu, monkeypatch):
    """Let `cuda` be the fake GPU where batches are prefetched."""
    monkeypatch.setattr(mg.data.prefetching, "check", lambda name: name)
    monkeypatch.setattr(mg.data.prefetching, "get", lambda name: gpu)


def wait_for_the_threads():
    for thread in threading.enumerate():
        if thread.name.startswith("minigrad-batches"):
            thread.join(20)
            assert not thread.is_alive(), "".join(traceback.format_stack(sys._current_frames()[thread.ident]))


def nothing_in_flight(gpu):
    wait_for_the_threads()
    pieces = [piece for kind in gpu.sender._kinds.values() for piece in kind.locked]
    return bool(pieces) and all(not piece.sent.todo for piece in pieces)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_prefetched_batches_are_the_batches(device, count):
    given = host_batches(count)
    got = list(mg.data.prefetch(given, device))
    assert len(got) == count
    for (x, y), (x_host, y_host) in zip(got, given, strict=True):
        assert x.device == device and np.array_equal(x.numpy(), x_host) and np.array_equal(y.numpy(), y_host)


def test_the_next_batch_travels_while_the_step_runs(gpu, monkeypatch):
    on_fake(gpu, monkeypatch)
    given = host_batches(6)
    total, w = 0.0, mg.Tensor(Array.upload(gpu, np.ones((4, 1), np.float32)))
    for i, (x, _) in enumerate(mg.data.prefetch(given, "cuda")):
        with gpu.context.lock:
            assert len(gpu.sender._stream.waiting) == 0  # every copy has its event
        total += (x @ w).sum().item()
        if i == 4:
            break  # the copy that is on its way ends before its memory is used again
    assert np.isclose(total, sum(x.sum() for x, _ in given[:5]), atol=1e-4)
    assert nothing_in_flight(gpu)


def test_the_memory_of_earlier_batches_is_used_again(gpu, monkeypatch):
    on_fake(gpu, monkeypatch)
    for i, (x,) in enumerate(mg.data.prefetch(((np.full(4, float(i)),) for i in range(30)), "cuda")):
        assert (x + 0).numpy().tolist() == [i] * 4
    (kind,) = gpu.sender._kinds.values()
    assert len(kind.pieces) <= 4 + SPARE


@pytest.mark.parametrize("count", [2, 4])
def test_a_step_that_is_captured_takes_no_batch_itself(gpu, driver, monkeypatch, count):
    on_fake(gpu, monkeypatch)
    batches = mg.data.prefetch(((np.full((2, 2), i, np.float32),) for i in range(count)), "cuda")
    fast, x = mg.graph(lambda x: x + next(batches)[0]), mg.Tensor(Array.upload(gpu, np.ones((2, 2), np.float32)))
    assert fast(x).numpy().tolist() == [[1, 1], [1, 1]]  # it runs, with the first of them
    with pytest.raises(RuntimeError, match=r"the step (takes|sends) a batch while it is captured.*before the step\."):
        fast(x)
    assert driver.noted is None and (x + x).numpy().tolist() == [[2, 2], [2, 2]]
    assert nothing_in_flight(gpu)


def test_memory_for_batches_of_ever_new_shapes_is_bounded(gpu):
    for n in range(1, 100):
        array, sent = gpu.sender.send(np.full(n, n, np.float32))
        gpu.sender.arrive([sent])
        assert array.numpy().tolist() == [n] * n
    assert len(gpu.sender._kinds) == 16


def test_memory_for_batches_that_are_still_sent_is_kept(gpu, driver):
    taken = []
    driver.pagelocked_empty = lambda shape, dtype: taken.append(shape) or np.empty(shape, dtype)
    for n in range(100, 130):
        for size in (7, n):
            _, sent = gpu.sender.send(np.ones(size, np.float32))
            gpu.sender.arrive([sent])
    assert taken.count((7,)) == 2 and len(gpu.sender._kinds) == 16


@pytest.mark.parametrize("fails", ["converts", "sends"])
def test_a_batch_of_which_a_part_is_refused_is_not_let_go_of_in_flight(gpu, driver, monkeypatch, fails):
    on_fake(gpu, monkeypatch)
    good = np.ones((512, 512), np.float32)
    batches = [(good,), (good, "words" if fails == "converts" else np.ones((1024, 1024), np.float32))]
    if fails == "sends":
        plain = driver.mem_alloc
        driver.mem_alloc = lambda n: plain(n) if n < 4 << 20 else (_ for _ in ()).throw(driver.MemoryError("full"))
        driver.mem_get_info = lambda: (0, 0)
    with pytest.raises((TypeError, MemoryError)):
        list(mg.data.prefetch(batches, "cuda"))
    assert nothing_in_flight(gpu)


@pytest.mark.gpu
def test_the_copy_of_a_batch_ends_while_a_step_runs(monkeypatch):
    gpu = get("cuda")
    spin, ended = Kernel("bench/spin.cu", "spin"), Array.zeros(gpu, (1,), np.dtype(np.int64))
    spin(ended, 1, grid=1, block=1)  # compiles it: in the loop a step would wait for the compiler
    assert mg.ones(1024, 1024, device="cuda")[0, 0].item() == 1
    copies, steps, send = [], [], gpu.sender.send

    def watched(host):
        array, sent = send(host)
        copies.append(sent)
        return array, sent

    monkeypatch.setattr(gpu.sender, "send", watched)
    given = [(np.full((1024, 1024), i, np.float32),) for i in range(8)]
    for i, (x,) in enumerate(mg.data.prefetch(given, "cuda")):
        start = gpu.mark()
        spin(ended, int(1e8), grid=1, block=1)  # a step of 100 ms, for a GPU that others use at the same time
        assert x[0, 0].shape == ()
        steps.append((start, gpu.mark()))
        assert gpu.between(start, start) == 0  # waits: what is asked for from now on is sent after the step's start
        total = x.sum().item() if i == len(given) - 1 else None
    assert total == 7 * 1024 * 1024
    for sent in copies[4:]:  # the fourth may be asked for before the first step has begun
        times = [(gpu.between(start, sent), gpu.between(sent, stop)) for start, stop in steps]
        assert any(after > 0 and before > 0 for after, before in times), times


@pytest.mark.parametrize("batch", [np.ones((2, 3)), mg.ones(2, 3, device="numpy"), "ab", 3, {"x": np.ones(2)}])
def test_a_batch_that_is_prefetched_is_a_tuple(batch):
    with pytest.raises(
        TypeError, match=r"prefetch takes batches that are tuples of arrays, of a single array \(x,\); got"
    ):
        list(mg.data.prefetch([batch], "numpy"))
    with pytest.raises(TypeError, match=r"prefetch takes batches, e\.g\. data\.batches"):
        mg.data.prefetch(3, "numpy")


def test_another_thread_makes_the_batches_two_ahead(device):
    makers, asked = [], threading.Semaphore(0)

    def batches():
        for i in range(6):
            makers.append(threading.current_thread())
            asked.release()
            yield (np.full(2, i),)

    loop = mg.data.prefetch(batches(), device)
    assert not makers, "nothing begins before the loop does"
    for i in range(3):
        (x,) = next(loop)
        for _ in range(1 if i else 3):
            assert asked.acquire(timeout=20), "two more are made while the step runs"
        assert x.numpy().tolist() == [i, i] and len(makers) == i + 3
    assert threading.current_thread() not in makers and len({*makers}) == 1
    loop.close()
    wait_for_the_threads()
    assert len(makers) == 5, "nobody asks for the last batch"


def test_a_loop_that_ends_early_ends_the_thread(device):
    made = []

    def forever():
        while True:
            made.append(len(made))
            yield (np.zeros(1),)

    for _ in mg.data.prefetch(forever(), device):
        break
    wait_for_the_threads()
    with pytest.raises(ZeroDivisionError):
        for _ in mg.data.prefetch(forever(), device):
            1 / 0  # noqa: B018
    wait_for_the_threads()
    assert 2 <= len(made) <= 6


def test_an_error_in_a_batch_is_raised_in_the_loop_after_the_batches_before_it(device):
    def batches():
        yield (np.zeros(1),)
        yield (np.ones(1),)
        raise OSError("the disk is gone")

    seen = []
    with pytest.raises(OSError, match="the disk is gone") as raised:
        for (x,) in mg.data.prefetch(batches(), device):
            seen.append(x.item())
    assert seen == [0, 1] and any("batches" in entry.name for entry in raised.traceback), "it says where"
    wait_for_the_threads()


def test_batches_in_vain_are_let_go_of_by_the_thread_that_makes_them(gpu, driver, monkeypatch):
    """The loop ends while the thread waits for the lock, which a step may hold as it is captured."""
    on_fake(gpu, monkeypatch)
    begun, end = threading.Event(), threading.Event()

    def batches():
        yield (np.ones(300, np.float32),)
        begun.set()
        assert end.wait(20)
        yield (np.ones(300, np.float32),)
        made.append("a batch that was queued, and is wanted no longer")

    made = []
    loop = mg.data.prefetch(batches(), "cuda")
    (x,) = next(loop)
    assert begun.wait(20)
    with gpu.context.lock:
        end.set()
        loop.close()
    assert nothing_in_flight(gpu) and x.numpy().sum() == 300 and not made


def test_launches_go_on_while_a_large_batch_is_copied_to_page_locked_memory(gpu, driver, monkeypatch):
    on_fake(gpu, monkeypatch)
    filling, go_on = threading.Event(), threading.Event()

    class Slow(np.ndarray):
        def __setitem__(self, place, host):
            filling.set()
            assert go_on.wait(20)
            super().__setitem__(place, host)

    w = mg.Tensor(Array.upload(gpu, np.ones(4, np.float32)))
    driver.pagelocked_empty = lambda shape, dtype: np.empty(shape, dtype).view(Slow)
    loop = mg.data.prefetch([(np.ones(4, np.float32),)], "cuda")
    taker = threading.Thread(target=lambda: next(loop))
    taker.start()
    assert filling.wait(20) and gpu.context.lock.acquire(timeout=20), "the lock is free"
    gpu.context.lock.release()
    assert (w + w).numpy().tolist() == [2] * 4
    go_on.set()
    taker.join(20)
    loop.close()
    wait_for_the_threads()


def test_a_loop_that_outlives_the_gpu_ends_quietly(gpu, driver, monkeypatch, caplog):
    """As Python exits: the threads have ended, the GPU is closed, and then what is left is deleted."""
    on_fake(gpu, monkeypatch)
    ended = threading.Event()

    def batches():
        yield from host_batches(2)
        ended.set()

    loop = mg.data.prefetch(batches(), "cuda")
    next(loop)
    assert ended.wait(20)
    gpu.close()
    loop.close()
    wait_for_the_threads()
    assert not caplog.records


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "1 / 0"])
def test_a_program_may_end_within_a_loop(end):
    program = f"""
import itertools, numpy, minigrad as mg
loop = mg.data.prefetch(((numpy.ones(3),) for _ in itertools.count()), "numpy")
next(loop)
{end}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == {"": 0, "1 / 0": 1}.get(end, 3)
    assert done.stderr.strip().endswith("ZeroDivisionError: division by zero") if "/" in end else not done.stderr


@pytest.mark.parametrize("device", ["numpy", "sim"])
def test_a_producer_may_use_its_memory_again(device):
    memory = np.zeros(2, np.float32)

    def batches():
        for i in range(5):
            memory[:] = i
            yield (memory,)

    found = []
    for (x,) in mg.data.prefetch(batches(), device):
        time.sleep(0.01)  # the other thread makes the next ones meanwhile
        found.append(x.numpy()[0])
    assert found == [0, 1, 2, 3, 4]
