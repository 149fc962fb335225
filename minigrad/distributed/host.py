"""Backend: the collectives for one kind of memory; HostMemory, those of MPI for the devices numpy and sim."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from minigrad import tape
from minigrad.devices import get, is_gpu
from minigrad.devices.array import Array
from minigrad.devices.dtypes import is_bfloat16, is_last, laid_out
from minigrad.distributed.nccl import NCCL
from minigrad.distributed.world import World, init


class Backend(Protocol):
    """The collectives for one kind of memory. They are called after all ranks have agreed, and return new arrays.

    Several arrays have one dtype, and travel in one message. where: the place of the arrays, if it is not the host, for
    the sentence about ranks that differ. overlaps: True where a message can travel while the device computes.
    """

    overlaps: bool
    where: str

    def all_reduce(self, arrays: Sequence[Any], op: str, overlap: bool = False) -> list[Any]:
        """Each array reduced over the ranks: op is "sum", "mean", "max" or "min".

        overlap: the message may travel while the device goes on, so the results are there only after `join`.
        """

    def join(self) -> None:
        """Let the device wait for the messages that overlap with its work; the host goes on."""

    def broadcast(self, arrays: Sequence[Any], root: int) -> list[Any]:
        """Those of the rank root."""

    def all_gather(self, array: Any) -> Any:
        """Those of all ranks along a new first axis."""

    def reduce_scatter(self, array: Any, op: str) -> Any:
        """This rank's part of the reduced array, along the first axis."""


class HostMemory:
    """MPI moves a copy in host memory; the results are on the devices of what is given, which may be several."""

    overlaps, where = False, ""

    def __init__(self, world: World):
        self.world = world

    def all_reduce(self, arrays: Sequence[Any], op: str, overlap: bool = False) -> list[Any]:
        """The sum is that of MPI, the same to the last bit on every rank; it is there at once."""
        return _split(self.reduced(_joined(arrays), op), arrays)

    def join(self) -> None:
        """No message overlaps with the processor's work."""

    def broadcast(self, arrays: Sequence[Any], root: int) -> list[Any]:
        """One message from the rank root."""
        flat = _joined(arrays)
        if self.world.size > 1:
            self.world.comm.Bcast(flat.view(np.uint8), root)
        return _split(flat, arrays)

    def all_gather(self, array: Any) -> Any:
        """Shape (size, *shape)."""
        whole = self._gathered(_joined([array])).reshape(self.world.size, *array.shape)
        return Array.upload(array.device, whole) if isinstance(array, Array) else whole

    def reduce_scatter(self, array: Any, op: str) -> Any:
        """Rank r has the rows from r * n to (r + 1) * n of the reduced array, n = shape[0] / size."""
        flat, ranks, rank = _joined([array]), self.world.size, self.world.rank
        own = np.empty(flat.size // ranks, flat.dtype)
        if ranks == 1 or op in ("max", "min") or is_bfloat16(flat.dtype):
            own = self.reduced(flat, op)[rank * own.size :][: own.size]
        else:
            self.world.comm.Reduce_scatter_block(flat, own)
            own = own / ranks if op == "mean" else own
        return _on_device_of(array, own.reshape(array.shape[0] // ranks, *array.shape[1:]))

    def reduced(self, flat: np.ndarray, op: str) -> np.ndarray:
        """A flat array reduced over the ranks, in place where MPI can."""
        if self.world.size == 1:
            return flat
        if op in ("max", "min"):  # by NumPy: MPI leaves open what becomes of NaN
            return getattr(self._gathered(flat), op)(axis=0)
        if is_bfloat16(flat.dtype):
            return self.reduced(flat.astype(np.float32), op).astype(flat.dtype)
        from mpi4py import MPI

        self.world.comm.Allreduce(MPI.IN_PLACE, flat)
        if op == "mean":
            flat /= self.world.size
        return flat

    def _gathered(self, flat: np.ndarray) -> np.ndarray:
        """Shape (size, elements)."""
        whole = np.empty((self.world.size, flat.size), flat.dtype)
        if self.world.size == 1:
            whole[0] = flat
        else:
            self.world.comm.Allgather(flat.view(np.uint8), whole.view(np.uint8))
        return whole


def backend_of(device: str) -> Backend:
    """The back end for arrays of this device: NCCL for a GPU, MPI for all others."""
    gpu: Any = get(device) if is_gpu(device) else None
    return _nccl(gpu) if gpu else _host()


@cache
def _host() -> HostMemory:
    return HostMemory(init())


@cache
def _nccl(gpu: Any) -> NCCL:
    return NCCL(init(), gpu)


def _joined(arrays: Sequence[Any]) -> np.ndarray:
    """A copy of all their elements in host memory, one after the other. Raises RuntimeError in a captured step."""
    if tape.mode.recorder:
        raise RuntimeError(
            "mg.graph: the step sends what is in host memory to the other ranks, and a replay would not. Give a tensor "
            "on the GPU, or make the call outside the step."
        )
    return np.concatenate([(x.numpy() if isinstance(x, Array) else x).reshape(-1) for x in arrays])


def _split(flat: np.ndarray, like: Sequence[Any]) -> list[Any]:
    """Arrays of the shapes, layouts and devices of these, from all their elements."""
    parts = np.split(flat, np.cumsum([x.size for x in like])[:-1])
    return [_on_device_of(x, part.reshape(x.shape)) for x, part in zip(like, parts, strict=True)]


def _on_device_of(like: Any, host: np.ndarray) -> Any:
    """The numbers on the device and in the layout of this array: on numpy a part of the message, else a copy."""
    if isinstance(like, Array):
        return Array.upload(like.device, host, like.channels_last)
    return laid_out(host, True) if is_last(like) else host
