"""The errors of minigrad that NumPy and Python have no name for.

Wrong shapes and axes raise ValueError, wrong types TypeError, misuse of the tape RuntimeError, as in NumPy and PyTorch.
"""

from collections.abc import Callable, Iterable, Sequence
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np


class DeviceError(RuntimeError):
    """A device is not to be had on this machine; the text says what to install."""


class CompileError(RuntimeError):
    """CUDA C++ that does not compile; the text names file and line as the reader knows them."""


class LaunchError(ValueError):
    """A launch that was refused before it ran: arguments, block, grid or shared memory do not fit."""


class KernelError(RuntimeError):
    """A kernel that went wrong while it ran.

    kind is one of "out-of-bounds", "null-pointer", "misaligned", "division", "barrier-divergence", "timeout", "assert",
    "illegal-access"; buffer is the parameter's name; block and thread are (x, y, z); address is that of
    the access; reason is what happened and the way out, without its place. What is unknown is None.
    """

    def __init__(
        self,
        message: str,
        kernel: str,
        kind: str,
        buffer: str | None = None,
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
        line: int | None = None,
        file: str | None = None,
        address: int | None = None,
        reason: str = "",
    ):
        super().__init__(message)
        self.reason = reason or message
        self.kernel, self.kind, self.buffer, self.address = kernel, kind, buffer, address
        self.block, self.thread, self.line, self.file = block, thread, line, file


MOST = float(np.finfo(np.float64).max)


def whole(who: str, name: str, value: Any, least: int = 0) -> int:
    """The whole number itself, as Python's. Raises TypeError or ValueError."""
    return int(_among(who, name, value, Integral, f"a whole number of at least {least}", lambda n: n >= least))


def number(who: str, name: str, value: Any, least: float = 0, below: float = inf) -> float:
    """The number itself, as Python's, with least <= value < below; NaN is none. Raises TypeError or ValueError."""
    wanted = f"a number of at least {least}" if below == inf else f"a number from {least} to below {below}"
    wanted = "a finite number" if least == -inf else wanted
    return float(_among(who, name, value, Real, wanted, lambda n: least <= n < below and abs(n) <= MOST))


def flag(who: str, name: str, value: Any) -> bool:
    """True or False itself. Raises TypeError, since a word such as "no" would count as True."""
    return bool(a(f"{who}: {name}", value, bool | np.bool, "True or False"))


def a(who: str, value: Any, kind: Any, wanted: str) -> Any:
    """The value itself where it is of that kind. Raises TypeError: "who takes <wanted>; got ..."."""
    if not isinstance(value, kind):
        raise TypeError(f"{who} takes {wanted}; got {short(value)}.")
    return value


def words(who: str, name: str, given: Any, known: Sequence[str]) -> tuple[str, ...]:
    """The words of a list, or one alone, each of them among those known. Raises TypeError or ValueError."""
    listed = (
        (given,) if isinstance(given, str) else a(f"{who}: {name}", given, Iterable, f"a list of {', '.join(known)}")
    )
    for word in (found := tuple(listed)):
        if word not in known:
            raise ValueError(f"{who}: {name}={word!r:.60} must be among {', '.join(known)}.")
    return found


def short(value: Any) -> str:
    """The type of a value and the beginning of what it shows itself as, for a message."""
    return f"{type(value).__name__} {' '.join(repr(value).split()):.60}"


def _among(who: str, name: str, value: Any, kind: type, wanted: str, fits: Callable[[Any], bool]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()  # a NumPy number compares in its own precision
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{who}: {name}={value!r:.60} must be {wanted}.")
    if not fits(value):
        raise ValueError(f"{who}: {name}={value!r:.60} must be {wanted}.")
    return value
