"""The calls of the CUDA driver that PyCUDA has not: which context is current, and graphs of launches."""

import ctypes
from typing import Any

from minigrad.errors import LaunchError

RELAXED = 2  # the mode of a capture in which memory may be taken


def load() -> Any:
    """The library that PyCUDA has loaded. No call here waits for the GPU, so Python's own lock is kept meanwhile."""
    return ctypes.PyDLL("libcuda.so.1")


class Context:
    """Whether a context is current on the thread that asks."""

    def __init__(self, library: Any, handle: int):
        self._get, self._set = library.cuCtxGetCurrent, library.cuCtxSetCurrent
        self._handle, self._found = handle, ctypes.c_void_p()
        self._place = ctypes.byref(self._found)

    def is_current(self) -> bool:
        """Whether launches go there. A thread that had no context has this one from now on; another stays as it is."""
        self._get(self._place)
        if self._found.value is None:
            self._set(ctypes.c_void_p(self._handle))
            return True
        return self._found.value == self._handle


class Capture:
    """What is queued on a stream is noted instead, from the construction on until `end`."""

    def __init__(self, library: Any, stream: int):
        self._library, self._stream = library, ctypes.c_void_p(stream)
        self._call("cuStreamBeginCapture_v2", self._stream, RELAXED)

    def end(self) -> "Replay":
        """What was noted, ready to be launched as one."""
        graph = self._ended()
        try:
            count, made = ctypes.c_size_t(), ctypes.c_void_p()
            self._call("cuGraphGetNodes", graph, None, ctypes.byref(count))
            self._call("cuGraphInstantiateWithFlags", ctypes.byref(made), graph, ctypes.c_ulonglong(0))
        finally:
            self._library.cuGraphDestroy(graph)
        return Replay(self._library, made, self._stream, count.value)

    def abandon(self) -> None:
        """Forget what was noted; the stream is as before."""
        self._library.cuGraphDestroy(self._ended())

    def _ended(self) -> ctypes.c_void_p:
        graph = ctypes.c_void_p()
        self._call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        return graph

    def _call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            raise LaunchError(f"{name}: the driver says {status}; this step cannot be captured. Run it without graph.")


class Replay:
    """A captured sequence of launches."""

    def __init__(self, library: Any, made: ctypes.c_void_p, stream: ctypes.c_void_p, nodes: int):
        self._library, self._made, self._stream, self.nodes = library, made, stream, nodes

    def launch(self) -> int:
        """Queue all of it; returns the driver's status, 0 where it was accepted."""
        return self._library.cuGraphLaunch(self._made, self._stream)

    def close(self) -> None:
        """Give the graph back to the driver."""
        self._library.cuGraphExecDestroy(self._made)
