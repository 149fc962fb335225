"""The memory of captured graphs, and other threads while one is captured."""

import gc
import threading

import numpy as np
import pytest
from graph_steps import Network, batch, on

import minigrad as mg
from minigrad.devices.cuda.pool import piece_size
from minigrad.errors import LaunchError


def test_the_memory_of_a_graph_is_its_own(gpu):
    net = Network(gpu)
    fast, (x, y) = mg.graph(net.step), batch(0)
    x, y = on(gpu, x), on(gpu, y)
    for _ in range(3):
        fast(x, y)
    held = net.w1.grad.array.address
    others = [gpu.allocate(n) for n in (12, 28, 60, 84, 140) for _ in range(20)]
    assert held not in [other.address for other in others]
    (captured,) = fast._captured.values()
    pool = captured.captured.pool
    assert pool.held and not {other.address for other in others} & set(pool.pieces)


def test_a_dropped_graph_gives_its_memory_back(gpu, driver):
    net = Network(gpu)
    fast, (x, y) = mg.graph(net.step), batch(0)
    x, y = on(gpu, x), on(gpu, y)
    for _ in range(3):
        fast(x, y)
    held, taken = gpu.memory.pool.held, len(driver.taken)
    own = next(iter(fast._captured.values())).captured.pool.held
    del fast
    gc.collect()
    assert gpu.memory.usage[0] == held + own and not driver.graphs
    net.optimizer.zero_grad()  # the gradients lay in the graph's memory
    net.step(x, y)
    assert len(driver.taken) == taken


def test_what_a_graph_works_on_stays(gpu):
    held = [on(gpu, np.ones(3, np.float32))]
    fast = mg.graph(lambda x: x * held[0])
    x = on(gpu, np.array([1, 2, 3], np.float32))
    fast(x), fast(x)
    address = held.pop().array.address
    others = [gpu.allocate(12) for _ in range(50)]
    assert address not in [other.address for other in others]
    assert fast(x).numpy().tolist() == [1, 2, 3]


def test_another_thread_gets_no_memory_of_a_graph_that_is_being_captured(gpu):
    net, got = Network(gpu), []
    threads = []

    def step(x, y):
        loss = net.step(x, y)
        threads.append(threading.Thread(target=lambda: got.append(gpu.allocate(12))))
        threads[-1].start()
        threads[-1].join(0.05)
        return loss

    fast, (x, y) = mg.graph(step), batch(0)
    x, y = on(gpu, x), on(gpu, y)
    for _ in range(3):
        fast(x, y)
    for thread in threads:
        thread.join()
    (captured,) = fast._captured.values()
    assert len(got) == 2 and not {b.address for b in got} & captured.captured.pool.pieces.keys()


def test_graphs_are_closed_before_the_context(gpu, driver):
    net = Network(gpu)
    fast, (x, y) = mg.graph(net.step), batch(0)
    x, y = on(gpu, x), on(gpu, y)
    for _ in range(3):
        fast(x, y)
    gpu.close()
    assert not driver.graphs and not driver.taken and not driver.handles
    del fast
    gc.collect()


def test_a_full_gpu_gets_back_what_all_hold_during_a_capture_too(gpu, driver):
    waits = gpu.allocate(3 << 20)
    del waits
    fast, x = mg.graph(lambda x: (x * 2.0).sum()), on(gpu, np.ones((512, 512), np.float32))
    fast(x)
    capacity = sum(memory.nbytes for memory in driver.taken)
    plain = driver.mem_alloc

    def mem_alloc(nbytes):
        if sum(memory.nbytes for memory in driver.taken) + nbytes > capacity:
            raise driver.MemoryError("full")
        return plain(nbytes)

    driver.mem_alloc = mem_alloc
    driver.mem_get_info = lambda: (0, capacity)
    assert fast(x).item() == fast(x).item() == 2 * 512 * 512


def test_a_graph_that_is_captured_anew_takes_no_more_memory(gpu, driver):
    net, (x, y) = Network(gpu), batch(0)
    fast, (x, y) = mg.graph(net.step), (on(gpu, x), on(gpu, y))
    taken = []
    with pytest.warns(RuntimeWarning, match="captured anew"):
        for i in range(8):
            net.optimizer.momentum = 0.5 + i / 100
            fast(x, y)
            taken.append(len(driver.taken))
    assert taken[-1] == taken[3]


def test_a_capture_that_fails_at_its_end_keeps_no_memory(gpu, driver):
    net, (x, y) = Network(gpu), batch(0)
    fast, x, y = mg.graph(net.step), on(gpu, x), on(gpu, y)
    fast(x, y)
    net.optimizer.zero_grad()
    driver.cuGraphInstantiateWithFlags, driver.said = lambda place, graph, flags: 2, "out of memory"
    with pytest.raises(LaunchError, match="cuGraphInstantiateWithFlags failed: out of memory; this step"):
        fast(x, y)
    gc.collect()
    assert gpu.memory.usage[0] == sum(piece_size(memory.nbytes) for memory in driver.taken)
    del driver.cuGraphInstantiateWithFlags
    fast(x, y)
    assert fast.replays == 1


