"""SideStream: a second stream of a GPU, for work that runs while the first one computes."""

import ctypes
from typing import Any

from minigrad.devices.cuda.context import Context
from minigrad.devices.cuda.libcuda import NON_BLOCKING, DriverCall, checked

NO_TIMES = 2  # CU_EVENT_DISABLE_TIMING: an event that only orders work
URGENT = -100  # the driver takes its highest priority: a message begins as soon as blocks of a kernel have ended


class SideStream:
    """A stream whose work, from `begin` on, overlaps with that of the GPU's own stream up to `join`.

    Events order the two, in a graph that is being captured as well; there every begin needs a join.
    """

    def __init__(self, context: Context):
        self._context, library = context, context.library
        self.handle, own = ctypes.c_void_p(), ctypes.c_void_p(context.stream.handle)
        here, there = ctypes.c_void_p(), ctypes.c_void_p()
        with context.guarded():
            checked(library, "cuStreamCreateWithPriority", ctypes.byref(self.handle), NON_BLOCKING, URGENT)
            for event in (here, there):
                checked(library, "cuEventCreate", ctypes.byref(event), NO_TIMES)
        self._begin = self._waits(self.handle, here, own)
        self._join = self._waits(own, there, self.handle)

    def _waits(self, waiting: Any, event: Any, working: Any) -> list[DriverCall]:
        """The calls that let one stream wait for all that another has been given so far."""
        library = self._context.library
        calls = [
            DriverCall(library.cuEventRecord, event, working),
            DriverCall(library.cuStreamWaitEvent, waiting, event, 0),
        ]
        for call in calls:
            call.message = self._context.message
        return calls

    def begin(self) -> None:
        """Let what is queued here wait for all that is on the GPU's own stream now. The caller holds the lock."""
        self._context.queue(self._begin)

    def join(self) -> None:
        """Let what is queued on the GPU's own stream wait for all that is here now. The caller holds the lock."""
        self._context.queue(self._join)
