"""The choices that were timed on a GPU, kept on disk by device, op, kernel text and shape class."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minigrad.devices import caches
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.work import Work
from minigrad.op import Op

Plan = tuple[str, list[int], dict[str, int]]  # a kernel's role in the op, the sizes of a launch, the values for it


def size_class(extent: int) -> int:
    """Sizes of one class need the same choice: up to 1, 2, 4, 8, ... as the power of two above."""
    return max(extent - 1, 0).bit_length()


def name(work: Work) -> str:
    """What a choice depends on: op, direction, kernel, classes of its shapes, its parameters, its kernels' texts."""
    shapes = [[size_class(n) for n in shape] for shape, _ in work.shapes()]
    sources = dict.fromkeys(kernel.source for kernel in work.chosen.kernels.values())
    text = hashlib.sha256(repr([source.texts for source in sources]).encode()).hexdigest()[:12]
    return " ".join(map(str, (work.op.name, work.variant or "", work.way, work.dtype, shapes, work.case.params, text)))


def find(device: str, work: Work) -> str | None:
    """The choice for a work on a device, if it was made before."""
    found = read(device).get(name(work))
    return found["choice"] if found else None


def keep(device: str, work: Work, choice: str, plans: Sequence[Plan]) -> None:
    """Keep a choice, and the launches that it makes, for the next time."""
    entry = {"op": work.op.name, "choice": choice, "plans": plans}
    caches.keep(_path(device), json.dumps(read(device) | {name(work): entry}, indent=1).encode())


def plans(work: Work, op: Op) -> list[Plan]:
    """Role, sizes and values of the launches that a work makes with this setting of the op."""
    made = dict[int, Kernel]()  # kernels that have planned nothing yet
    fresh = op.with_kernels({role: made.setdefault(id(k), k.using()) for role, k in op.kernels.items()})
    launched = {run.kernel for run in work.dry(fresh).launches}  # a gradient plans its forward pass, too
    roles = {kernel.name: role for role, kernel in work.op.kernels.items()}  # of the op itself, not of this setting
    return [
        (roles[kernel.name], list(launch.sizes.values()), dict(launch.values))
        for kernel in made.values()
        if kernel.name in launched
        for launch in kernel.planned
    ]


def read(device: str) -> dict[str, Any]:
    """Everything kept for a device."""
    path = _path(device)
    try:
        return json.loads(path.read_text()) if path.is_file() else {}
    except ValueError as error:
        raise ValueError(f"{path} holds no choices ({error}); delete it, and they will be timed again.") from error


def _path(device: str) -> Path:
    return caches.folder() / f"choices-{device.lower().replace(' ', '-')}.json"
