"""The state of a module, an optimizer or a schedule: arrays by name, checked before any of them is loaded."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from minigrad.devices.dtypes import to_host
from minigrad.errors import require


def fitting(who: str, given: Any, wanted: Mapping[str, np.ndarray], optional: Collection[str] = ()) -> dict:
    """The given arrays in the dtypes of those wanted. Raises KeyError for other names, ValueError for other shapes."""
    require(who, given, Mapping, "what state_dict() gives, arrays by name")
    missing, unexpected = wanted.keys() - given.keys() - {*optional}, given.keys() - wanted.keys()
    if missing or unexpected:
        raise KeyError(f"{who}: missing: {_listed(missing)}; unexpected: {_listed(unexpected)}.")
    new = {name: to_host(x, wanted[name].dtype, f"{who}: {name}") for name, x in given.items()}
    for name, x in new.items():
        if x.shape != wanted[name].shape:
            raise ValueError(f"{who}: {name} is {x.shape}; it must be {wanted[name].shape}.")
    return new


def _listed(names: Iterable[Any]) -> str:
    """The first of these names, and the number of the others."""
    ordered = sorted(map(str, names)) or ["none"]
    return ", ".join(ordered[:5]) + f" and {len(ordered) - 5} more" * (len(ordered) > 5)
