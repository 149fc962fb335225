"""Frame: an array with padding around it, or cropped, as in `pad.cu`."""

import ctypes
from collections.abc import Sequence

from minigrad.kernels.view import MAX_DIMS, Shape


class Frame(ctypes.Structure):
    """Along axis d the array has `inner[d]` elements, `before[d]` more in front of it, and `shape[d]` in all."""

    _fields_ = (
        ("ndim", ctypes.c_int),
        ("shape", ctypes.c_int * MAX_DIMS),
        ("before", ctypes.c_int * MAX_DIMS),
        ("inner", ctypes.c_int * MAX_DIMS),
    )

    @staticmethod
    def around(shape: Shape, widths: Sequence[tuple[int, int]]) -> "Frame":
        """The frame of these widths, (before, after) for each axis, below 0 to crop; with as few axes as possible.

        Raises ValueError beyond 8 axes.
        """
        axes: list[tuple[int, int, int]] = []  # extent, before, after; the innermost first
        for extent, (before, after) in zip(reversed(shape), reversed(widths), strict=True):
            if (extent, before, after) == (1, 0, 0):
                continue
            whole = axes.pop()[0] if axes and not any(axes[-1][1:]) else 1  # an axis without a frame joins the next
            axes.append((extent * whole, before * whole, after * whole))
        if len(axes) > MAX_DIMS:
            raise ValueError(f"a kernel pads at most {MAX_DIMS} axes; shape {shape} has {len(axes)} to pad.")
        frame = Frame(len(axes))
        for d, (extent, before, after) in enumerate(axes):
            frame.shape[d], frame.before[d], frame.inner[d] = extent + before + after, before, extent
        return frame
