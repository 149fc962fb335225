"""A fake CUDA driver with any number of GPUs, to test the device `cuda` without one: host memory, kernels on `sim`."""

import ctypes
from types import SimpleNamespace

import numpy as np

from minigrad.devices import get
from minigrad.devices.cuda.libcuda import LaunchAttribute
from minigrad.devices.device import Arguments
from minigrad.kernels.arguments import _layout

CONTEXT = 7  # the handle of the primary context of GPU 0; that of GPU 1 is 8


def address(parameter):
    """The address in a parameter that ctypes has converted for a call."""
    return int(repr(parameter).rpartition("(")[2].rstrip(")>"), 16)


def run(action):
    action()


class Error(Exception):
    """The base of PyCUDA's exceptions."""


class Stub(SimpleNamespace):
    """A hashable namespace."""

    __hash__ = object.__hash__


class Device:
    """A GPU by its number."""

    def __init__(self, number):
        assert number < self.driver.gpus
        self.number = number

    @classmethod
    def count(cls):
        return cls.driver.gpus

    def name(self):
        return "Fake" if self.number == 0 else f"Fake {self.number}"

    def pci_bus_id(self):
        return f"0000:{self.number:02}:00.0"

    def retain_primary_context(self):
        handle, stack = CONTEXT + self.number, self.driver.stack
        return Stub(push=lambda: stack.append(handle), detach=lambda: None, handle=handle)

    def compute_capability(self):
        return 9, 0

    def get_attribute(self, name):
        return {"MULTIPROCESSOR_COUNT": 114}[name]


class Memory(int):
    """An allocation of mem_alloc."""

    def free(self):
        self.driver.call("mem_free")
        self.driver.taken.remove(self)
        self.driver.freed.append(self)
        ctypes.memset(self, 0xFF, self.nbytes)  # NaN again, for late readers; and see `harmed`


class Stream:
    """A stream of the current context. Work on all but its first stream happens only when somebody waits for it."""

    def __init__(self, driver):
        self.driver, self.waiting, self.context = driver, [], driver.context
        self.forked = False  # what is queued here belongs to the capture of the first stream
        self.first = all(stream.context != self.context for stream in driver.streams)
        driver.streams.append(self)
        self.handle = len(driver.streams)

    def synchronize(self):
        self.driver.call("synchronize")
        self.must_not_capture("synchronize: operation not permitted when stream is capturing")

    def wait_for_event(self, event):
        self.must_not_capture("wait_for_event: dependency created on uncaptured work in another stream")
        event.synchronize()

    def must_not_capture(self, why):
        """A call that is forbidden on a stream that is being captured ends the capture, too."""
        if self.driver.captured is self:
            self.driver.spoilt = True
            raise Error(why)


class Event:
    """A place in a stream."""

    def record(self, stream):
        self.todo, stream.waiting = stream.waiting, []
        return self

    def query(self):
        return not self.todo

    def synchronize(self):
        while self.todo:
            self.todo.pop(0)()


