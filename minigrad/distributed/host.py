"""HostMemory: the collectives of MPI on arrays in host memory, those of the devices numpy and sim."""

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from minigrad.devices import is_gpu
from minigrad.devices.array import Array
from minigrad.devices.dtypes import is_last, laid_out
from minigrad.distributed.world import World, init


class Backend(Protocol):
    """The collectives for one kind of memory. They are called after all ranks have agreed, and return new arrays.

    Several arrays have one dtype, and travel in one message.
    """

    def all_reduce(self, arrays: Sequence[Any], op: str) -> list[Any]:
        """Each array reduced over the ranks: op is "sum", "mean", "max" or "min"."""

    def broadcast(self, arrays: Sequence[Any], root: int) -> list[Any]:
        """Those of the rank root."""

    def all_gather(self, array: Any) -> Any:
        """Those of all ranks along a new first axis."""

    def reduce_scatter(self, array: Any, op: str) -> Any:
        """This rank's part of the reduced array, along the first axis."""


class HostMemory:
    """MPI moves a copy in host memory; the results are on the devices of what is given, which may be several."""

    def __init__(self, world: World):
        self.world = world

    def all_reduce(self, arrays: Sequence[Any], op: str) -> list[Any]:
        """The sum is that of MPI, the same to the last bit on every rank."""
        return _split(self._reduced(_joined(arrays), op), arrays)

    def broadcast(self, arrays: Sequence[Any], root: int) -> list[Any]:
        """One message from the rank root."""
        flat = _joined(arrays)
        if self.world.size > 1:
            self.world.comm.Bcast(flat, root)
        return _split(flat, arrays)

    def all_gather(self, array: Any) -> Any:
        """Shape (size, *shape)."""
        whole = self._gathered(_joined([array])).reshape(self.world.size, *array.shape)
        return Array.upload(array.device, whole) if isinstance(array, Array) else whole

    def reduce_scatter(self, array: Any, op: str) -> Any:
        """Rank r has the rows from r * n to (r + 1) * n of the reduced array, n = shape[0] / size."""
        flat, ranks, rank = _joined([array]), self.world.size, self.world.rank
        own = np.empty(flat.size // ranks, flat.dtype)
        if ranks == 1 or op in ("max", "min"):
            own = self._reduced(flat, op)[rank * own.size :][: own.size]
        else:
            self.world.comm.Reduce_scatter_block(flat, own)
            own = own / ranks if op == "mean" else own
        return _on_device_of(array, own.reshape(array.shape[0] // ranks, *array.shape[1:]))

    def _reduced(self, flat: np.ndarray, op: str) -> np.ndarray:
        if self.world.size == 1:
            return flat
        if op in ("max", "min"):  # by NumPy: MPI leaves open what becomes of NaN
            return getattr(self._gathered(flat), op)(axis=0)
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
            self.world.comm.Allgather(flat, whole)
        return whole


def backend_of(device: str) -> Backend:
    """The back end for arrays of this device. Raises ValueError for a GPU."""
    if is_gpu(device):
        raise ValueError(f"collectives do not take tensors on {device} yet: send a copy in host memory, x.to('numpy').")
    return _host()


@cache
def _host() -> HostMemory:
    return HostMemory(init())


def _joined(arrays: Sequence[Any]) -> np.ndarray:
    """A copy of all their elements in host memory, one after the other."""
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
