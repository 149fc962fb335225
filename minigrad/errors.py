"""The errors of minigrad that NumPy and Python have no name for, and checks of arguments.

Wrong shapes and axes raise ValueError, wrong types TypeError, misuse of the tape RuntimeError, as in NumPy and PyTorch.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np


class DeviceError(RuntimeError):
    """A device is not available on this machine; the message says what to install."""


class CompileError(RuntimeError):
    """CUDA C++ that does not compile; the message names the reader's own file and line."""


class LaunchError(ValueError):
    """A launch that was rejected before it ran: its arguments, block, grid or shared memory do not fit."""


class UnfitKernel(ValueError):
    """A kernel that was selected by its name, and is not for inputs like these."""


class RankError(RuntimeError):
    """A job of several processes that failed: its first failing rank, if one is known, with that rank's traceback."""

    def __init__(self, message: str, rank: int | None = None, trace: str = ""):
        super().__init__(message)
        self.rank, self.trace = rank, trace


def warn(message: str, kind: type[Warning] = UserWarning) -> None:
    """Warn at the line of the caller, the first one outside of minigrad."""
    frame, level = sys._getframe(1), 2
    while frame.f_back and f"{frame.f_globals.get('__name__')}.".startswith("minigrad."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, kind, stacklevel=level)


FAULTS = (
    "out-of-bounds", "null-pointer", "misaligned", "division", "barrier-divergence", "timeout", "assert",
    "illegal-access",
)  # fmt: skip


@dataclass(eq=False, repr=False)
class KernelError(RuntimeError):
    """A kernel that failed while it ran.

    kind is one of FAULTS; buffer is the parameter's name; block and thread are (x, y, z); address is that of the
    access; reason is the fault and its remedy, without the location. Unknown fields are None.
    """

    message: str
    kernel: str
    kind: str
    buffer: str | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    line: int | None = None
    file: str | None = None
    address: int | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        super().__init__(self.message)
        self.reason = self.reason or self.message


def require_resident(kernel: str, blocks: int, most: int, where: str) -> None:
    """Raise LaunchError where a cooperative launch has more blocks than the device runs at once."""
    if blocks > most:
        way_out = f"a grid of at most {most} blocks, or smaller blocks" if most else "a smaller block"
        raise LaunchError(
            f"{kernel}: {blocks} blocks are to wait for each other; {where} runs {most} at once. Choose {way_out}."
        )


def require_int(who: str, name: str, value: Any, least: int = 0) -> int:
    """The value as an int of at least `least`. Raises TypeError or ValueError."""
    return int(_among(who, name, value, Integral, f"a whole number of at least {least}", lambda n: n >= least))


def require_number(
    who: str, name: str, value: Any, least: float = 0, below: float = inf, most: float = sys.float_info.max
) -> float:
    """The value as a float with least <= value < below, and at most `most`; NaN is rejected.

    Raises TypeError or ValueError.
    """
    wanted = f"a number of at least {least}" if below == inf else f"a number from {least} to below {below}"
    wanted = "a finite number" if least == -inf else wanted
    wanted = wanted if most == sys.float_info.max else f"a number from {least} to {most}"
    return float(
        _among(who, name, value, Real, wanted, lambda n: least <= n < below and -sys.float_info.max <= n <= most)
    )


def require_bool(who: str, name: str, value: Any) -> bool:
    """The value if it is True or False. Raises TypeError, since a word such as "no" would count as True."""
    return bool(require(f"{who}: {name}", value, bool | np.bool, "True or False"))


def require(who: str, value: Any, kind: Any, wanted: str) -> Any:
    """The value if it is an instance of `kind`. Raises TypeError: "who takes <wanted>; got ..."."""
    if not isinstance(value, kind):
        raise TypeError(f"{who} takes {wanted}; got {short(value)}.")
    return value


def require_word(who: str, name: str, value: Any, known: Sequence[str]) -> str:
    """The word if it is among those known. Raises TypeError or ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"{who}: {name}={value!r:.60} must be one of {', '.join(known)}.")
    return require_words(who, name, value, known)[0]


def require_words(who: str, name: str, value: Any, known: Sequence[str]) -> tuple[str, ...]:
    """A word or a list of words as a tuple, each among those known. Raises TypeError or ValueError."""
    one = (value,) if isinstance(value, str) else value
    for word in (found := tuple(require(f"{who}: {name}", one, Iterable, f"a list of {', '.join(known)}"))):
        if word not in known:
            raise ValueError(f"{who}: {name}={word!r:.60} must be among {', '.join(known)}.")
    return found


def short(value: Any) -> str:
    """The type of a value and the beginning of its repr, for a message."""
    return f"{type(value).__name__} {' '.join(repr(value).split()):.60}"


def _among(who: str, name: str, value: Any, kind: type, wanted: str, fits: Callable[[Any], bool]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()  # a NumPy number compares in its own precision
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{who}: {name}={value!r:.60} must be {wanted}.")
    if not fits(value):
        raise ValueError(f"{who}: {name}={value!r:.60} must be {wanted}.")
    return value
