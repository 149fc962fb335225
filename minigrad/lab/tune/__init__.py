"""Autotuning of block and tile sizes: `mg.tune(mg.matmul, (1024, 1024), (1024, 1024))`.

A choice is timed once for each GPU and shape class and cached on disk; without a GPU it comes from the newest record.
`.op` is the op with the choice, `.explain()` names the resource that limits it. `mg.tune` is the function `tune`, and
the package's other functions are its attributes: `mg.tune.auto()`.
"""

from dataclasses import dataclass
from typing import Any

from minigrad.errors import require_bool
from minigrad.lab.bench.sweeps import retuned
from minigrad.lab.bench.work import WAYS, work_of
from minigrad.lab.tune.choices import auto
from minigrad.lab.tune.occupancy import Occupancy
from minigrad.lab.tune.regret import Regret, regret, sweep
from minigrad.lab.tune.search import Search, choose, survey
from minigrad.op import Op

__all__ = ["Occupancy", "Regret", "Search", "Tuned", "auto", "choose", "regret", "survey", "sweep", "tune"]


@dataclass(frozen=True)
class Tuned:
    """An op with its choices for forward and backward."""

    name: str
    searches: tuple[Search, ...]

    @property
    def op(self) -> Op:
        """The op with the chosen values; a kernel of both directions gets those of the forward pass."""
        op = self.searches[0].work.chosen
        for found in reversed(self.searches):
            op = retuned(op, found.chosen.values, only={run.kernel for run in found.chosen.dry.launches})
        return op

    @property
    def choice(self) -> dict[str, int]:
        return dict(self.searches[0].chosen.values)

    def explain(self) -> str:
        """The choice for each direction, and the limit of its occupancy."""
        return "\n\n".join(found.explain() for found in self.searches)

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.searches))


def tune(op: Op | str, *shapes: Any, variant: str | None = None, again: bool = False, **params: Any) -> Tuned:
    """Choose the tunables of an op for inputs of these shapes: `tune(mg.relu, (2**26,)).op(x)`.

    shapes may be arrays or tensors; params are those of the op. Every legal setting is checked, then timed. again=True
    ignores choices that were timed before. Raises ValueError for an op without a kernel.
    """
    require_bool("mg.tune", "again", again)
    forward = work_of(op, shapes, variant=variant, **params)
    ways = [forward] if forward.op.backward is None else [work_of(op, shapes, way, variant, **params) for way in WAYS]
    works = [work for work in ways if work.dry().launches]
    if not works:
        raise ValueError(f"{forward.op.name} launches no kernel, so there is nothing to choose.")
    return Tuned(forward.op.name, tuple(choose(work, again) for work in works))


tune.__dict__.update({name: globals()[name] for name in __all__ if name != "tune"})  # `mg.tune` is this
