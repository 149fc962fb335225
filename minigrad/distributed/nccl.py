"""NCCL: the collectives between GPUs, of which each rank has one."""

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from minigrad.devices.array import Array, array_over
from minigrad.devices.cuda import libnccl
from minigrad.devices.cuda.side_stream import SideStream
from minigrad.devices.dtypes import copied, has_gradient, is_bfloat16
from minigrad.devices.layouts import in_layout
from minigrad.distributed.world import World
from minigrad.errors import DeviceError
from minigrad.operators import OPS

EXTREMES = ("max", "min")
NUMBERS = {np.dtype(name): number for name, number in libnccl.TYPES.items()}


class NCCL:
    """NCCL moves device memory to device memory, on the GPU's own stream, so a step of `mg.graph` may call it.

    The calls are queued as kernels are: they return before anything has arrived.
    """

    overlaps, where = True, " on a GPU"

    def __init__(self, world: World, gpu: Any):
        self.world, self.gpu = world, gpu

    def all_reduce(self, arrays: Sequence[Any], op: str, overlap: bool = False) -> list[Any]:
        """Several arrays are one kernel of NCCL. overlap: it runs while the stream goes on, until `join`."""
        if op in EXTREMES and has_gradient(arrays[0].dtype):  # by minigrad's kernel: NCCL's leaves NaN out
            return [self._extreme(x, op) for x in arrays]
        made = [_like(x) for x in arrays]
        self._queue("ncclAllReduce", arrays, made, _type(op, arrays[0].spec.dtype), libnccl.OPS[op], overlap=overlap)
        return made

    def join(self) -> None:
        """Let the GPU's stream wait for what overlaps with it."""
        with self.gpu.context.lock:
            self.side.join()

    def broadcast(self, arrays: Sequence[Any], root: int) -> list[Any]:
        """The memory of each array as bytes: all ranks have one layout."""
        made = [_like(x) for x in arrays]
        self._queue("ncclBroadcast", arrays, made, None, root)
        return made

    def all_gather(self, array: Any) -> Any:
        """Shape (size, *shape)."""
        made = Array.empty(array.device, (self.world.size, *array.shape), array.dtype)
        self._queue("ncclAllGather", [in_layout(array, False)], [made], None)
        return made

    def reduce_scatter(self, array: Any, op: str) -> Any:
        """Rank r has the rows from r * n to (r + 1) * n of the reduced array, n = shape[0] / size."""
        rows, plain = array.shape[0] // self.world.size, in_layout(array, False)
        shape = rows, *array.shape[1:]
        if op in EXTREMES and has_gradient(array.dtype):
            whole = self._extreme(plain, op).reshape((self.world.size, prod(shape)))
            made = copied(whole.rows(self.world.rank, 1)).reshape(shape)
        else:
            made = Array.empty(array.device, shape, array.dtype)
            self._queue("ncclReduceScatter", [plain], [made], _type(op, array.dtype), libnccl.OPS[op])
        return in_layout(made, array.channels_last)

    def _extreme(self, x: Array, op: str) -> Array:
        """The largest or smallest over the ranks, element by element; NaN where one has NaN."""
        if not x.size:
            return _like(x)
        plain = in_layout(x, False)
        plain = plain if op == "max" else OPS["negative"].run([plain], {})
        every = self.all_gather(plain).reshape((self.world.size, x.size))
        found = OPS["max"].run([every], {"axis": (0,), "keepdims": False}).reshape(x.shape)
        return in_layout(found if op == "max" else OPS["negative"].run([found], {}), x.channels_last)

    def _queue(
        self, name: str, given: Sequence[Array], made: Sequence[Array], kind: int | None, *word: int,
        overlap: bool = False,
    ) -> None:  # fmt: skip
        """Queue a collective from each given array to one that is made. kind: None for any numbers, sent as bytes."""
        gpu, context = self.gpu, self.gpu.context
        if self.world.size == 1:
            for x, y in zip(given, made, strict=True):
                y.copy_from(x)
            return
        (library, comm), several = self.communicator, len(given) > 1
        function, stream = getattr(library, name), (self.side if overlap else gpu.stream).handle
        with context.lock if context.claim() else context.current():  # NCCL works in the context that is current
            context.must_live()
            if overlap:
                self.side.begin()
            gpu.memory.touch((*given, *made))
            status = library.ncclGroupStart() if several else 0
            for x, y in zip(given, made, strict=True):
                count = min(x.spec.size, y.spec.size)
                numbers = (count, kind) if kind is not None else (count * x.spec.dtype.itemsize, libnccl.BYTES)
                status = status or function(x.address, y.address, *numbers, *word, comm, stream)
            status = (library.ncclGroupEnd() if several else 0) or status
            if status:
                libnccl.check(library, status)

    @cached_property
    def side(self) -> SideStream:
        """The stream of the messages that overlap with the GPU's work."""
        return SideStream(self.gpu.context)

    @cached_property
    def communicator(self) -> tuple[Any, Any]:
        """The library and the communicator, which all ranks make together. Raises DeviceError on every rank."""
        world, lack, name, place = self.world, "", b"", self.gpu.place
        try:
            library = libnccl.load()
            name = b"" if world.rank else libnccl.unique_id(library)
        except DeviceError as error:
            lack = str(error)
        lacks, names, places = zip(*world.comm.allgather((lack, name, place)), strict=True)
        for rank, text in enumerate(lacks):
            if text:
                raise DeviceError(f"rank {rank}: {text}")
            if (first := places.index(places[rank])) < rank:
                raise DeviceError(
                    f"ranks {first} and {rank} work on one GPU, and NCCL needs one for each. Call "
                    "mg.distributed.init() before a GPU is used, or give device=mg.distributed.device()."
                )
        with self.gpu.context.guarded():
            return library, libnccl.communicator(library, names[0], world.size, world.rank)


def _like(x: Array) -> Array:
    spec = x.spec
    if spec.offset:
        return Array.empty(spec.device, spec.shape, spec.dtype, spec.channels_last)
    return array_over(spec.device.allocate(max(spec.nbytes, 1)), spec)


def _type(op: str, dtype: np.dtype) -> int:
    """NCCL's number of a dtype. Raises TypeError for one that it does not compute with."""
    number = NUMBERS.get(dtype, libnccl.BFLOAT16 if is_bfloat16(dtype) else None)
    if number is None:
        raise TypeError(f"NCCL takes no {op} of {dtype}; convert x with .astype('int32').")
    return number
