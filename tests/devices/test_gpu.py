"""The device `cuda` over a fake driver: its answers to the driver's errors, and several GPUs."""

import numpy as np
import pytest
from fake_cuda import CONTEXT

import minigrad as mg
from minigrad.devices import canonical, check, get, is_gpu, why_not
from minigrad.devices.array import Array
from minigrad.devices.cuda.gpu import GPU
from minigrad.devices.cuda.pool import piece_size
from minigrad.errors import DeviceError, KernelError, LaunchError
from minigrad.kernels.arguments import bind
from minigrad.kernels.kernel import Kernel

RELU = Kernel("relu.cu", "relu_forward")


def launch(gpu):
    x, y = (Array.empty(gpu, (4,), np.dtype(np.float32)) for _ in range(2))
    arguments = bind("relu_forward", RELU.signature.params, (x, y, 4)).arguments
    gpu.launch(gpu.build(RELU.source, {}, "relu_forward"), "relu_forward", (1, 1, 1), (32, 1, 1), 0, arguments)


def test_a_rejected_launch_names_its_registers_and_harms_nothing(driver, gpu):
    driver.refuses = "launch"
    with pytest.raises(
        LaunchError, match=r"relu_forward: the GPU rejected grid=\(1, 1, 1\).* 255 registers.* 1024 bytes"
    ):
        launch(gpu)
    driver.refuses = ""
    launch(gpu)
    gpu.synchronize()


def test_page_locked_memory_is_freed_after_an_error_too(driver, gpu):
    class Freed:
        count = 0

        def free(self):
            Freed.count += 1

    class Locked(np.ndarray):
        base = Freed()

    driver.pagelocked_empty = lambda nbytes, dtype: np.empty(nbytes, dtype).view(Locked)
    with pytest.raises(ZeroDivisionError), gpu.page_locked(8):
        raise ZeroDivisionError
    assert Freed.count == 1


@pytest.mark.parametrize("call", ["get_function", "mem_alloc"])
def test_a_rejected_call_harms_nothing(driver, gpu, call):
    driver.refuses = call
    with pytest.raises(LaunchError, match=f"Fake rejected: .*{call} failed"):
        launch(gpu)
    driver.refuses = ""
    launch(gpu)


def test_after_a_fault_every_call_says_so_and_names_the_kernel(driver, gpu):
    launch(gpu)
    driver.lost = True
    for _ in range(2):
        with pytest.raises(KernelError, match=r"relu_forward: .*restart the Jupyter kernel"):
            gpu.allocate(1 << 20)
    with pytest.raises(KernelError, match="relu_forward"):
        gpu.synchronize()


def test_no_context_is_left_behind(driver, gpu):
    launch(gpu)
    assert driver.current == 0
    driver.lost = True
    with pytest.raises(KernelError):
        gpu.synchronize()
    assert driver.current == 0


def test_a_launch_leaves_the_context_of_others_as_it_is(driver, gpu):
    other = driver.thread = 5
    launch(gpu)
    assert driver.thread == other and driver.current == 0
    driver.thread = None
    launch(gpu)
    assert driver.thread == CONTEXT


def test_the_pool_reuses_freed_memory(driver, gpu):
    first = gpu.allocate(1000)
    address = first.address
    del first
    again, other = gpu.allocate(600), gpu.allocate(1024)
    assert again.address == address != other.address and len(driver.taken) == 2
    assert (gpu.memory.pool.held, gpu.memory.pool.free) == (2048, 0)
    del again, other
    assert (gpu.memory.pool.held, gpu.memory.pool.free) == (2048, 2048)


def test_a_full_gpu_gets_the_free_memory_of_the_pool(driver, gpu):
    del_me = gpu.allocate(5000)
    del del_me
    assert len(driver.taken) == 1
    failing = iter([True, False])

    def mem_alloc(nbytes):
        if next(failing):
            raise driver.MemoryError("full")
        return type(driver).mem_alloc(driver, nbytes)

    driver.mem_alloc = mem_alloc
    gpu.allocate(1 << 20)
    assert [memory.whole._length_ - 512 for memory in driver.taken] == [(1 << 20) + 1]


@pytest.mark.parametrize("nbytes", [1, 511, 512, 513, 5000, 2**20, 2**20 + 1, 3 * 10**9])
def test_a_piece_wastes_an_eighth_at_most(nbytes):
    size = piece_size(nbytes)
    assert size % 512 == 0 and nbytes <= size <= max(512, nbytes * 9 / 8 + 512)


def test_memory_in_use_at_the_end_is_freed_too(driver, gpu):
    kept = gpu.allocate(100)
    gpu.close()
    assert not driver.taken and kept.nbytes == 100


# --- several GPUs ---


def test_each_gpu_has_one_object_and_one_name(two_gpus):
    first, second = two_gpus
    assert (first.name, second.name) == ("cuda", "cuda:1") and (first.label, second.label) == ("Fake", "Fake 1")
    assert get("cuda") is get("cuda:0") is first and get("cuda:1") is second
    assert mg.devices()[-2:] == ("cuda", "cuda:1") and check("cuda:0") == "cuda" and is_gpu("cuda:1")
    assert first.context is not second.context and first.stream.context != second.stream.context


def test_the_current_gpu_is_that_of_the_environment(driver, monkeypatch):
    driver.gpus = 2
    monkeypatch.setenv("CUDA_DEVICE", "1")
    assert (GPU(1).name, GPU(0).name, canonical("cuda:1"), canonical("cuda:0")) == ("cuda", "cuda:0", "cuda", "cuda:0")
    monkeypatch.setenv("CUDA_DEVICE", "second")
    with pytest.raises(DeviceError, match="CUDA_DEVICE='second' is not the number of a GPU; set it to 0, 1"):
        canonical("cuda:1")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:01", "sim:0", "Cuda", 1, None, ("cuda",)])
