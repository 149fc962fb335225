"""CapturedGraph: the work of a step, recorded from a stream and queued again at one call."""

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from weakref import ref

from minigrad.devices.array import Array
from minigrad.devices.cuda.context import Context
from minigrad.devices.cuda.libcuda import DriverCall, DriverError, checked
from minigrad.devices.cuda.pool import CachingPool
from minigrad.errors import LaunchError

RELAXED = 2  # the capture mode in which memory may be allocated


class CapturedGraph:
    """The launches, copies and fills that were queued on a stream between `begin` and `end`; none of them has run.

    The graph owns a pool of memory, and keeps the buffers outside it that it reads or writes.
    """

    def __init__(self, context: Context, pool: CachingPool):
        self.pool, self.touched, self.held = pool, set[ref](), list[Any]()
        self._library, self._stream = context.library, ctypes.c_void_p(context.stream.handle)
        self._instance, self.nodes = ctypes.c_void_p(), 0
        self.launch = DriverCall(self._library.cuGraphLaunch, self._instance, self._stream)
        self.launch.message = lambda error: f"the GPU rejected the replay of a graph: {error}. Make a new mg.graph."

    def touch(self, arrays: Sequence[Array]) -> None:
        """Record the buffers in use that are not in the graph's own pool."""
        self.touched.update(ref(x.buffer) for x in arrays if x.buffer.address not in self.pool.pieces)

    def begin(self) -> None:
        """Record what is queued from now on, and run none of it. Raises LaunchError."""
        self._call("cuStreamBeginCapture_v2", self._stream, RELAXED)

    def end(self) -> None:
        """Make the record a graph. Raises LaunchError, or RuntimeError if the step has dropped a buffer it touched."""
        self.held = [buffer() for buffer in self.touched]
        if None in self.held:
            raise RuntimeError(
                "mg.graph: the step lets go of a tensor that it works on, and a replay would read the old one. "
                "Overwrite it instead: x.assign(new), under `with mg.no_grad():`."
            )
        graph, count = self._end(), ctypes.c_size_t()
        try:
            self._call("cuGraphGetNodes", graph, None, ctypes.byref(count))
            self._call("cuGraphInstantiateWithFlags", ctypes.byref(self._instance), graph, ctypes.c_ulonglong(0))
        finally:
            self._library.cuGraphDestroy(graph)
        self.nodes = count.value

    def abandon(self) -> None:
        """Drop the record or the graph. A forbidden call has ended the capture: that error is of no interest."""
        with suppress(LaunchError):
            self._library.cuGraphDestroy(self._end())
        self.close()

    def _end(self) -> ctypes.c_void_p:
        graph = ctypes.c_void_p()
        self._call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        return graph

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            checked(self._library, name, *arguments)
        except DriverError as error:
            raise LaunchError(f"{error}; this step cannot be captured. Run it without graph.") from error

    def close(self) -> None:
        if self._instance:
            self._library.cuGraphExecDestroy(self._instance)
            self._instance.value = None
