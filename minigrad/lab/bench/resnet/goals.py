"""The goals of ResNet-18: each work by minigrad next to PyTorch's best mode, and the limits that it has to keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from minigrad.display import Table, table
from minigrad.lab.bench.record import Record
from minigrad.lab.bench.resnet.calls import SMALL, products
from minigrad.lab.bench.resnet.layers import CONVOLUTIONS, Layer, convolution, norm_relu, pool
from minigrad.lab.bench.resnet.modes import MODES, Mode
from minigrad.lab.bench.resnet.whole_steps import WholeStep

GPU = "NVIDIA H200"  # limits in microseconds are for this one
HEADERS = ("work", "unit", "minigrad", "PyTorch", "ratio", "must", "hope", "reached")
SCALE = {"us": 1e6, "MB": 1e-6}  # of seconds, of bytes


class Sides(NamedTuple):
    """Seconds or bytes by minigrad and by PyTorch, each the best of its modes, and the least that is possible."""

    ours: float | None = None
    theirs: float | None = None
    floor: float | None = None


class Limit(NamedTuple):
    """A multiple of PyTorch's number, of the floor, or of a microsecond on the GPU of the goals."""

    number: float
    of: str = "PyTorch"

    def value(self, sides: Sides, gpu: str) -> float | None:
        """The limit in seconds or bytes, where it is known."""
        unit = {"PyTorch": sides.theirs, "floor": sides.floor, "us": 1e-6 if gpu == GPU else None}[self.of]
        return None if unit is None or sides.ours is None else self.number * unit


@dataclass(frozen=True)
class Goal:
    """A work, by the table of a record that holds it and its title there, and its two upper limits."""

    table: str
    title: str
    must: Limit
    hope: Limit | None = None

    @property
    def unit(self) -> str:
        return "MB" if self.table == "peaks" else "us"

    def sides(self, record: Record) -> Sides:
        """Both sides, as far as they are in the record."""
        entry = getattr(record, self.table).get(self.title)
        if entry is None:
            return Sides()
        if self.table == "peaks":  # of arrays in eager steps: a graph holds all its memory from the first one on
            return Sides(*(entry[name][0] if name in entry else None for name in ("minigrad", "PyTorch")))
        if self.table == "steps":
            seconds = {name: timing.seconds for name, timing in entry.items()}
            return Sides(best(seconds, "minigrad"), best(seconds, "PyTorch"))
        rivals = {name: timing.seconds for name, timing in entry.rivals.items()}
        return Sides(entry.timing.seconds, best(rivals, "torch"), record.floor(entry))

    def row(self, record: Record) -> tuple[str, ...]:
        """The cells of its row; empty where nothing was measured."""
        sides = self.sides(record)
        must, hope = (limit and limit.value(sides, record.device) for limit in (self.must, self.hope))
        numbers = ["" if x is None else f"{x * SCALE[self.unit]:.1f}" for x in (sides.ours, sides.theirs, must, hope)]
        ratio = f"{sides.ours / sides.theirs:.2f}" if sides.ours and sides.theirs else ""
        reached = "not timed" if self.title in record.refused else verdict(sides.ours, must, hope)
        words = f"memory of a {self.title}" if self.table == "peaks" else self.title
        return words, self.unit, *numbers[:2], ratio, *numbers[2:], reached


def best(numbers: Mapping[str, float], start: str) -> float | None:
    """The least of the numbers whose names begin so."""
    return min((number for name, number in numbers.items() if name.startswith(start)), default=None)


def verdict(ours: float | None, must: float | None, hope: float | None) -> str:
    """The limit that is kept, "hope" or "must", or "no"; empty where that is not known."""
    if ours is None or must is None:
        return ""
    return "hope" if hope is not None and ours <= hope else "must" if ours <= must else "no"


def goals() -> list[Goal]:
    """Whole steps, layers, memory, and calls apart from the network."""
    step = WholeStep("training", 128, MODES["tf32"]).title
    found = [Goal("steps", WholeStep(kind, batch, MODES[mode]).title, *limits) for kind, batch, mode, *limits in WHOLE]
    found += [
        Goal("layers", layer.title(way, mode), *limits) for layer, mode, *limits in _layers() for way in layer.ways
    ]
    found += [Goal("peaks", step, Limit(1.0), Limit(0.8))]
    found += [Goal("steps", title, Limit(1.0), Limit(0.8)) for title in SMALL]
    for work in products():
        limits = (Limit(1 / 0.7), Limit(1 / 0.9)) if work.unit == "tf32" else (Limit(1.0),)
        found.append(Goal("layers", work.title, *limits))
    return found


WHOLE: tuple[tuple[str, int, str, Limit, Limit], ...] = (
    ("training", 128, "tf32", Limit(13000, "us"), Limit(9500, "us")),
    ("training", 128, "bf16", Limit(8500, "us"), Limit(6000, "us")),
    ("training", 128, "3xtf32", Limit(33000, "us"), Limit(27000, "us")),
    ("training", 32, "tf32", Limit(4000, "us"), Limit(3000, "us")),
    ("inference", 1, "tf32", Limit(220, "us"), Limit(150, "us")),
    ("inference", 32, "tf32", Limit(1250, "us"), Limit(850, "us")),
    ("inference", 128, "tf32", Limit(3800, "us"), Limit(3000, "us")),
)


def _layers() -> list[tuple[Layer, Mode, Limit, Limit]]:
    return [
        (convolution(*CONVOLUTIONS[1]), MODES["3xtf32"], Limit(1.0), Limit(0.7)),
        (norm_relu(64, 112), MODES["float32"], Limit(0.5), Limit(1.2, "floor")),
        (pool(64, 112), MODES["float32"], Limit(0.6), Limit(1.2, "floor")),
    ]


def goals_table(record: Record) -> Table:
    """A row for each goal."""
    caption = f"ResNet-18 next to PyTorch's best mode, on {record.place}. A ratio below 1 is faster, or smaller."
    return table([goal.row(record) for goal in goals()], HEADERS, caption)
