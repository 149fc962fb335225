"""The runtime in C++, compiled once for a machine, and what it shares with Python."""

import ctypes
import os
import threading
from pathlib import Path
from typing import Any

from minigrad.devices.once import once
from minigrad.devices.simulator import cache
from minigrad.devices.simulator.compiler import NATIVE, PORTABLE, RUNTIME, Refused, find_compiler
from minigrad.errors import DeviceError

Index = ctypes.c_uint32 * 3


class Order(ctypes.Structure):
    """A launch, as grid.cpp takes it."""

    _fields_ = (
        ("kernel", ctypes.c_void_p),
        ("packed", ctypes.c_void_p),
        ("grid", Index),
        ("block", Index),
        ("shared", ctypes.c_uint32),
        ("workers", ctypes.c_uint32),
        ("interruptible", ctypes.c_uint32),
        ("printed", ctypes.c_uint32),
        ("timeout", ctypes.c_double),
    )


class Report(ctypes.Structure):
    """What went wrong, as runtime.h has it."""

    _fields_ = (
        ("cause", ctypes.c_int),
        ("line", ctypes.c_int),
        ("address", ctypes.c_uint64),  # these three are a Fault
        ("bytes", ctypes.c_uint64),
        ("pc", ctypes.c_uint64),
        ("has_thread", ctypes.c_int),
        ("block", Index),
        ("thread", Index),
        ("file", ctypes.c_char * 256),
        ("text", ctypes.c_char * 512),
    )


@once
def runtime() -> Any:
    """The runtime, loaded. Its names are made visible to the kernels that are loaded later."""
    portable = ["-DMINIGRAD_PORTABLE"] if os.environ.get(PORTABLE) == "1" else []
    text, compiler = f'#include "{NATIVE / "runtime.cpp"}"\n', find_compiler()

    def build(scratch: Path) -> Path:
        try:
            return compiler.build(text, "runtime.cpp", [*RUNTIME, *portable], scratch)
        except Refused as error:
            message = f"device 'sim': {compiler.compile[0]} does not compile the simulator.\n{error}"
            raise DeviceError(message) from error

    library, _ = cache.load("runtime", text + str(portable), compiler, build, ctypes.RTLD_GLOBAL)
    library.minigrad_launch.argtypes = [ctypes.c_void_p]
    library.minigrad_report.restype = ctypes.POINTER(Report)
    library.minigrad_output.restype = ctypes.c_void_p
    library.minigrad_map.argtypes, library.minigrad_map.restype = [ctypes.c_size_t], ctypes.c_void_p
    library.minigrad_unmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.minigrad_fill.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.launching = threading.RLock()  # the runtime has one launch at a time; who watches holds it around one
    os.register_at_fork(after_in_child=lambda: setattr(library, "launching", threading.RLock()))
    return library
