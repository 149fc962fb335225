"""GPUs and a fake NCCL for the ranks of a test: each rank has a fake driver, and MPI moves the memory between them."""

import ctypes
import sys

import numpy as np
from fake_cuda import Driver, Stub

from minigrad.devices.cuda import compiler, gpu, libcuda, libnccl
from minigrad.devices.dtypes import dtype_of

DTYPES = {number: np.dtype(name) for name, number in libnccl.TYPES.items() if name != "bool"}
REDUCE = {0: np.sum, 2: np.max, 3: np.min, 4: np.mean}


def memory(address, count, kind):
    """The numbers at an address of the fake device."""
    dtype = dtype_of("bfloat16") if kind == libnccl.BFLOAT16 else DTYPES[kind]
    return np.frombuffer((ctypes.c_char * (count * dtype.itemsize)).from_address(address), dtype)


class NCCL:
    """The functions of libnccl that are used. A collective runs when the fake stream comes to it.

    calls: the collectives that were queued, by name and in their order, on the side stream with an asterisk.
    """

    def __init__(self, driver, comm):
        self.driver, self.comm, self.calls, self.grouped, self.said = driver, comm.Dup(), [], 0, b""

    def ncclGetVersion(self, place):
        place._obj.value = 22809
        return 0

    def ncclGetUniqueId(self, place):
        place._obj.internal = b"the only one"
        return 0

    def ncclCommInitRank(self, place, ranks, name, rank):
        self.driver.call("init")
        assert name.internal == b"the only one" and (ranks, rank) == (self.comm.size, self.comm.rank)
        place._obj.value = 77
        return 0

    def ncclGroupStart(self):
        self.grouped += 1
        return 0

    def ncclGroupEnd(self):
        self.grouped -= 1
        return 0

    def ncclGetErrorString(self, status):
        return b"unhandled cuda error"

    def ncclGetLastError(self, comm):
        return self.said

    def collective(self, name, source, target, comm, stream, give):
        assert comm.value == 77
        handle = getattr(stream, "value", stream)
        self.calls.append(name + "*" * (not self.driver.streams[handle - 1].first))

        def move():
            target[:] = give(np.array(self.comm.allgather(source.copy())))

        return self.driver.status(lambda: self.driver.queue("nccl", stream, move))

    def ncclAllReduce(self, source, target, count, kind, op, comm, stream):
        both = (memory(at, count, kind) for at in (source, target))
        return self.collective("all_reduce", *both, comm, stream, lambda x: reduced(x, op))

    def ncclBroadcast(self, source, target, count, kind, root, comm, stream):
        both = (memory(at, count, kind) for at in (source, target))
        return self.collective("broadcast", *both, comm, stream, lambda x: x[root])

    def ncclAllGather(self, source, target, count, kind, comm, stream):
        both = memory(source, count, kind), memory(target, count * self.comm.size, kind)
        return self.collective("all_gather", *both, comm, stream, lambda x: x.reshape(-1))

    def ncclReduceScatter(self, source, target, count, kind, op, comm, stream):
        both = memory(source, count * self.comm.size, kind), memory(target, count, kind)
        own = slice(self.comm.rank * count, (self.comm.rank + 1) * count)
        return self.collective("reduce_scatter", *both, comm, stream, lambda x: reduced(x, op)[own])


def reduced(x, op):
    return REDUCE[op](x, axis=0).astype(x.dtype)


def install(gpus=None):
    """Replace the driver and NCCL of this process. Returns both."""
    from mpi4py.MPI import COMM_WORLD

    driver = Driver()
    driver.gpus = gpus or COMM_WORLD.size
    sys.modules["pycuda"], sys.modules["pycuda.driver"] = Stub(driver=driver), driver
    nccl = NCCL(driver, COMM_WORLD)
    libcuda.load, compiler.cubin, libnccl.load = lambda: driver, driver.cubin, lambda: nccl
    gpu.atexit = Stub(register=lambda close: None)
    return driver, nccl
