"""A CUDA driver that is played, to test the device `cuda` without a GPU: host memory, and kernels on `sim`."""

import ctypes
from types import SimpleNamespace

import numpy as np

from minigrad.devices import get
from minigrad.devices.base import Arguments

CONTEXT = 7  # the handle of the primary context


class Error(Exception):
    """The root of PyCUDA's exceptions."""


class Stub(SimpleNamespace):
    """Something with attributes that can be the key of a dict."""

    __hash__ = object.__hash__


class Device:
    """GPU number 0."""

    def __init__(self, number):
        assert number == 0

    def name(self):
        return "Played"

    def compute_capability(self):
        return 9, 0


class Memory(int):
    """What mem_alloc gives."""

    def free(self):
        self.driver.taken.remove(self)


class Stream:
    """A stream. What is copied on any but the first happens when somebody waits for it, and no sooner."""

    def __init__(self, driver):
        self.driver, self.waiting = driver, []
        self.handle = driver.streams = driver.streams + 1

    def synchronize(self):
        self.driver.call("synchronize")

    def wait_for_event(self, event):
        event.synchronize()


class Event:
    """A place in a stream."""

    def record(self, stream):
        self.todo, stream.waiting = stream.waiting, []
        return self

    def synchronize(self):
        while self.todo:
            self.todo.pop(0)()


class Driver:
    """As much of pycuda.driver and libcuda as the device needs.

    refuses: the call that fails. lost: so does every other. taken: the memory that is not given back. calls: how often
    each call was made. noted: what is queued on the stream while it is being captured, else None.
    """

    Error = LogicError = LaunchError = Error
    MemoryError = type("MemoryError", (Error,), {})

    def __init__(self):
        self.refuses, self.lost, self.current, self.taken, self.calls = "", False, 0, [], {}
        self.thread = None  # the context that is current on this thread, beside those that PyCUDA has pushed
        self.noted, self.graphs, self.sources, self.streams = None, {}, [], 0
        self.elsewhere = []  # what other libraries have queued, on streams of their own
        self.Context = Stub(pop=lambda: self.make_current(-1), synchronize=self.finish)
        context = Stub(push=lambda: self.make_current(1), detach=lambda: None, handle=CONTEXT)
        self.Device = type("Device", (Device,), {"retain_primary_context": lambda device: context})
        self.Stream = lambda: Stream(self)
        self.Event = lambda: Event()
        self.pagelocked_empty = np.empty

    def make_current(self, by):
        self.current += by

    def call(self, name):
        assert self.current or self.thread == CONTEXT, "the context is not current"
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.lost or self.refuses == name:
            raise Error(f"{name} failed")

    def queue(self, name, action):
        self.call(name)
        if self.noted is None:
            action()
        else:
            self.noted.append(action)

    def finish(self):
        self.call("finish")
        while self.elsewhere:
            self.elsewhere.pop(0)()

    # --- PyCUDA ---

    def init(self):
        """Nothing to do."""

    def cubin(self, source, defines, arch):
        self.sources.append((source, defines))
        return len(self.sources) - 1

    def mem_alloc(self, nbytes):
        self.call("mem_alloc")
        whole = ctypes.create_string_buffer(b"\xff" * (nbytes + 512))  # NaN until it is written
        memory = Memory(-(-ctypes.addressof(whole) // 512) * 512)
        memory.driver, memory.whole = self, whole
        self.taken.append(memory)
        return memory

    def memcpy_htod_async(self, address, host, stream):
        def upload():
            ctypes.memmove(address, host.ctypes.data, host.nbytes)

        if stream.handle > 1:
            stream.waiting.append(upload)
        else:
            self.queue("upload", upload)

    def memcpy_dtoh_async(self, host, address, stream):
        self.queue("download", lambda: ctypes.memmove(host.ctypes.data, address, host.nbytes))

    def memcpy_dtod_async(self, target, source, nbytes, stream):
        self.queue("copy", lambda: ctypes.memmove(target, source, nbytes))

    def memset_d8_async(self, address, value, nbytes, stream):
        self.queue("zero", lambda: ctypes.memset(address, value, nbytes))

    def module_from_buffer(self, image):
        self.call("module_from_buffer")
        module = get("sim").build(*self.sources[image])

        def get_function(name):
            self.call("get_function")

            def launch(grid, block, packed, shared, stream):
                held = ctypes.create_string_buffer(bytes(packed))
                arguments = Arguments(held, len(packed), [])
                self.queue("launch", lambda: get("sim").launch(module, name, grid, block, shared, arguments))

            return Stub(_launch_kernel=launch, num_regs=255, shared_size_bytes=1024)

        return Stub(get_function=get_function)

    # --- libcuda ---

    def cuCtxGetCurrent(self, place):
        place._obj.value = CONTEXT if self.current else self.thread

    def cuCtxSetCurrent(self, context):
        self.thread = context.value

    def cuStreamBeginCapture_v2(self, stream, mode):
        self.noted = []

    def cuStreamEndCapture(self, stream, place):
        place._obj.value = len(self.graphs) + 1
        self.graphs[len(self.graphs) + 1], self.noted = self.noted, None

    def cuGraphGetNodes(self, graph, nodes, place):
        place._obj.value = len(self.graphs[graph.value])

    def cuGraphInstantiateWithFlags(self, place, graph, flags):
        place._obj.value = graph.value

    def cuGraphLaunch(self, graph, stream):
        self.call("replay")
        for action in self.graphs[graph.value]:
            action()

    def cuGraphDestroy(self, graph):
        """The instance lives on."""

    def cuGraphExecDestroy(self, graph):
        del self.graphs[graph.value]
