"""The report of ResNet-18: the goals, whole steps, layers under their floors, and where a step spends its time."""

from collections.abc import Iterable
from dataclasses import dataclass

from minigrad.display import Table, Tabular, table
from minigrad.lab.bench.measure import Measurement
from minigrad.lab.bench.record import Record, newest_with
from minigrad.lab.bench.resnet.calls import SMALL
from minigrad.lab.bench.resnet.goals import goals_table
from minigrad.lab.bench.resnet.sweep import CHOSEN, lost

NETWORK = "ResNet-18"  # the first word of the titles of whole steps
STEP_HEADERS = ("step", "by", "median us", "fastest us", "arrays MB", "taken MB")
LAYER_HEADERS = ("layer", "us", "floor us", "of floor", "bound by", "torch us", "ratio")
SWEEP_HEADERS = ("layer", "us", "best us", "lost", "best", "settings")
PART_HEADERS = ("part", "us", "of step", "floor us", "of floor", "kernels")


@dataclass(frozen=True, repr=False)
class ResNetReport(Tabular):
    """A record's measurements of ResNet-18. Shown as the table of goals; other tables are its attributes."""

    record: Record

    def table(self) -> Table:
        return goals_table(self.record)

    def tables(self, part: str | None = None) -> list[Table]:
        """The goals and every table with rows, or those of one part of the benchmark."""
        single = {"layers": [self.layers], "timeline": self.timelines, "sweep": [self.sweep]}
        chosen = single.get(part or "", [self.table(), self.steps])
        chosen = chosen if part else [*chosen, self.layers, *self.timelines, self.sweep]
        return [found for found in chosen if found.rows]

    @property
    def steps(self) -> Table:
        """Every whole step and small call, by library and mode; its memory: of arrays, and taken from the driver."""
        record, rows = self.record, []
        for title in (title for title in record.steps if title.startswith(NETWORK) or title in SMALL):
            for name, t in record.steps[title].items():
                peaks = [f"{peak / 1e6:.0f}" for peak in record.peaks.get(title, {}).get(name, ())] or ("", "")
                rows.append((title, name, f"{t.seconds * 1e6:.1f}", f"{t.fastest * 1e6:.1f}", *peaks))
        return table(rows, STEP_HEADERS, f"Whole steps on {record.place}, the host's time included")

    @property
    def layers(self) -> Table:
        """Each layer alone, under its floor: its FLOPs at the unit's rate, or its bytes at that of a copy."""
        caption = (
            f"Single layers at batch 128, and products, on {self.record.place}. A ratio below 1 is faster than PyTorch."
        )
        return table([self._layer(m) for m in self.record.layers.values()], LAYER_HEADERS, caption)

    def _layer(self, m: Measurement) -> tuple[str, ...]:
        floor, record = self.record.floor(m), self.record
        rival = min((timing.seconds for timing in m.rivals.values()), default=None)
        bound = "" if floor is None else "memory" if record.copy and m.nbytes / record.copy >= floor else m.unit
        cells = (f"{rival * 1e6:.1f}", f"{m.timing.seconds / rival:.2f}") if rival else ("", "")
        return m.title, f"{m.timing.seconds * 1e6:.1f}", *self._share(m), bound, *cells

    def _share(self, m: Measurement) -> tuple[str, str]:
        """The floor in microseconds, and the part of it that is reached."""
        floor = self.record.floor(m)
        return ("", "") if not floor else (f"{floor * 1e6:.1f}", f"{floor / m.timing.seconds:.2f}")

    @property
    def timelines(self) -> list[Table]:
        """For each step the parts in their order, with their share of its time and their floors."""
        return [self._timeline(step, parts.values()) for step, parts in self.record.timelines.items()]

    @property
    def sweep(self) -> Table:
        """The choice of conv2d next to the fastest setting of all rungs, tiles and splits."""
        rows = []
        for title, times in self.record.sweeps.items():
            if CHOSEN in times:
                best, own = min(times, key=lambda name: times[name].seconds), times[CHOSEN]
                numbers = (f"{t.seconds * 1e6:.1f}" for t in (own, times[best]))
                rows.append((title, *numbers, f"{100 * lost(times):.1f} %", best, str(len(times) - 1)))
        return table(rows, SWEEP_HEADERS, f"conv2d's choice next to the best of its settings, on {self.record.place}")

    def _timeline(self, step: str, parts: Iterable[Measurement]) -> Table:
        total = sum(m.timing.seconds for m in parts)
        floor = sum(self.record.floor(m) or 0.0 for m in parts)
        rows = [
            (m.title, f"{m.timing.seconds * 1e6:.1f}", f"{m.timing.seconds / total:.3f}", *self._share(m),
             ", ".join(m.kernels))
            for m in parts
        ]  # fmt: skip
        caption = f"{step}: {total * 1e6:.0f} us of the GPU on {self.record.place}; the floors are {floor * 1e6:.0f} us"
        return table(rows, PART_HEADERS, caption)


def recorded_resnet() -> ResNetReport:
    """The newest recorded report. Raises ValueError if there is none."""

    def part(record: Record) -> bool:
        return bool(record.layers or record.timelines or any(title.startswith(NETWORK) for title in record.steps))

    missing = f"no record has times of {NETWORK}. On a GPU: minigrad bench --resnet --against torch."
    return ResNetReport(newest_with(part, missing)[0])
