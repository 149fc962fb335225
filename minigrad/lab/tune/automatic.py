"""Automatic tuning: every launch uses the choice for its size, or for the nearest size."""

from collections.abc import Iterator
from typing import Any

from minigrad.devices import get, why_not
from minigrad.errors import flag
from minigrad.lab.bench.record import records
from minigrad.lab.bench.sweeps import settings
from minigrad.lab.bench.workloads import suite
from minigrad.lab.tune import cache
from minigrad.op import OPS


def auto(on: bool = True) -> int:
    """Apply the choices for this GPU to all kernels from now on; returns the number of choices.

    Choices come from this GPU's records and from `mg.tune` on this machine; a launch of another size uses those of the
    nearest. Values asked for, as in op.using(BLOCK=64), have precedence. The look-up is part of planning a launch, once
    for each size, so the host's time for a call stays the same. auto(False) ends it.
    """
    flag("mg.tune.auto", "on", on)
    for op in OPS.values():
        for kernel in op.kernels.values():
            kernel.forget()
    if not on or why_not("cuda"):
        return 0
    device: Any = get("cuda")
    known = [*_recorded(device.label), *_timed(device.label)]
    for name, (role, sizes, values) in known:
        OPS[name].kernels[role].prefer(tuple(sizes), values)
    return len(known)


def _recorded(device: str) -> Iterator[tuple[str, cache.Plan]]:
    """Plans of the choices in the newest record of a device."""
    choices = next((r.choices for r in records(device) if r.choices), {})
    for work in suite():
        chosen = choices.get(work.title, {}).get("search")
        for setting in settings(work) if chosen else ():
            if setting.label == chosen:
                yield from ((work.op.name, plan) for plan in cache.plans(work, setting.op))


def _timed(device: str) -> Iterator[tuple[str, cache.Plan]]:
    """Plans cached on this machine."""
    for entry in cache.read(device).values():
        yield from ((entry["op"], plan) for plan in entry["plans"])
