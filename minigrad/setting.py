"""The numbers of an optimizer, which may be set at any time."""

from collections.abc import Callable
from typing import Any

from minigrad.require import a, number


class Setting:
    """A number of an optimizer, checked whenever it is set: `optimizer.lr = 0.01`."""

    def __init__(self, check: Callable[[str, str, Any], Any] = number):
        self.check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __set__(self, optimizer: Any, value: Any) -> None:
        vars(optimizer)[self.name] = self.check(type(optimizer).__name__, self.name, value)

    def __get__(self, optimizer: Any, owner: type) -> Any:
        if optimizer is None:
            return self
        try:
            return vars(optimizer)[self.name]
        except KeyError:
            raise AttributeError(f"{owner.__name__} has no {self.name} yet; set it first.") from None


def two_below_one(who: str, name: str, value: Any) -> tuple[float, ...]:
    """The numbers themselves. Raises TypeError or ValueError."""
    if len(a(f"{who}: {name}", value, list | tuple, "two numbers, e.g. (0.9, 0.999)")) != 2:
        raise ValueError(f"{who}: {name}={value!r:.60} must be two numbers, e.g. (0.9, 0.999).")
    return tuple(number(who, f"{name}[{i}]", given, below=1) for i, given in enumerate(value))