def test_a_name_of_no_device(name):
    for ask in (canonical, get, check, why_not, lambda name: mg.ones(2, device=name or "")):
        with pytest.raises(ValueError, match="does not exist; the devices are numpy, sim, cuda, and cuda:1 for"):
            ask(name)


def test_a_gpu_beyond_the_last(two_gpus):
    way_out = "device 'cuda:2' is not here: the GPUs of this machine are cuda:0, cuda:1. Choose one of these"
    assert way_out in why_not("cuda:2")
    for ask in (get, check, lambda name: mg.ones(2, device=name), lambda name: mg.ones(2).to(name)):
        with pytest.raises(DeviceError, match=way_out):
            ask("cuda:2")


def test_tensors_on_two_gpus(two_gpus, driver):
    """Ops, gradients and replayed launches on both, from a thread that keeps the context of the first."""
    for _ in range(3):
        for name in ("cuda", "cuda:1"):
            x = mg.tensor([1.0, 2.0, 3.0], device="numpy").to(name)
            w = mg.ones(3, device=name, requires_grad=True)
            loss = (x * w).exp().sum()
            loss.backward()
            assert {x.device, w.device, loss.device, w.grad.device} == {name}
            np.testing.assert_allclose(w.grad.numpy(), [1, 2, 3] * np.exp([1, 2, 3]), rtol=1e-6)
    driver.thread = CONTEXT
    moved = w.to("cuda")
    assert moved.device == "cuda" and (moved + moved).numpy().tolist() == [2, 2, 2] and driver.current == 0


def test_tensors_of_two_gpus_do_not_mix(two_gpus):
    x, y = mg.ones(3, device="cuda:0"), mg.ones(3, device="cuda:1")
    with pytest.raises(ValueError, match=r"on cuda, another on cuda:1; move one with \.to\('cuda'\)"):
        x + y
    relu = mg.kernel('extern "C" __global__ void k(const float* x, float* y) {}', "k")
    with pytest.raises(LaunchError, match=r"k: x is on cuda, y is on cuda:1; move one: y\.to\('cuda'\)"):
        relu(x, y, grid=1, block=1)
    y.requires_grad = True
    with pytest.raises((TypeError, ValueError), match="cuda:1"):
        y.backward(x)


def test_memory_and_batches_belong_to_a_gpu(two_gpus):
    batches = [(np.full((4, 4), i, np.float32),) for i in range(3)]
    for (x,), (host,) in zip(mg.data.prefetch(batches, "cuda:1"), batches, strict=True):
        assert x.device == "cuda:1" and np.array_equal(x.numpy(), host)
    assert {name for name, *_ in mg.memory().pools} == {"cuda", "cuda:1"}
    assert mg.memory().nbytes("tensors", "cuda:1") == x.array.nbytes and not mg.memory().nbytes("tensors", "cuda:0")


def test_a_fault_on_one_gpu_leaves_the_other_alone(two_gpus, driver):
    first, second = two_gpus
    driver.lost = True
    with pytest.raises(KernelError):
        first.synchronize()
    driver.lost = False
    launch(second)
    second.synchronize()
    with pytest.raises(KernelError):
        launch(first)


def test_a_graph_is_of_one_gpu(two_gpus):
    x, w = mg.ones(3, device="cuda:1"), mg.ones(3, device="cuda")
    fast = mg.graph(lambda x: x * 2)
    assert [fast(x).numpy().tolist() for _ in range(3)] == [[2, 2, 2]] * 3 and fast.replays == 2
    both = mg.graph(lambda x: (x * 2, w.exp())[0])
    both(x)
    with pytest.raises(RuntimeError, match=r"also works on Fake, another GPU than .* Make one graph for each GPU"):
        both(x)
    assert w.exp().device == "cuda" and (x + x).numpy().tolist() == [2, 2, 2]


@pytest.mark.gpus(2)
def test_two_gpus_of_this_machine():
    names = [name for name in mg.devices() if is_gpu(name)]
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    results = []
    for _ in range(3):  # in turn, from one thread
        for name in names:
            w = mg.tensor(x, device=name, requires_grad=True)
            (mg.matmul(w, w).exp() * 0.1).sum().backward()
            results.append((name, w.grad.device, w.grad.numpy()))
    assert all(name == device for name, device, _ in results)
    for _, _, gradient in results[1:]:
        np.testing.assert_array_equal(gradient, results[0][2])
    other = next(name for name in names if name != "cuda")
    assert np.array_equal(mg.tensor(x, device="cuda").to(other).numpy(), x)
    with pytest.raises(ValueError, match=f"on cuda, another on {other}"):
        mg.ones(2, device="cuda") + mg.ones(2, device=other)


@pytest.mark.gpus(2)
def test_graphs_and_batches_on_the_second_gpu():
    other = next(name for name in mg.devices() if is_gpu(name) and name != "cuda")
    w = mg.ones(8, 4, device=other, requires_grad=True)

    def step(x):
        w.grad = None
        loss = (x @ w).exp().mean()
        loss.backward()
        return loss

    fast, batches = mg.graph(step), [(np.full((5, 8), 0.1 * i, np.float32),) for i in range(6)]
    for (x,), (host,) in zip(mg.data.prefetch(batches, other), batches, strict=True):
        here = mg.ones(3, device="cuda").exp()  # work on the first GPU in between
        np.testing.assert_allclose(fast(x).numpy(), np.exp(host @ np.ones((8, 4))).mean(), rtol=1e-5)
        assert here.device == "cuda" and w.grad.device == other
    assert fast.replays > 0
