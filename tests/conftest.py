"""The devices as fixtures. `cuda` is skipped where there is none; `sim` must be there, or no kernel was tested."""

import importlib
import sys

import pytest
from played import Driver, Stub

from minigrad.devices import check
from minigrad.devices.cuda import compiler as nvcc
from minigrad.devices.cuda import libcuda
from minigrad.kernels.kernel import Epoch

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
    """A CUDA driver that is played."""
    played = Driver()
    for name, module in {"pycuda": Stub(driver=played), "pycuda.driver": played}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(libcuda, "load", lambda: played)
    monkeypatch.setattr(nvcc, "cubin", played.cubin)
    monkeypatch.setattr("atexit.register", lambda close: None)
    yield played
    Epoch.number += 1  # calls that were prepared for it, which no other driver can launch
    assert not played.harmed


@pytest.fixture
def gpu(driver, monkeypatch):
    """The device `cuda` over the played driver."""
    from minigrad.devices.cuda.gpu import GPU

    made, convert = GPU(), importlib.import_module("minigrad.devices.dtypes")
    monkeypatch.setattr(convert, "get", lambda name: made)  # where constants of an op are sent to
    convert._constant.cache_clear()
    Epoch.number += 1
    yield made
    convert._constant.cache_clear()