class Driver:
    """The parts of pycuda.driver and libcuda that the device needs.

    gpus: their number. refuses: the call that fails. lost: every call fails. taken: the memory in use, and freed: that
    which was freed. calls: the number of each call. noted: the work queued on the stream that is being captured, else
    None.
    """

    Error = LogicError = LaunchError = Error
    MemoryError = type("MemoryError", (Error,), {})

    def __init__(self):
        self.gpus, self.refuses, self.lost, self.taken, self.freed, self.calls = 1, "", False, [], [], {}
        self.stack = []  # the contexts that PyCUDA has pushed on this thread
        self.thread = None  # the context that is current below these
        self.noted, self.captured, self.graphs, self.sources, self.streams, self.captures = None, None, {}, [], [], 0
        self.spoilt = False  # a forbidden call was made during the capture
        self.handles, self.events = {}, []  # of modules and functions; of an event the work before it
        self.elsewhere = []  # the work of other libraries, on streams of their own
        self.Context = Stub(pop=self.stack.pop, synchronize=self.finish)
        self.Device = type("Device", (Device,), {"driver": self})
        self.Stream = lambda flags: Stream(self)
        self.Event = lambda: Event()
        self.pagelocked_empty = np.empty

    @property
    def harmed(self):
        """Memory that was written after it had been freed."""
        return [memory for memory in self.freed if {*ctypes.string_at(memory, memory.nbytes)} != {0xFF}]

    @property
    def current(self):
        """The number of contexts that are pushed and not popped."""
        return len(self.stack)

    @property
    def context(self):
        """The current context."""
        return self.stack[-1] if self.stack else self.thread

    def call(self, name):
        assert self.context is not None and self.context >= CONTEXT, "the context is not current"
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.lost or self.refuses == name:
            raise Error(f"{name} failed")

    def queue(self, name, stream, action):
        """Run the action, or record it; the stream's own context must be current."""
        stream = self.streams[getattr(stream, "value", stream) - 1]
        if self.context != stream.context:
            raise Error("invalid resource handle")
        self.call(name)
        if self.noted is not None and stream.forked:
            stream.waiting.append(action)
        elif self.captured is stream:
            self.noted.append(action)
        elif self.noted is not None and not stream.first:
            raise Error("the stream has not been forked from the one that is being captured")
        elif stream.first:
            action()
        else:
            stream.waiting.append(action)

    def finish(self):
        self.call("finish")
        while self.elsewhere:
            self.elsewhere.pop(0)()

    # --- PyCUDA ---

    device_attribute = Stub(MULTIPROCESSOR_COUNT="MULTIPROCESSOR_COUNT")

    def init(self):
        """Nothing to do."""

    def cubin(self, source, defines, arch):
        self.sources.append((source, defines))
        return len(self.sources) - 1

    def mem_alloc(self, nbytes):
        self.call("mem_alloc")
        whole = ctypes.create_string_buffer(b"\xff" * (nbytes + 512))  # NaN until it is written
        memory = Memory(-(-ctypes.addressof(whole) // 512) * 512)
        memory.driver, memory.whole, memory.nbytes = self, whole, nbytes
        self.taken.append(memory)
        return memory

    def memcpy_htod_async(self, address, host, stream):
        def upload():
            ctypes.memmove(address, host.ctypes.data, host.nbytes)

        if stream.first:
            self.queue("upload", stream.handle, upload)
        else:
            stream.waiting.append(upload)

    def memcpy_dtoh_async(self, host, address, stream):
        self.queue("download", stream.handle, lambda: ctypes.memmove(host.ctypes.data, address, host.nbytes))

    # --- libcuda ---

    def cuModuleLoadData(self, place, image):
        return self.status(lambda: self.hand_out("module", place, (*self.sources[image], self.context)))

    def cuModuleUnload(self, module):
        of = self.handles.pop(module.value)
        self.handles = {handle: thing for handle, thing in self.handles.items() if thing[0] is not of}
        return 0

    def cuModuleGetFunction(self, place, module, name):
        source, defines, _ = self.handles[module.value]
        kinds = {"float": np.float32, "double": np.float64, "long long": np.int64, "bfloat16": np.uint16}
        real = np.dtype(kinds[defines.get("real", "float")])
        layout = _layout(source.signature(name.decode()).params, real)
        found = self.handles[module.value], get("sim").build(source, defines, name.decode()), name.decode(), layout
        return self.status(lambda: self.hand_out("get_function", place, found))

    def cuFuncGetAttribute(self, place, number, function):
        place._obj.value = {4: 255, 1: 1024}.get(number, 0)
        return 0

    def cuFuncSetAttribute(self, function, number, value):
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, place, function, threads, shared):
        """Of 256 threads at most: their registers leave room for no more."""
        self.call("occupancy")
        place._obj.value = 256 // threads
        return 0

    def cuLaunchKernelEx(self, config, function, parameters, extra):
        (_, _, context), module, name, layout = self.handles[address(function)]
        packed, c = layout(), config._obj
        assert self.streams[c.stream - 1].context == context, "the kernel is that of another GPU"
        for i, (field, *_) in enumerate(layout._fields_):
            into = getattr(layout, field)
            ctypes.memmove(ctypes.addressof(packed) + into.offset, parameters._obj[i], into.size)
        grid, block = (c.grid_x, c.grid_y, c.grid_z), (c.block_x, c.block_y, c.block_z)
        given = (LaunchAttribute * c.count).from_address(c.attributes) if c.count else ()
        cooperative = [one.value for one in given if one.id == 2] == [1]  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        launch = (module, name, grid, block, c.shared, Arguments(packed, [], cooperative=cooperative))
        return self.status(lambda: self.queue("launch", c.stream, lambda: get("sim").launch(*launch)))

    def cuMemcpyDtoDAsync_v2(self, target, source, nbytes, stream):
        return self.status(lambda: self.queue("copy", stream, lambda: ctypes.memmove(target, source, nbytes)))

    def cuMemsetD8Async(self, address, value, nbytes, stream):
        return self.status(lambda: self.queue("zero", stream, lambda: ctypes.memset(address, value, nbytes)))

    def cuGetErrorString(self, status, place):
        place._obj.value = self.said.encode()

    def hand_out(self, name, place, thing):
        self.call(name)
        place._obj.value = max(self.handles, default=0) + 1
        self.handles[place._obj.value] = thing

    def status(self, action):
        """Run the action; as in libcuda, an error is a number."""
        if self.context is None or self.context < CONTEXT:
            return 201
        try:
            action()
        except Error as error:
            self.said = str(error)
            return 719
        return 0

    def cuCtxGetCurrent(self, place):
        place._obj.value = self.context

    def cuCtxSetCurrent(self, context):
        self.thread = context.value

    def cuStreamBeginCapture_v2(self, stream, mode):
        assert self.noted is None, "the stream is being captured"
        self.noted, self.captured = [], self.streams[stream.value - 1]

    def cuStreamEndCapture(self, stream, place):
        if self.noted is None:
            self.said = "the operation cannot be performed in the present state"
            return 401
        noted, spoilt, self.noted, self.captured, self.spoilt = self.noted, self.spoilt, None, None, False
        forked = [other for other in self.streams if other.forked]
        for other in forked:
            other.forked, spoilt, other.waiting = False, spoilt or bool(other.waiting), []
        if spoilt:
            self.said = "operation failed due to a previous error during capture"
            return 901
        self.captures += 1
        place._obj.value, self.graphs[self.captures] = self.captures, noted
        return 0

    def cuStreamCreateWithPriority(self, place, flags, priority):
        place._obj.value = Stream(self).handle
        return 0

    def cuEventCreate(self, place, flags):
        self.events.append(([], False))
        place._obj.value = len(self.events)
        return 0

    def cuEventDestroy_v2(self, event):
        self.events[event.value - 1] = None
        return 0

    def cuEventElapsedTime(self, place, start, stop):
        """A millisecond from each event to the next that was made; all work before them is done."""
        assert not any(self.events[event.value - 1][0] for event in (start, stop))
        place._obj.value = stop.value - start.value
        return 0

    def cuEventRecord(self, event, stream):
        """The event follows all that waits on the stream."""
        stream = self.streams[stream.value - 1]
        self.events[event.value - 1] = stream.waiting, self.captured is stream
        return 0

    def cuStreamWaitEvent(self, stream, event, flags):
        """The first stream of a GPU does the work before it goes on; another is forked from one that is captured."""
        stream, (todo, captured) = self.streams[stream.value - 1], self.events[event.value - 1]
        stream.forked = stream.forked or (captured and not stream.first)
        while stream.first and todo:
            (self.noted.append if self.captured is stream else run)(todo.pop(0))
        return 0

    def cuGraphGetNodes(self, graph, nodes, place):
        place._obj.value = len(self.graphs[graph.value])

    def cuGraphInstantiateWithFlags(self, place, graph, flags):
        place._obj.value = graph.value

    def cuTensorMapEncodeTiled(self, place, kind, rank, address, shape, strides, box, steps, *how):
        """Store its arguments in a row: bytes that no GPU would understand."""
        assert place.value % 64 == 0, "a tensor map lies at a multiple of 64 bytes"
        numbers = [kind, rank, address.value, *shape, *strides[: rank - 1], *box, *steps, *how]
        (ctypes.c_uint64 * 16).from_address(place.value)[:] = numbers[:16]
        self.said = "invalid argument"
        return 1 if any(stride % 16 for stride in strides[: rank - 1]) else 0

    def cuGraphLaunch(self, graph, stream):
        return self.status(lambda: self.queue("replay", stream, lambda: [do() for do in self.graphs[graph.value]]))

    def cuGraphDestroy(self, graph):
        """The instance lives on."""

    def cuGraphExecDestroy(self, graph):
        assert self.context is not None and self.context >= CONTEXT, "the context is not current"
        del self.graphs[graph.value]
