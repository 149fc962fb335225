"""The device `cuda` over a driver that is played: what it makes of the driver's errors can be tested without a GPU."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from minigrad.arguments import bind
from minigrad.array import Array
from minigrad.devices import libcuda, nvcc
from minigrad.errors import KernelError, LaunchError
from minigrad.kernel import Kernel

CONTEXT = 7
RELU = Kernel("relu.cu", "relu_forward")


class Error(Exception):
    """The root of PyCUDA's exceptions."""


class Stub(SimpleNamespace):
    """Something with attributes that can be the key of a dict."""

    __hash__ = object.__hash__


class PlayedDevice:
    """GPU number 0."""

    def __init__(self, number):
        assert number == 0

    def name(self):
        return "Played"

    def compute_capability(self):
        return 9, 0


class Driver:
    """As much of pycuda.driver as one launch needs. `refuses` names the call that fails; `lost`: so does the rest."""

    Error = LogicError = LaunchError = Error
    MemoryError = type("MemoryError", (Error,), {})

    def __init__(self):
        self.refuses, self.lost, self.current, self.taken = "", False, 0, []
        self.thread = None  # the context that is current on this thread, beside those that PyCUDA has pushed
        self.Context = Stub(pop=lambda: self.make_current(-1))
        context = Stub(push=lambda: self.make_current(1), detach=lambda: None, handle=CONTEXT)
        self.Device = type("Device", (PlayedDevice,), {"retain_primary_context": lambda device: context})
        self.Stream = lambda: Stub(synchronize=lambda: self.call("synchronize"))

    def make_current(self, by):
        self.current += by

    def cuCtxGetCurrent(self, place):
        place._obj.value = CONTEXT if self.current else self.thread

    def cuCtxSetCurrent(self, context):
        self.thread = context.value

    def call(self, name, result=None):
        assert self.current or self.thread == CONTEXT, "the context is not current"
        if self.lost or self.refuses == name:
            raise Error(f"{name} failed")
        return result

    def init(self):
        """Nothing to do."""

    def mem_alloc(self, nbytes):
        memory = type("Memory", (int,), {"free": lambda piece: self.taken.remove(piece)})
        self.taken.append(self.call("mem_alloc", memory((len(self.taken) + 1) << 20)))
        return self.taken[-1]

    def module_from_buffer(self, image):
        def launch(*args, **named):
            return self.call("launch")

        function = Stub(_launch_kernel=launch, num_regs=255, shared_size_bytes=1024)
        return Stub(get_function=lambda name: self.call("get_function", function))


@pytest.fixture
def driver(monkeypatch):
    played = Driver()
    for name, module in {"pycuda": Stub(driver=played), "pycuda.driver": played}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(libcuda, "load", lambda: played)
    monkeypatch.setattr(nvcc, "cubin", lambda *args: b"")
    monkeypatch.setattr("atexit.register", lambda close: None)
    return played


@pytest.fixture
def gpu(driver):
    from minigrad.devices.gpu import GPU

    return GPU()


def launch(gpu):
    x, y = (Array.empty(gpu, (4,), np.dtype(np.float32)) for _ in range(2))
    arguments = bind("relu_forward", RELU.signature.params, (x, y, 4)).arguments
    gpu.launch(gpu.build(RELU.source, {}), "relu_forward", (1, 1, 1), (32, 1, 1), 0, arguments)


def test_a_refused_launch_names_its_registers_and_harms_nothing(driver, gpu):
    driver.refuses = "launch"
    with pytest.raises(
        LaunchError, match=r"relu_forward: the GPU refused grid=\(1, 1, 1\).* 255 registers.* 1024 bytes"
    ):
        launch(gpu)
    driver.refuses = ""
    launch(gpu)
    gpu.synchronize()


@pytest.mark.parametrize("call", ["get_function", "mem_alloc"])
def test_a_refused_call_harms_nothing(driver, gpu, call):
    driver.refuses = call
    with pytest.raises(LaunchError, match=f"Played refused: {call} failed"):
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
