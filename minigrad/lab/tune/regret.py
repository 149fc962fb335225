"""Regret: how much slower a choice is than the best of a full sweep, for every op."""

from dataclasses import dataclass

from minigrad.display import Table, table
from minigrad.errors import a, whole
from minigrad.lab.bench.measure import Stage
from minigrad.lab.bench.record import Record, newest
from minigrad.lab.bench.sweeps import default, label, settings, swept
from minigrad.lab.tune.search import fastest, halving, resources_of

LONGEST = 4e-3  # seconds of a work that is swept
HEADERS = ("work", "best", "us", "search", "regret", "default", "regret")


@dataclass(frozen=True)
class Regret:
    """A full sweep of one work: the best setting, that of the search and the op's own, each with its regret."""

    title: str
    best: str
    seconds: float
    search: str
    of_search: float  # 0.02: 2 % slower than the best
    default: str
    of_default: float

    def row(self) -> tuple[str, ...]:
        """As the table shows it."""
        late = [f"{100 * share:.1f} %" for share in (self.of_search, self.of_default)]
        return self.title, self.best, f"{self.seconds * 1e6:.1f}", self.search, late[0], self.default, late[1]


@dataclass(frozen=True)
class Regrets:
    """The regret of every work of a record that was swept."""

    place: str
    rows: tuple[Regret, ...]

    @property
    def worst(self) -> float:
        """The largest regret of the search."""
        return max((row.of_search for row in self.rows), default=0.0)

    def largest(self, count: int = 10) -> "Regrets":
        """The works in which the op's own values lose most."""
        rows = sorted(self.rows, key=lambda row: row.of_default, reverse=True)
        return Regrets(self.place, tuple(rows[: whole("Regrets.largest", "count", count)]))

    def table(self) -> Table:
        """A row for each work."""
        return table([row.row() for row in self.rows], HEADERS)

    def __repr__(self) -> str:
        return f"Choices against the best of a full sweep, {self.place}\n{self.table()!r}"

    def _repr_html_(self) -> str:
        return f"<p>Choices against the best of a full sweep, {self.place}</p>{self.table()._repr_html_()}"


def regret(record: Record | None = None) -> Regrets:
    """The table of a record, the newest if none is given. Raises ValueError where there is none."""
    record = a("mg.tune.regret", record or newest(), Record | None, "a record, e.g. mg.bench.newest()")
    if record is None:
        raise ValueError("there is no record; on a GPU: minigrad bench --sweep.")
    return Regrets(record.place, tuple(_of(record, title) for title in record.sweeps if title in record.choices))


def _of(record: Record, title: str) -> Regret:
    times, chosen = record.sweeps[title], record.choices[title]
    best = fastest(times)
    late = {who: times[name].seconds / times[best].seconds - 1 for who, name in chosen.items()}
    return Regret(
        title, best, times[best].seconds, chosen["search"], late["search"], chosen["default"], late["default"]
    )


def sweep(record: Record, stage: Stage) -> None:
    """Sweep a work on this GPU unless it takes long, let the search choose too, and add both to the record."""
    a("mg.tune.sweep", stage, Stage, "a record and a stage, as mg.bench.run(more=mg.tune.sweep) gives them")
    work, found = stage.work, settings(stage.work)
    record.resources |= resources_of(found)
    if len(found) > 1 and record.measurements[work.title].timing.seconds < LONGEST:
        searched = fastest(halving(stage, found))
        record.sweeps[work.title] = swept(stage, found)
        record.choices[work.title] = {"search": searched, "default": label(default(work))}
