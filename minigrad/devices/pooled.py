"""GPU memory that a tensor holds: taken from the pool, and given back when nobody holds it any more."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minigrad.devices.gpu import GPU


class PooledBuffer:
    """Memory from the pool; it goes back when this object is collected."""

    __slots__ = ("__weakref__", "_allocation", "_gpu", "address", "nbytes")

    def __init__(self, gpu: "GPU", allocation: Any, nbytes: int):
        self._gpu, self._allocation, self.nbytes = gpu, allocation, nbytes
        self.address = int(allocation)

    def release(self) -> None:
        """Give the memory back to the pool."""
        allocation, self._allocation = self._allocation, None
        if allocation is not None:
            with self._gpu.current():
                allocation.free()

    def __del__(self) -> None:
        self.release()
