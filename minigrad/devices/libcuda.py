"""The calls of the CUDA driver that PyCUDA has not: which context is current."""

import ctypes
from typing import Any


def load() -> Any:
    """The driver's library, which PyCUDA has loaded before."""
    return ctypes.CDLL("libcuda.so.1")


class Context:
    """Whether a context is current on the thread that asks."""

    def __init__(self, handle: int):
        library = load()
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
