"""Regret of a choice: its time relative to the best of a full sweep, minus 1."""

from dataclasses import dataclass

from minigrad.display import Table, Tabular, table
from minigrad.errors import require, require_int
from minigrad.lab.bench.measure import Experiment
from minigrad.lab.bench.record import Record, newest
from minigrad.lab.bench.sweeps import default, label, settings, swept
from minigrad.lab.tune.search import fastest, halving, resources_of

LONGEST = 4e-3  # seconds; longer works are not swept
HEADERS = ("work", "best", "us", "search", "regret", "default", "regret")


@dataclass(frozen=True)
class Regret:
    """A full sweep of one work: the best setting, and the regret of the search's and of the default."""

    title: str
    best: str
    seconds: float
    search: str
    of_search: float  # 0.02: 2 % slower than the best
    default: str
    of_default: float

    def row(self) -> tuple[str, ...]:
        late, default = (f"{100 * share:.1f} %" for share in (self.of_search, self.of_default))
        return self.title, self.best, f"{self.seconds * 1e6:.1f}", self.search, late, self.default, default


@dataclass(frozen=True, repr=False)
class Regrets(Tabular):
    place: str
    rows: tuple[Regret, ...]

    @property
    def worst(self) -> float:
        return max((row.of_search for row in self.rows), default=0.0)

    def largest(self, count: int = 10) -> "Regrets":
        """The works in which the default loses most."""
        rows = sorted(self.rows, key=lambda row: row.of_default, reverse=True)
        return Regrets(self.place, tuple(rows[: require_int("Regrets.largest", "count", count)]))

    def table(self) -> Table:
        caption = f"Choices against the best of a full sweep, {self.place}"
        return table([row.row() for row in self.rows], HEADERS, caption)


def regret(record: Record | None = None) -> Regrets:
    """The table of a record, by default the newest. Raises ValueError if there is none."""
    record = require("mg.tune.regret", record or newest(), Record | None, "a record, e.g. mg.bench.newest()")
    if record is None:
        raise ValueError("there is no record; on a GPU: minigrad bench --sweep.")
    return Regrets(record.place, tuple(_of(record, title) for title in record.sweeps if title in record.choices))


def _of(record: Record, title: str) -> Regret:
    times, chosen = record.sweeps[title], record.choices[title]
    best = fastest(times)
    shares = {f"of_{who}": times[name].seconds / times[best].seconds - 1 for who, name in chosen.items()}
    return Regret(title, best, times[best].seconds, **shares, **chosen)  # type: ignore[arg-type]


def sweep(record: Record, experiment: Experiment) -> None:
    """Add a full sweep of a work and the search's choice to the record, unless the work takes LONGEST or more."""
    wanted = "a record and an experiment, from mg.bench.run(more=mg.tune.sweep)"
    require("mg.tune.sweep", experiment, Experiment, wanted)
    work, found = experiment.work, settings(experiment.work)
    record.resources |= resources_of(found)
    if len(found) > 1 and record.measurements[work.title].timing.seconds < LONGEST:
        searched = fastest(halving(experiment, found))
        record.sweeps[work.title] = swept(experiment, found)
        record.choices[work.title] = {"search": searched, "default": label(default(work))}