@pytest.mark.parametrize("call", ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_at_a_call_of_a_capture_leaves_no_stream_capturing(gpu, driver, call, when):
    fast, x = mg.graph(lambda x: x * 2.0), on(gpu, np.ones(3, np.float32))
    fast(x)
    plain = getattr(driver, call)

    def interrupted(*arguments):
        delattr(driver, call)
        if when == "after":
            plain(*arguments)
        raise KeyboardInterrupt

    setattr(driver, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        fast(x)
    assert driver.noted is None and not gpu.context.capturing
    assert fast(x).numpy().tolist() == [2, 2, 2] and fast.replays == 1


def test_graphs_are_given_back_with_the_context_current(gpu, driver):
    x = on(gpu, np.ones(3, np.float32))

    def use():
        fast = mg.graph(lambda x: x * 2.0)
        fast(x), fast(x)

    for let_go in (lambda: gpu.memory.usage, lambda: gpu.allocate(999_999)):
        use()
        gc.collect()
        driver.thread = None  # as on a thread of which CUDA knows nothing
        let_go()
        assert not driver.graphs


def test_another_thread_waits_until_a_capture_has_ended(gpu):
    net, (x, y) = Network(gpu), batch(0)
    there, got, threads = on(gpu, np.zeros(3, np.float32)), [], []
    calls = {
        "sends": lambda: gpu.upload(there.array.address, np.ones(3, np.float32)),
        "reads": there.numpy,
        "prefetches": lambda: gpu.sender.send(np.ones(2, np.float32)),
    }

    def work(name):
        try:
            calls[name]()
            got.append(name)
        except RuntimeError as error:
            got.append(error)

    def step(x, y):
        loss = net.step(x, y)
        threads[:] = [threading.Thread(target=work, args=[name]) for name in calls]
        for thread in threads:
            thread.start()
            thread.join(0.05)
        return loss

    fast, x, y = mg.graph(step), on(gpu, x), on(gpu, y)
    fast(x, y)
    got.clear()
    fast(x, y)
    for thread in threads:
        thread.join()
    assert set(got) == set(calls)


def test_a_copy_by_another_thread_is_not_held_by_a_graph(gpu):
    a, b = (on(gpu, np.ones(3, np.float32)) for _ in range(2))
    threads = []

    def step(x):
        threads.append(threading.Thread(target=lambda: a.assign(b)))
        threads[-1].start()
        threads[-1].join(0.05)
        return x * 2.0

    fast, x = mg.graph(step), on(gpu, np.ones(3, np.float32))
    fast(x), fast(x)
    for thread in threads:
        thread.join()
    (captured,) = fast._captured.values()
    assert {buffer.address for buffer in captured.captured.held}.isdisjoint({a.array.address, b.array.address})


def test_lists_of_pools_that_were_taken_over_go_when_all_is_back(gpu):
    net, (x, y) = Network(gpu), batch(0)
    fast, x, y = mg.graph(net.step), on(gpu, x), on(gpu, y)
    with pytest.warns(RuntimeWarning, match="captured anew"):
        for i in range(8):
            net.optimizer.momentum = 0.5 + i / 100
            loss = fast(x, y)
    fast._captured.clear()
    net.optimizer.zero_grad()
    del loss, fast
    gc.collect()
    assert gpu.memory.usage[1] and not gpu.memory.pool._adopted


def test_a_graph_may_be_dropped_while_another_thread_holds_the_lock(gpu, driver):
    fast, x = mg.graph(lambda x: x * 2.0), on(gpu, np.ones(3, np.float32))
    fast(x), fast(x)
    holding, leave = threading.Event(), threading.Event()

    def hold():
        with gpu.context.lock:
            holding.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(10)
    before = dict(gpu.memory.pool.pieces)
    try:
        del fast
        gc.collect()
        assert gpu.memory.pool.pieces == before and driver.graphs
    finally:
        leave.set()
        thread.join()
    assert gpu.memory.usage[0] > sum(size for _, size in before.values()) and not driver.graphs


def test_the_memory_of_a_dropped_graph_is_used_before_any_is_taken(gpu, driver):
    fast, x = mg.graph(lambda x: (x * 2.0).sum()), on(gpu, np.ones(1 << 18, np.float32))
    fast(x), fast(x)
    others, size = [], piece_size(x.array.nbytes)
    while gpu.memory.pool._free[size]:
        others.append(gpu.allocate(size))
    taken = len(driver.taken)
    del fast
    gc.collect()
    others += [gpu.allocate(size) for _ in range(2)]  # that of the graph's input, and that of x * 2
    assert len(driver.taken) == taken and not driver.graphs
