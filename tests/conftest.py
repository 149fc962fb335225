"""The devices as fixtures. `cuda` is skipped where there is none; `sim` must be there, or no kernel was tested."""

import ctypes
import gc
import sys
from dataclasses import replace

import pytest
from fake_cuda import Driver, Stub

from minigrad.devices import check, dtypes
from minigrad.devices.caches import Cache
from minigrad.devices.cuda import compiler as nvcc
from minigrad.devices.cuda import libcuda
from minigrad.devices.random import Generator, manual_seed
from minigrad.kernels.kernel import Kernel
from minigrad.simulator import Simulator

DEVICES = sys.modules["minigrad.devices"]  # `minigrad.devices` is a function, too
CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(scope="module", autouse=True)
def own_objects():
    """Garbage, and what `mg.memory` lists, is looked for among what a file's own tests make."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def same_random_numbers():
    """A test that fails can be run again with the numbers that it had."""
    manual_seed(0)


@pytest.fixture(params=["numpy", "sim", CUDA])
def device(request):
    """Every device."""
    return check(request.param)


@pytest.fixture(params=["sim", CUDA])
def kernel_device(request):
    """Every device that runs kernels."""
    return check(request.param)


@pytest.fixture
def small_files_at_once(monkeypatch):
    """A file that no tunable changes is compiled once for all of its kernels: each is tried, and most are short."""
    build = Simulator.build

    def built(sim, source, defines, kernel):
        return build(sim, source, defines, kernel if source.tunables else "")

    monkeypatch.setattr(Simulator, "build", built)


@pytest.fixture
def driver(monkeypatch):
    """A fake CUDA driver."""
    from minigrad.devices.cuda import gpu

    DEVICES.devices(), DEVICES.default_device()  # those of this machine are known before its driver is replaced
    gpu._driver.cache_clear()
    fake = Driver()
    for name, module in {"pycuda": Stub(driver=fake), "pycuda.driver": fake}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(libcuda, "load", lambda: fake)
    monkeypatch.setattr(nvcc, "cubin", fake.cubin)
    monkeypatch.setattr("atexit.register", lambda close: None)
    run, others = Kernel.run, {}  # compiled code of another driver, by kernel: no driver can launch that of another

    def run_compiled_here(kernel, *args):
        if kernel not in others:
            others[kernel], kernel._modules = kernel._modules, Cache()
        return run(kernel, *args)

    monkeypatch.setattr(Kernel, "run", run_compiled_here)
    yield fake
    gpu._driver.cache_clear()
    for kernel, modules in others.items():
        kernel._modules = modules
    assert not fake.harmed


@pytest.fixture
def gpu(driver, monkeypatch):
    """The device `cuda` over the fake driver."""
    monkeypatch.delenv("CUDA_DEVICE", raising=False)
    yield _installed(monkeypatch, "cuda")
    forget_arrays()


@pytest.fixture
def two_gpus(driver, monkeypatch):
    """The devices `cuda` and `cuda:1` over the fake driver."""
    driver.gpus = 2
    monkeypatch.delenv("CUDA_DEVICE", raising=False)
    both = _installed(monkeypatch, "cuda"), _installed(monkeypatch, "cuda:1")
    DEVICES.why_not.cache_clear()
    yield both
    DEVICES.why_not.cache_clear()
    forget_arrays()


def _installed(monkeypatch, name):
    monkeypatch.setattr(DEVICES, "_made", {key: value for key, value in DEVICES._made.items() if key != name})
    forget_arrays()
    return DEVICES.get(name)


@pytest.fixture
def repeating(monkeypatch):
    """`sim` with replayed launches; constants of ops are made there, too."""
    made = Repeating()
    monkeypatch.setattr(dtypes, "get", lambda name: made)
    forget_arrays()
    yield made
    forget_arrays()


def forget_arrays():
    """Drop the arrays that are kept for a device of that name: it is another one now."""
    dtypes._constant.cache_clear()
    dtypes._zero.cache_clear()
    Generator.states.clear()


class Repeating(Simulator):
    """`sim` with launches that are prepared once and replayed, as on a GPU; it counts them, and those that are not."""

    repeats = True

    def __init__(self):
        super().__init__()
        self.prepared = self.repeated = self.single = 0

    def launch(self, *args):
        self.single += 1
        super().launch(*args)

    def queued(self, launch):
        module, name, grid, block, shared, arguments, at = launch
        self.prepared += 1
        packed, bare = arguments.packed, replace(arguments, arrays=[])  # the arrays of a repetition are others

        def queue():
            for (field, *_), place in zip(packed._fields_, at, strict=True):
                into = getattr(type(packed), field)
                ctypes.memmove(ctypes.addressof(packed) + into.offset, place, into.size)
            super(Repeating, self).launch(module, name, grid, block, shared, bare)

        return [queue]

    def touch(self, *arrays):
        """Nothing is captured here."""

    def repeat(self, program, arrays):
        self.repeated += 1
        made = [self.allocate(nbytes) for nbytes in program.sizes]
        addresses = [x.address for x in (*arrays, *made)]
        program.table[:] = addresses + [addresses[number] + offset for number, offset in program.moved]
        for step in program.steps:
            step()
        return made
