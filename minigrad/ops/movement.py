"""Movement ops: they compute nothing and take any dtype."""

from numbers import Integral
from operator import index
from typing import Any


def whole_numbers(name: str, parameter: str, value: Any) -> tuple[int, ...]:
    """One whole number or several, as a tuple. Raises TypeError for anything else."""
    try:
        return tuple(index(n) for n in ((value,) if isinstance(value, Integral) else value))
    except TypeError:
        raise TypeError(f"{name}: {parameter}={value!r} must be whole numbers, e.g. {parameter}=(0, 1).") from None


def copy_cost(*arrays: Any, **params: Any) -> tuple[int, int]:
    """FLOPs and bytes: none, and every element read once and written once."""
    return 0, 2 * sum(a.size * a.dtype.itemsize for a in arrays)
