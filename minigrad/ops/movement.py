"""Movement ops: they compute nothing and take any dtype."""

from numbers import Integral
from operator import index
from typing import Any


def whole_numbers(name: str, what: str, given: Any) -> tuple[int, ...]:
    """One whole number or several, as a tuple. Raises TypeError for anything else."""
    try:
        return tuple(index(n) for n in ((given,) if isinstance(given, Integral) else given))
    except TypeError:
        raise TypeError(f"{name}: {what}={given!r} must be whole numbers, e.g. {what}=(0, 1).") from None


def moved(*arrays: Any, **params: Any) -> tuple[int, int]:
    """FLOPs and bytes: none, and every element read once and written once."""
    return 0, 2 * sum(a.size * a.dtype.itemsize for a in arrays)
