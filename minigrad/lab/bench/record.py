"""What a record says of the machine that it was made on: its GPU, the copy bandwidth, and the versions of all below."""

import json
import platform
import re
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.cuda.chip import Chip
from minigrad.display import Table, table
from minigrad.errors import a
from minigrad.lab.bench.measure import Measurement
from minigrad.lab.bench.timer import Timing, timer
from minigrad.op import Op
from minigrad.source import PACKAGE

GIB = 2**30


def blank(command: str) -> "Record":
    """A record of this GPU, of today, with nothing measured yet."""
    gpu: Any = get(check("cuda"))
    return Record(gpu.label, date.today().isoformat(), command, versions(), gpu.chip)


def copy_bandwidth(nbytes: int = GIB) -> float:
    """Bytes per second of a copy within the device, read and written both counted: what memory-bound work can reach."""
    gpu: Any = get(check("cuda"))
    source, target = (Array.empty(gpu, (nbytes,), np.dtype(np.uint8)) for _ in range(2))
    gpu.upload(source.address, np.random.default_rng(0).integers(0, 255, nbytes, np.uint8))
    (runs,) = timer().interleaved([lambda: target.copy_from(source)], 20, 2e-3)
    return 2 * nbytes / Timing.of(runs.seconds).seconds


def versions() -> dict[str, str]:
    """What the numbers depend on: driver, CUDA compiler, Python and its packages."""
    return dict(_versions())


def _versions() -> Iterator[tuple[str, str]]:
    from minigrad.devices.cuda.toolkit import find_nvcc, nvcc_version

    if smi := shutil.which("nvidia-smi"):
        asked = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
        yield "driver", subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]
    if nvcc := find_nvcc():
        yield "nvcc", nvcc_version(nvcc)
    yield "python", platform.python_version()
    yield "numpy", np.__version__
    yield from ((name, metadata.version(name)) for name in ("pycuda", "torch") if name in sys.modules)


FOLDERS = (PACKAGE.parent / "notebooks" / "records", PACKAGE / "records")  # of a checkout, and of a wheel


@dataclass
class Dated(ABC):
    """Times by their titles, and what they depend on. `refused`: what was wrong, so that it was not timed, and why."""

    device: str
    date: str
    command: str
    versions: dict[str, str]
    refused: dict[str, str] = field(default_factory=dict, kw_only=True)

    within = ""  # the folder among the records
    needs: ClassVar[tuple[str, ...]] = ("device", "date", "command", "versions")  # what a file says at least

    @property
    def name(self) -> str:
        """nvidia-h200-2026-11-21"""
        return f"{self.device.lower().replace(' ', '-')}-{self.date}"

    @property
    def place(self) -> str:
        """NVIDIA H200, 2026-11-21"""
        return f"{self.device}, {self.date}"

    def save(self, folder: Path | str | None = None) -> Path:
        """Write `<device>-<date>.json`; what that file already holds and this record has not measured again, stays."""
        path = place(folder) / self.within / f"{self.name}.json"
        whole = self.added_to(self.load(path)) if path.is_file() else self
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")  # whole or not at all: Ctrl-C may come while it is written
        part.write_text(_one_line_lists(json.dumps(whole.written(), indent=1)) + "\n")
        return part.replace(path)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a record again. Raises ValueError where the file is none."""
        try:
            content = json.loads(Path(path).read_text())
        except ValueError:
            content = None
        if not isinstance(content, dict) or not set(cls.needs) <= content.keys():
            raise ValueError(f"{path} is no record: it needs {', '.join(cls.needs)}. `minigrad bench` writes one.")
        try:
            return cls.read(content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is a record that is damaged ({type(error).__name__}: {error}).") from error

    @classmethod
    def all(cls) -> Iterator[Self]:
        """Those of the project, the newest first."""
        files = [path for folder in FOLDERS for path in (folder / cls.within).glob("*.json")]
        yield from map(cls.load, sorted(files, key=lambda path: path.stem[-10:], reverse=True))

    @classmethod
    @abstractmethod
    def read(cls, content: dict[str, Any]) -> Self:
        """The record that a file's content says."""

    @abstractmethod
    def written(self) -> dict[str, Any]:
        """The content of a file."""

    @abstractmethod
    def table(self) -> Table:
        """A row for each title."""

    def refuse(self, title: str, why: str) -> None:
        """It is wrong, so it has no times, not even those that were taken before that was seen."""
        for known in (getattr(self, f.name) for f in fields(self)):
            if isinstance(known, dict):
                known.pop(title, None)
        self.refused[title] = why

    def added_to(self, old: Self) -> Self:
        """Both in one. What is refused now has no times any more, and what is timed now is refused no more."""
        pairs = {f.name: (getattr(old, f.name), getattr(self, f.name)) for f in fields(self)}
        both = {key: _united(before, now, self.refused) for key, (before, now) in pairs.items()}
        timed = {
            title for key, (_, now) in pairs.items() if key != "refused" and isinstance(now, dict) for title in now
        }
        both["refused"] = {title: why for title, why in (old.refused | self.refused).items() if title not in timed}
        both["command"] = "; ".join(dict.fromkeys([*old.command.split("; "), *self.command.split("; ")]))
        return replace(self, **both)

    def __repr__(self) -> str:
        return f"{self._head()}\n{self.table()!r}"

    def _repr_html_(self) -> str:
        return f"<p>{self._head()}</p>{self.table()._repr_html_()}"

    def _head(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return f"{self.place}; {versions}. {self.command}.{self.summary}"

    @property
    def summary(self) -> str:
        """A sentence behind the heading."""
        return ""


def place(folder: Path | str | None = None) -> Path:
    """Where records are written: in this folder, or where those of the project are."""
    return Path(folder) if folder else next((path for path in FOLDERS if path.is_dir()), FOLDERS[0])


def _united(before: Any, now: Any, refused: dict[str, str]) -> Any:
    """What was known before and is known now, without what is refused now."""
    if not isinstance(now, dict):
        return now or before
    return {title: known for title, known in before.items() if title not in refused} | now


def _one_line_lists(text: str) -> str:
    """Lists of numbers and words on one line each: a record is read by people, too."""
    return re.sub(r"\[\s+([^\[\]{}]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)


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


def load(path: Path | str) -> "Record":
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
