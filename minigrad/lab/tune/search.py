"""The search: a few runs of every legal setting, then more of the fastest; without a GPU the newest record decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minigrad.devices import get, why_not
from minigrad.devices.cuda.chip import Chip
from minigrad.errors import require
from minigrad.lab.bench.measure import Experiment, set_up
from minigrad.lab.bench.record import Times, newest, recorded
from minigrad.lab.bench.sweeps import Setting, default, label, settings, swept
from minigrad.lab.bench.work import Work
from minigrad.lab.tune import choices
from minigrad.lab.tune.occupancy import Occupancy, Resources, heaviest, key, occupancy

FINALISTS = 4
LIVE, CACHED, RECORDED, UNTIMED = "timed now", "timed before", "recorded", "not timed"


@dataclass(frozen=True)
class Search:
    """The settings of one work, their times and the choice. how: timed now, timed before, recorded; place: the GPU."""

    work: Work
    settings: tuple[Setting, ...]
    times: Times
    choice: str
    how: str
    place: str
    chip: Chip | None
    resources: Mapping[str, Resources]

    @property
    def chosen(self) -> Setting:
        return self.at(self.choice)

    def at(self, wanted: str | Mapping[str, int]) -> Setting:
        """A setting by its label or its values."""
        name = (
            wanted
            if isinstance(wanted, str)
            else label(require("Search.at", wanted, Mapping, "values, as {'BLOCK': 64}"))
        )
        known = {setting.label: setting for setting in self.settings}
        if name not in known:
            there = ", ".join(each or "nothing to choose" for each in known)
            raise ValueError(f"{self.work.title} has no setting {name!r}; it has {there}.")
        return known[name]

    def occupancy(self, setting: Setting | None = None) -> Occupancy | None:
        """The occupancy of the heaviest launch, by default of the choice; None if its registers are unknown."""
        setting = setting or self.chosen
        launch = heaviest(setting.dry.launches, setting.op)
        taken = self.resources.get(key(launch))
        return occupancy(launch, taken, self.chip) if taken and self.chip else None

    def explain(self) -> str:
        """The choice, its time, and the limit of its occupancy."""
        return f"{self!r}\n{self.occupancy() or 'Its registers are not recorded, so no occupancy.'}"

    def __repr__(self) -> str:
        took = f", {self.times[self.choice].seconds * 1e6:.1f} us" if self.choice in self.times else ""
        where = f"{self.how} on {self.place}" if self.place else f"{self.how}: the op's own values"
        count = "1 setting" if len(self.settings) == 1 else f"{len(self.settings)} settings"
        return f"{self.work.title}: {self.choice or 'nothing to choose'}{took} ({where}, {count})"


def choose(work: Work, again: bool = False) -> Search:
    """Choose a setting for a work: cached or timed on this GPU; without a GPU from the newest record."""
    found = settings(require("mg.tune.choose", work, Work, "a work, e.g. one of mg.bench.suite()"))
    if why_not("cuda"):
        return _from_record(work, found)
    gpu: Any = get("cuda")
    resources = resources_of(found)
    choice = None if again else choices.find(gpu.label, work)
    if choice in [s.label for s in found]:
        return Search(work, tuple(found), {}, str(choice), CACHED, gpu.label, gpu.chip, resources)
    times = halving(set_up(work), found)
    done = Search(work, tuple(found), times, fastest(times), LIVE, gpu.label, gpu.chip, resources)
    choices.save(gpu.label, work, done.choice, choices.plans(work, done.chosen.op) if work.op.listed else [])
    return done


def survey(work: Work) -> Search:
    """Time every setting, next to the choice; without a GPU times come from the newest record."""
    found = choose(require("mg.tune.survey", work, Work, "a work, e.g. one of mg.bench.suite()"))
    if not found.place or found.how == RECORDED:
        return found
    return replace(found, times=swept(set_up(work), found.settings, 10), how=LIVE)


def halving(experiment: Experiment, found: Sequence[Setting]) -> Times:
    """The times of the finalists, ten runs of each: the fastest of three runs of every setting."""
    short = swept(experiment, found, 3)
    finalists = sorted(found, key=lambda s: short[s.label].seconds)[:FINALISTS]
    return swept(experiment, finalists, 10)


def fastest(times: Times) -> str:
    return min(times, key=lambda name: times[name].seconds)


def resources_of(found: Sequence[Setting]) -> dict[str, Resources]:
    """Registers and memory of the settings' kernels, from the driver."""
    gpu: Any = get("cuda")
    launches = {key(run): run for setting in found for run in setting.dry.launches}
    return {
        name: gpu.resources(gpu.build(run.source, run.defines, run.kernel), run.kernel)
        for name, run in launches.items()
    }


def _from_record(work: Work, found: Sequence[Setting]) -> Search:
    """The choice in the newest record with a sweep of this work; without one, the op's own values."""
    times, record = recorded(work.title)
    known = {s.label: times[s.label] for s in found if s.label in times}
    if record and known:
        choice, how, place = record.choices.get(work.title, {}).get("search", ""), RECORDED, record.place
        choice = choice if choice in known else fastest(known)
    else:
        record, choice, how, place = newest(), label(default(work)), UNTIMED, ""
    chip, resources = (record.chip, record.resources) if record else (None, {})
    return Search(work, tuple(found), known, choice, how, place, chip, resources)
