"""Choices timed on a GPU, cached on disk by device, op, kernel text and shape class."""

import hashlib
import json
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

from minigrad.devices import caches
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.work import Work
from minigrad.op import Op

Plan = tuple[str, list[int], dict[str, int]]  # a kernel's role in the op, the sizes of a launch, its tunables' values


def size_class(extent: int) -> int:
    """ceil(log2(extent)): sizes of one class share a choice."""
    return max(extent - 1, 0).bit_length()


def name(work: Work) -> str:
    """The key of a choice: op, kernel, direction, dtype, shape classes, parameters, hash of the kernels' texts."""
    shapes = [[size_class(n) for n in shape] for shape, _ in work.shapes()]
    sources = dict.fromkeys(kernel.source for kernel in work.chosen.kernels.values())
    text = hashlib.sha256(repr([source.texts for source in sources]).encode()).hexdigest()[:12]
    return " ".join(map(str, (work.op.name, work.variant or "", work.way, work.dtype, shapes, work.case.params, text)))


def find(device: str, work: Work) -> str | None:
    """The cached choice for a work on a device."""
    found = read(device).get(name(work))
    return found["choice"] if found else None


def keep(device: str, work: Work, choice: str, plans: Sequence[Plan]) -> None:
    """Cache a choice and its plans."""
    entry = {"op": work.op.name, "choice": choice, "plans": plans}
    caches.keep(_path(device), json.dumps(read(device) | {name(work): entry}, indent=1).encode())


def plans(work: Work, op: Op) -> list[Plan]:
    """The plans of the launches of a work with this setting of the op."""
    fresh, made = copy(op), dict[int, Kernel]()  # copies of the kernels, without plans of other works
    fresh.kernels = {role: made.setdefault(id(kernel), kernel.using()) for role, kernel in op.kernels.items()}
    launched = {run.kernel for run in work.dry(fresh).launches}  # without the forward pass, which a gradient plans, too
    roles = {
        kernel.name: role for role, kernel in work.op.kernels.items()
    }  # of the op itself: the setting may have other roles
    return [
        (roles[kernel.name], list(launch.sizes.values()), dict(launch.values))
        for kernel in made.values()
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
