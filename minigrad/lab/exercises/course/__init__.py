"""The exercises, one a file: what to write, the solution, the hints, and the wrong versions that the check finds."""

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from minigrad.lab.exercises import Exercise, Text


def exercise(name: str | None = None) -> Any:
    """The exercise of that name; without a name a list of all, by notebook."""
    found = rooms()
    if name is None:
        return Text("\n".join(f"{each.notebook}  {each.call:34}{each.title}" for each in found.values()))
    if name not in found:
        raise ValueError(no_exercise(name))
    return found[name]


def no_exercise(name: str) -> str:
    """That there is none of this name, and which it may be."""
    near = get_close_matches(str(name), rooms(), 3)
    return f"There is no exercise {name!r}; " + (
        f"did you mean {' or '.join(near)}? mg.exercise() lists them." if near else f"there are {', '.join(rooms())}."
    )


@cache
def rooms() -> dict[str, Exercise]:
    """All exercises by name, in the order of their notebooks."""
    modules = {room.name: import_module(f"{__name__}.{room.name}") for room in iter_modules(__path__)}
    found = [getattr(module, name) for name, module in modules.items()]
    return {each.name: each for each in sorted(found, key=lambda each: each.notebook)}
