"""What a kernel left in its outputs: elements that it never wrote, and NaN."""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from minigrad.array import Array
from minigrad.errors import LaunchError
from minigrad.microscope import advice, native
from minigrad.microscope.problem import Problem
from minigrad.microscope.problems import Finder
from minigrad.microscope.sites import NOWHERE


def check(
    names: Sequence[str], arrays: Mapping[str, tuple[int, Array]], seen: native.Seen, finder: Finder
) -> list[Problem]:
    """The problems of the named outputs; arrays are the parameters with their variable's number."""
    problems = []
    for name in names:
        if name not in arrays:
            raise LaunchError(f"outputs={name!r} is no array that the kernel was given; those are {', '.join(arrays)}.")
        number, array = arrays[name][0], arrays[name][1].numpy()
        writes = _last_writes(number, array, seen)
        problems += _never_written(name, writes, finder)
        problems += _nan(name, array, writes, seen, finder)
    return problems


def _last_writes(number: int, array: np.ndarray, seen: native.Seen) -> np.ndarray:
    """The stamp of the last write of each element, plain or atomic; epoch 0 where some of it was never written."""
    last = seen.cells(number)["write"]
    atomics = seen.atomics(number)
    if atomics is not None:
        for one in atomics["at"].T:
            last = np.where(one["epoch"] > last["epoch"], one, last)
    shift = seen.variables[number].shift
    parts = np.arange(max(array.itemsize >> shift, 1))
    cells = last[(np.arange(array.size) * array.itemsize >> shift)[:, None] + parts]
    least = cells["epoch"].argmin(1)[:, None]  # the part that was written first, or never
    stamps = np.take_along_axis(cells, least, 1)[:, 0]
    stamps["pc"] &= native.PC
    return stamps


def _never_written(name: str, writes: np.ndarray, finder: Finder) -> list[Problem]:
    missing = np.flatnonzero(writes["epoch"] == 0)
    if not missing.size:
        return []
    pcs = np.unique(writes["pc"][writes["epoch"] > 0])
    place = finder.places.of(pcs[0]) if pcs.size else NOWHERE  # where the others are written
    element = int(missing[0])
    message = advice.never_written(f"{name}[{element}]", missing.size, len(writes))
    return [Problem("never-written", message, *place.told, name, element, count=missing.size)]


def _nan(name: str, array: np.ndarray, writes: np.ndarray, seen: native.Seen, finder: Finder) -> list[Problem]:
    """NaN that the kernel wrote; one that was there before is not its fault."""
    if array.dtype.kind != "f":
        return []
    bad = np.flatnonzero(np.isnan(array.ravel()) & (writes["epoch"] > 0))
    if not bad.size:
        return []
    element = int(bad[0])
    stamp = writes[element]
    place = finder.places.of(stamp["pc"])
    block = int(seen.blocks(stamp["epoch"], prod(finder.grid)))
    where = finder.at(block, int(stamp["place"]) % (1 << native.THREAD_BITS))
    message = advice.nan(f"{name}[{element}]", bad.size)
    return [Problem("nan", message, *place.told, name, element, "write", *where, count=bad.size)]
