"""The devices as fixtures. `cuda` is skipped where there is none; `sim` must be there, or no kernel was tested."""

import sys

import pytest
from fake_cuda import Driver, Stub

from minigrad.devices import check, dtypes
from minigrad.devices.cuda import compiler as nvcc
from minigrad.devices.cuda import libcuda
from minigrad.kernels.kernel import Epoch

DEVICES = sys.modules["minigrad.devices"]  # `minigrad.devices` is a function, too
CUDA = pytest.param("cuda", marks=pytest.mark.gpu)


@pytest.fixture(params=["numpy", "sim", CUDA])
def device(request):
    """Every device."""
    return check(request.param)


@pytest.fixture(params=["sim", CUDA])
def kernel_device(request):
    """Every device that runs kernels."""
    return check(request.param)


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
    yield fake
    gpu._driver.cache_clear()
    Epoch.number += 1  # calls that were prepared for it, which no other driver can launch
    assert not fake.harmed


@pytest.fixture
def gpu(driver, monkeypatch):
    """The device `cuda` over the fake driver."""
    monkeypatch.delenv("CUDA_DEVICE", raising=False)
    yield _installed(monkeypatch, "cuda")
    dtypes._constant.cache_clear()


@pytest.fixture
def two_gpus(driver, monkeypatch):
    """The devices `cuda` and `cuda:1` over the fake driver."""
    driver.gpus = 2
    monkeypatch.delenv("CUDA_DEVICE", raising=False)
    both = _installed(monkeypatch, "cuda"), _installed(monkeypatch, "cuda:1")
    DEVICES.why_not.cache_clear()
    yield both
    DEVICES.why_not.cache_clear()
    dtypes._constant.cache_clear()


def _installed(monkeypatch, name):
    monkeypatch.setattr(DEVICES, "_made", {key: value for key, value in DEVICES._made.items() if key != name})
    dtypes._constant.cache_clear()
    Epoch.number += 1
    return DEVICES.get(name)
