"""Choices timed on a GPU: cached on disk by device, op, kernel text and shape class, and applied to every launch."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from minigrad.devices import caches, get, why_not
from minigrad.errors import require_bool
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.record import records
from minigrad.lab.bench.sweeps import settings
from minigrad.lab.bench.work import Work
from minigrad.lab.bench.workloads import suite
from minigrad.op import OPS, Op

Plan = tuple[str, list[int], dict[str, int]]  # a kernel's role in the op, the sizes of a launch, its tunables' values


def size_class(extent: int) -> int:
    """ceil(log2(extent)): sizes of one class share a choice."""
    return max(extent - 1, 0).bit_length()


def cache_key(work: Work) -> str:
    """The key of a choice: op, kernel, direction, dtype, shape classes, parameters, hash of the kernels' texts."""
    shapes = [[size_class(n) for n in shape] for shape, _ in work.shapes()]
    sources = dict.fromkeys(kernel.source for kernel in work.chosen.kernels.values())
    text = hashlib.sha256(repr([source.texts for source in sources]).encode()).hexdigest()[:12]
    return " ".join(map(str, (work.op.name, work.variant or "", work.way, work.dtype, shapes, work.case.params, text)))


def find(device: str, work: Work) -> str | None:
    return read(device).get(cache_key(work), {}).get("choice")


def save(device: str, work: Work, choice: str, plans: Sequence[Plan]) -> None:
    entry = {"op": work.op.name, "choice": choice, "plans": plans}
    caches.keep(_path(device), json.dumps(read(device) | {cache_key(work): entry}, indent=1).encode())


def plans(work: Work, op: Op) -> list[Plan]:
    """The plans of the launches of a work with this setting of the op."""
    copies = dict[int, Kernel]()  # of the kernels, without plans of other works
    fresh = op.with_kernels({role: copies.setdefault(id(k), k.using()) for role, k in op.kernels.items()})
    launched = {run.kernel for run in work.dry(fresh).launches}  # without the forward pass, which a gradient plans, too
    roles = {kernel.name: role for role, kernel in work.op.kernels.items()}  # not the setting's: it may have others
    return [
        (roles[kernel.name], list(launch.sizes.values()), dict(launch.values))
        for kernel in copies.values()
        if kernel.name in launched
        for launch in kernel.planned
    ]


def read(device: str) -> dict[str, Any]:
    """All entries of a device. Raises ValueError for a damaged file."""
    path = _path(device)
    try:
        return json.loads(path.read_text()) if path.is_file() else {}
    except ValueError as error:
        raise ValueError(f"{path} holds no choices ({error}); delete it, and they will be timed again.") from error


def _path(device: str) -> Path:
    return caches.folder() / f"choices-{device.lower().replace(' ', '-')}.json"


# --- applied automatically ---


def auto(on: bool = True) -> int:
    """Apply the choices for this GPU to all kernels from now on; returns the number of choices.

    Choices come from this GPU's records and from `mg.tune` on this machine; a launch of another size uses those of the
    nearest. Values asked for, as in op.using(BLOCK=64), have precedence. The look-up is part of planning a launch, once
    for each size, so the host's time for a call stays the same. auto(False) ends it.
    """
    require_bool("mg.tune.auto", "on", on)
    for op in OPS.values():
        for kernel in op.kernels.values():
            kernel.forget()
    if not on or why_not("cuda"):
        return 0
    device: Any = get("cuda")
    timed = [(entry["op"], plan) for entry in read(device.label).values() for plan in entry["plans"]]
    known = [*_recorded(device.label), *timed]
    for name, (role, sizes, values) in known:
        OPS[name].kernels[role].prefer(tuple(sizes), values)
    return len(known)


def _recorded(device: str) -> Iterator[tuple[str, Plan]]:
    """Plans of the choices in the newest record of a device."""
    choices = next((r.choices for r in records(device) if r.choices), {})
    for work in suite():
        chosen = choices.get(work.title, {}).get("search")
        for setting in settings(work) if chosen else ():
            if setting.label == chosen:
                yield from ((work.op.name, plan) for plan in plans(work, setting.op))
