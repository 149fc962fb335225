"""What no GPU would launch is refused on the host, the same way for `sim` and `cuda`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from minigrad.devices import base
from minigrad.errors import LaunchError

if TYPE_CHECKING:
    from minigrad.kernel import Kernel

Extent = int | Sequence[int]


def dim3(name: str, what: str, extent: Extent, limit: base.Dim3) -> base.Dim3:
    """An int or up to three ints as (x, y, z), each at least 1 and within the limit."""
    values = tuple(extent) if isinstance(extent, Sequence) else (extent,)
    if not 1 <= len(values) <= 3 or not all(isinstance(v, int | np.integer) for v in values):
        raise LaunchError(f"{name}: {what}={extent!r} must be one to three whole numbers.")
    for axis, value, most in zip("xyz", values, limit, strict=False):
        if not 1 <= value <= most:
            raise LaunchError(f"{name}: {what}.{axis}={value} is outside 1 to {most}; choose it within.")
    x, y, z = (*map(int, values), 1, 1)[:3]
    return x, y, z


def check_limits(kernel: "Kernel", grid: base.Dim3, block: base.Dim3, shared: int, values: Mapping[str, int]) -> None:
    """Refuse what no GPU would launch: threads in a block, grid extents, shared memory."""
    threads = block[0] * block[1] * block[2]
    if threads > base.MAX_THREADS:
        shape = " x ".join(str(extent) for extent in block)
        tuned = ", ".join(f"{key}={value}" for key, value in values.items()) or f"block={shape}"
        raise LaunchError(
            f"{kernel.name}: {tuned} needs {threads} threads in a block; a device allows {base.MAX_THREADS}. "
            f"Choose smaller values{way_out(kernel, values)}."
        )
    for axis, value, most in zip("xyz", grid, base.MAX_GRID, strict=True):
        if value > most:
            raise LaunchError(f"{kernel.name}: grid.{axis}={value} blocks; a device allows {most}.")
    if isinstance(shared, bool) or not isinstance(shared, int | np.integer) or not 0 <= shared <= base.MAX_SHARED:
        raise LaunchError(
            f"{kernel.name}: shared={shared!r} bytes; a block may use 0 to {base.MAX_SHARED} bytes of shared memory."
        )


def way_out(kernel: "Kernel", values: Mapping[str, int]) -> str:
    """The legal values of the tunables, for a message."""
    legal = [f"{key} in {sorted(kernel.tunables[key])}" for key in values]
    return f": {', '.join(legal)}" if legal else f", at most {base.MAX_THREADS} threads in all"
