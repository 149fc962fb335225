"""NCCL, the library of collectives between GPUs, by ctypes: its place, its functions, and its errors."""

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minigrad.errors import DeviceError, RankError

NAME, INSTALL = "libnccl.so.2", "pip install 'minigrad-cuda[nccl]'"
TYPES = {  # ncclDataType_t by dtype; a bool is a byte
    "int8": 0, "uint8": 1, "bool": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float32": 7, "float64": 8,
}  # fmt: skip
BYTES, BFLOAT16 = TYPES["uint8"], 9  # the second is no dtype of NumPy's own
OPS = {"sum": 0, "max": 2, "min": 3, "mean": 4}  # ncclRedOp_t
_FROM, _TO, _COUNT, _TYPE, _WORD, _COMM, _STREAM = (
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p
)  # fmt: skip


class UniqueId(ctypes.Structure):
    """The name of a communicator, made by one rank and sent to all: ncclUniqueId."""

    _fields_ = [("internal", ctypes.c_char * 128)]


@cache
def load() -> Any:
    """The library of its package, which PyTorch brings as well, or the system's. Raises DeviceError without one.

    Python keeps its global lock during these calls, as in those of the driver: they queue work, and return at once.
    """
    try:
        spec = find_spec("nvidia.nccl")
    except ModuleNotFoundError:  # no package of NVIDIA's at all
        spec = None
    folders = (spec.submodule_search_locations or ()) if spec else ()
    for path in (*(Path(folder, "lib", NAME) for folder in folders), NAME):
        try:
            library = ctypes.PyDLL(str(path))
        except OSError:  # not there
            continue
        break
    else:
        raise DeviceError(f"collectives on GPUs need NCCL, and there is no {NAME}: {INSTALL}; PyTorch brings it, too.")
    library.ncclGetErrorString.restype = library.ncclGetLastError.restype = ctypes.c_char_p
    library.ncclCommInitRank.argtypes = ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int
    for name in ("ncclAllReduce", "ncclReduceScatter", "ncclBroadcast"):  # _WORD: the op, or the root
        getattr(library, name).argtypes = _FROM, _TO, _COUNT, _TYPE, _WORD, _COMM, _STREAM
    library.ncclAllGather.argtypes = _FROM, _TO, _COUNT, _TYPE, _COMM, _STREAM
    return library


def check(library: Any, status: int) -> None:
    """Raise RankError for the status of a call that has failed, in NCCL's words."""
    if status:
        words, last = (text.decode().strip() for text in (library.ncclGetErrorString(status), _last(library)))
        raise RankError(f"NCCL: {words}{': ' * bool(last)}{last}. NCCL_DEBUG=INFO in the environment says more.")


def _last(library: Any) -> bytes:
    return library.ncclGetLastError(None) or b""


def version(library: Any) -> str:
    """2.28.9"""
    number = ctypes.c_int()
    check(library, library.ncclGetVersion(ctypes.byref(number)))
    return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def unique_id(library: Any) -> bytes:
    """The name of a new communicator."""
    name = UniqueId()
    check(library, library.ncclGetUniqueId(ctypes.byref(name)))
    return bytes(name)


def communicator(library: Any, name: bytes, ranks: int, rank: int) -> ctypes.c_void_p:
    """The communicator of that name, once all ranks have come here; the context of this one's GPU is current."""
    comm = ctypes.c_void_p()
    check(library, library.ncclCommInitRank(ctypes.byref(comm), ranks, UniqueId.from_buffer_copy(name), rank))
    return comm
