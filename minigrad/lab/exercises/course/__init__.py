"""The exercises, one a file: the task, the solution, the hints, and the wrong versions that the check recognizes."""

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from minigrad.display import Text
from minigrad.lab.exercises import Exercise


def exercise(name: str | None = None) -> Any:
    """The exercise of that name; without a name a list of all, by notebook. Raises ValueError for an unknown name."""
    found = all_exercises()
    if name is None:
        return Text("\n".join(f"{each.notebook}  {each.call:34}{each.title}" for each in found.values()))
    if name not in found:
        near, known = get_close_matches(str(name), found, 3), ", ".join(found)
        hint = f"did you mean {' or '.join(near)}? mg.exercise() lists them." if near else f"there are {known}."
        raise ValueError(f"There is no exercise {name!r}; {hint}")
    return found[name]


@cache
def all_exercises() -> dict[str, Exercise]:
    """All exercises by name, in the order of their notebooks."""
    names = [info.name for info in iter_modules(__path__)]
    found = [getattr(import_module(f"{__name__}.{name}"), name) for name in names]
    return {each.name: each for each in sorted(found, key=lambda each: each.notebook)}
