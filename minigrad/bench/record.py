"""Records: what was measured on a GPU, on which day, with which versions and command; saved and found again."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from minigrad.bench.dated import Dated
from minigrad.bench.measurement import Measurement
from minigrad.bench.timing import Timing
from minigrad.devices.chip import Chip
from minigrad.op import Op
from minigrad.require import a
from minigrad.show.tables import Table, table

HEADERS = ("work", "us", "GB/s", "of copy", "TFLOP/s", "of peak", "x torch", "x numpy")
Times = dict[str, Timing]  # of the values of the tunables, as "BLOCK=256"


@dataclass(repr=False)
class Record(Dated):
    """Everything measured on one device on one day. `copy` is the bandwidth of a plain copy, in bytes per second."""

    chip: Chip | None = None
    copy: float | None = None
    measurements: dict[str, Measurement] = field(default_factory=dict)
    sweeps: dict[str, Times] = field(default_factory=dict)
    steps: dict[str, Times] = field(default_factory=dict)  # whole training steps, by the way to take them
    host: dict[str, Times] = field(default_factory=dict)  # what a call costs the host, by library
    choices: dict[str, dict[str, str]] = field(default_factory=dict)  # by sweep: of the search, and the default
    resources: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # registers, shared, local bytes

    @classmethod
    def read(cls, content: dict[str, Any]) -> "Record":
        """The record that a file's content says."""
        chip = content.get("chip")
        return Record(
            device=content["device"],
            date=content["date"],
            command=content["command"],
            versions=content["versions"],
            chip=Chip(**chip | {"compute": tuple(chip["compute"])}) if chip else None,
            copy=content.get("copy"),
            measurements={title: _measurement(title, m) for title, m in content.get("measurements", {}).items()},
            sweeps={title: _times(times) for title, times in content.get("sweeps", {}).items()},
            steps={title: _times(times) for title, times in content.get("steps", {}).items()},
            host={title: _times(times) for title, times in content.get("host", {}).items()},
            choices=content.get("choices", {}),
            refused=content.get("refused", {}),
            resources={kernel: tuple(taken) for kernel, taken in content.get("resources", {}).items()},
        )

    def only(self, op: str | Op | None, size: str = "") -> "Record":
        """What was measured and swept of one op, of all where op is None; of one size, as in "4096 x 4096", if given.

        Raises ValueError where that is nothing.
        """
        name = op.name if isinstance(op, Op) else op
        a("Record.only: size", size, str, 'words of a title, e.g. "4096 x 4096"')

        def kept(known: dict[str, Any]) -> dict[str, Any]:
            return {title: of for title, of in known.items() if name in (None, title.split()[0]) and size in title}

        if not (measured := kept(self.measurements)):
            there = dict.fromkeys(title.split()[0] for title in self.measurements)
            of = " of ".join(filter(None, (str(name or "anything"), size)))
            raise ValueError(f"{self.place} has no measurement of {of}; it has of {', '.join(there) or 'nothing'}.")
        return replace(self, measurements=measured, sweeps=kept(self.sweeps), choices=kept(self.choices))

    def added_to(self, old: "Record") -> "Record":
        """As of any record; and a sweep of kernels that run no longer goes with their time."""
        known = {title: m.kernels for title, m in old.measurements.items()}
        stale = {title for title, m in self.measurements.items() if known.get(title, m.kernels) != m.kernels}
        sweeps = {title: times for title, times in old.sweeps.items() if title not in stale}
        choices = {title: chosen for title, chosen in old.choices.items() if title not in stale}
        return super().added_to(replace(old, sweeps=sweeps, choices=choices))

    def table(self) -> Table:
        """A row for each measurement."""
        return table([self._row(m) for m in self.measurements.values()], HEADERS)

    def _row(self, m: Measurement) -> tuple[str, ...]:
        share = f"{m.bytes_per_second / self.copy:.2f}" if self.copy else ""
        peak = self.chip.peak(m.unit) if self.chip and m.flops else None
        times = [f"{value:.2f}" if (value := m.against(rival)) else "" for rival in ("torch", "numpy")]
        rate = f"{m.flops_per_second / 1e12:.2f}" if m.flops else ""
        return (
            m.title, f"{m.timing.seconds * 1e6:.1f}", f"{m.bytes_per_second / 1e9:.0f}", share,
            rate, f"{m.flops_per_second / peak:.2f}" if peak else "", *times,
        )  # fmt: skip

    @property
    def summary(self) -> str:
        """The bandwidth that others are compared with."""
        return f" A copy moves {self.copy / 1e9:.0f} GB/s." if self.copy else ""

    def written(self) -> dict[str, Any]:
        """The content of a file."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        plain["chip"] = asdict(self.chip) if self.chip else None
        for key in ("sweeps", "steps", "host"):
            plain[key] = {title: {k: t.written() for k, t in times.items()} for title, times in plain[key].items()}
        plain["measurements"] = {
            title: {
                "kernels": m.kernels, "us": m.timing.written(), "flops": m.flops, "bytes": m.nbytes, "unit": m.unit,
                "rivals": {name: t.written() for name, t in m.rivals.items()},
            }
            for title, m in self.measurements.items()
        }  # fmt: skip
        return plain


def records(device: str | None = None) -> Iterator[Record]:
    """All records, of a device if named, the newest first."""
    yield from (record for record in Record.all() if device in (None, record.device))


def newest(device: str | None = None) -> Record | None:
    """The newest record, of a device if named."""
    return next(records(device), None)


def load(path: Path | str) -> Record:
    """Read the record of a file."""
    return Record.load(path)


def recorded(title: str, device: str | None = None) -> tuple[Times, Record | None]:
    """The newest recorded sweep of that title, and the record it is from."""
    return next(((r.sweeps[title], r) for r in records(device) if title in r.sweeps), ({}, None))


def _times(given: Mapping[str, list[float]]) -> Times:
    return {key: Timing.read(times) for key, times in given.items()}


def _measurement(title: str, given: Mapping[str, Any]) -> Measurement:
    rivals = _times(given["rivals"])
    return Measurement(
        title, tuple(given["kernels"]), Timing.read(given["us"]), given["flops"], given["bytes"], given["unit"], rivals
    )
