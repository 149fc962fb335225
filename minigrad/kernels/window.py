"""Window: the geometry of a 2-D convolution or pooling, as in `window.cuh`."""

import ctypes
from typing import Any

from minigrad.kernels.view import Shape

MOST = 2**24  # pixels of a stride, a padding, a window
Pair = tuple[int, int]
Sides = tuple[Pair, Pair]  # (top, bottom), (left, right)


class Window(ctypes.Structure):
    """A window that moves over images (N, channels, height, width) and makes one pixel of each place.

    Row p of the output meets, at row r of the window, row p stride_y - top + r dilation_y of the image; columns alike.
    """

    _fields_ = tuple(
        (name, ctypes.c_int)
        for name in (
            *("channels", "height", "width", "rows", "columns", "out_height", "out_width"),
            *("stride_y", "stride_x", "top", "left", "dilation_y", "dilation_x"),
        )
    )

    @staticmethod
    def over(image: Shape, size: Pair, stride: Pair, padding: Sides, dilation: Pair = (1, 1)) -> "Window":
        """The window of this size over an image (..., channels, height, width)."""
        (top, bottom), (left, right) = padding
        across = zip(image[-2:], size, stride, (top + bottom, left + right), dilation, strict=True)
        out = [(n + pad - step * (k - 1) - 1) // move + 1 for n, k, move, pad, step in across]
        return Window(*image[-3:], *size, *out, *stride, top, left, *dilation)


def pair(op: str, name: str, value: Any, least: int) -> Pair:
    """A whole number for both axes, or one for each: (down, across). Raises TypeError or ValueError."""
    both = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(both) != 2 or any(isinstance(n, bool) or not hasattr(n, "__index__") for n in both):
        raise TypeError(f"{op}: {name}={value!r} must be a whole number, or two: (down, across).")
    if not least <= min(both) <= max(both) <= MOST:
        raise ValueError(f"{op}: {name}={value!r} must be at least {least}, and at most {MOST}.")
    return int(both[0]), int(both[1])


def sides(op: str, padding: Any) -> Sides:
    """The padding of each side: a whole number, (down, across), or ((top, bottom), (left, right))."""
    if isinstance(padding, tuple | list) and len(padding) == 2 and all(isinstance(p, tuple | list) for p in padding):
        down, across = (pair(op, "padding", each, 0) for each in padding)
        return down, across
    y, x = pair(op, "padding", padding, 0)
    return (y, y), (x, x)


def must_fit(op: str, image: Shape, size: Pair, padding: Sides, dilation: Pair = (1, 1)) -> None:
    """Raise ValueError where the window is larger than the padded image."""
    padded = tuple(n + sum(pad) for n, pad in zip(image[-2:], padding, strict=True))
    spread = tuple(step * (k - 1) + 1 for k, step in zip(size, dilation, strict=True))
    missing = tuple(max(k - n, 0) for n, k in zip(padded, spread, strict=True))
    if any(missing):
        dilated = f" with dilation {dilation}" if dilation != (1, 1) else ""
        raise ValueError(
            f"{op}: the window is {spread[0]} x {spread[1]}{dilated}, and the padded image {padded[0]} x {padded[1]}; "
            f"pad by {missing[0]} rows and {missing[1]} columns more."
        )
