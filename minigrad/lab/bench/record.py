"""Records: measurements of one device on one day with all that they depend on, as JSON files.

Records of ops are in `notebooks/records`, those of the ladder's adjoints in its folder `adjoint`, those of recurrent
networks in `recurrent`, of several GPUs in `parallel` and of transformers in `transformer`: same head, other tables. A
second run on the same day is merged into the file.
"""

import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

import numpy as np

from minigrad.devices import check, get
from minigrad.devices.array import Array
from minigrad.devices.cuda.chip import Chip
from minigrad.devices.cuda.toolkit import find_nvcc, nvcc_version
from minigrad.display import Table, Tabular, table
from minigrad.errors import require
from minigrad.lab.bench import costs
from minigrad.lab.bench.costs import AdjointCost
from minigrad.lab.bench.measure import Measurement
from minigrad.lab.bench.timer import Timing, timer
from minigrad.op import Op
from minigrad.source import PACKAGE

Part = TypeVar("Part")  # of a record
FOLDERS = (PACKAGE.parent / "notebooks" / "records", PACKAGE / "records")  # of a checkout, and of a wheel
# The folders with records of adjoints, of recurrent networks, of several GPUs, and of transformers.
ADJOINT, RECURRENT, PARALLEL, TRANSFORMER = "adjoint", "recurrent", "parallel", "transformer"
HEADERS = ("work", "us", "GB/s", "of copy", "TFLOP/s", "of peak", "x torch", "x numpy")
HEAD = ("device", "date", "command", "versions")  # required in every file
TABLES = (  # of a record, by title
    "levels", "measurements", "sweeps", "steps", "peaks", "layers", "timelines", "host", "choices", "resources",
    "spans", "costs", "applications",
)  # fmt: skip
KEYS = {  # by folder: the keys of a file, in their order
    "": (*HEAD, "refused", "chip", "copy", *TABLES[:-3]),
    ADJOINT: (*HEAD, "refused", "costs", "applications"),
    RECURRENT: (*HEAD, "refused", "steps"),
    PARALLEL: (*HEAD, "refused", "steps", "host", "spans"),
    TRANSFORMER: (*HEAD, "refused", "chip", "copy", "steps", "timelines"),
}
Times = dict[str, Timing]  # by a label: the values of the tunables, as "BLOCK=256", a way to take a step, a library


class Level(NamedTuple):
    """A level of memory: bytes per second that all threads read together, and seconds that one read takes."""

    bandwidth: float
    latency: float | None  # None for the host's memory, which kernels do not read


class RankSpan(NamedTuple):
    """Something that a rank did in a step, in one lane of its time line: seconds since all ranks began together."""

    lane: str
    name: str
    start: float
    stop: float


@dataclass(repr=False)
class Record(Tabular):
    """The measurements of one device on one day: tables by title.

    A work with a wrong result has a reason in place of times. `copy`: the bandwidth of a plain copy, in bytes per
    second. `folder`: "adjoint" for a record of adjoint costs.
    """

    device: str
    date: str
    command: str
    versions: dict[str, str]
    chip: Chip | None = None
    copy: float | None = None
    levels: dict[str, Level] = field(default_factory=dict)  # of memory
    refused: dict[str, str] = field(default_factory=dict)  # the reasons
    measurements: dict[str, Measurement] = field(default_factory=dict)
    sweeps: dict[str, Times] = field(default_factory=dict)
    steps: dict[str, Times] = field(default_factory=dict)  # whole training steps, and inferences
    peaks: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)  # bytes of arrays, and from the driver
    layers: dict[str, Measurement] = field(default_factory=dict)  # of ResNet-18, each alone, and products
    timelines: dict[str, dict[str, Measurement]] = field(default_factory=dict)  # the parts of a step, by step
    host: dict[str, Times] = field(default_factory=dict)  # the host's time for a call
    choices: dict[str, dict[str, str]] = field(default_factory=dict)  # by sweep: "search" and "default"
    resources: dict[str, tuple[int, int, int]] = field(default_factory=dict)  # registers, shared, local bytes
    spans: dict[str, list[list[RankSpan]]] = field(default_factory=dict)  # of each rank, by step
    costs: dict[str, AdjointCost] = field(default_factory=dict)
    applications: dict[str, AdjointCost] = field(default_factory=dict)  # of the Enzyme paper
    folder: str = ""

    @property
    def name(self) -> str:
        """nvidia-h200-2026-11-21"""
        return f"{self.device.lower().replace(' ', '-')}-{self.date}"

    @property
    def place(self) -> str:
        """NVIDIA H200, 2026-11-21"""
        return f"{self.device}, {self.date}"

    @property
    def median(self) -> float:
        """The median ratio of adjoint to kernel."""
        return median(cost.ratio for cost in self.costs.values())

    def floor(self, m: Measurement) -> float | None:
        """Seconds that no kernel can undercut: max(FLOPs / the unit's rate, bytes / bandwidth of a copy)."""
        rate = self.chip.peak(m.unit) if self.chip else None
        bounds = [m.flops / rate] if rate else []
        return max([*bounds, m.nbytes / self.copy]) if self.copy else None

    def save(self, folder: Path | str | None = None) -> Path:
        """Write `<device>-<date>.json`, merged with an existing file, whose other entries stay as they are."""
        path = records_folder(folder) / self.folder / f"{self.name}.json"
        merged = self.merged_with(load(path)) if path.is_file() else self
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")  # renamed when complete: Ctrl-C may come while it is written
        part.write_text(merged.json() + "\n")
        return part.replace(path)

    def json(self) -> str:
        content = {key: getattr(self, key) for key in KEYS[self.folder]}
        text = json.dumps(content, indent=1, default=lambda x: asdict(x) if isinstance(x, Chip) else x.to_json())
        # Lists of numbers and words on one line each: people read records, too.
        return re.sub(r"\[\s+([^\[\]{}]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)

    def only(self, *words: str | Op | None) -> "Record":
        """The measurements, sweeps and costs of these ops or kernels, of one size if given: only("sum", "64 x 64").

        Any other word must be a part of the title. Raises ValueError if nothing is left.
        """
        wanted = [word.name if isinstance(word, Op) else word for word in words if word is not None]
        for word in wanted:
            require("Record.only", word, str, 'ops and words of a title, e.g. "matmul", "4096 x 4096"')
        measured = self.costs or self.measurements
        known = dict.fromkeys(title.split()[0] for title in measured)
        names, parts = [w for w in wanted if w in known], [w for w in wanted if w not in known]

        def selected(entries: dict[str, Any]) -> dict[str, Any]:
            fits = (t for t in entries if not names or t.split()[0] in names)
            return {title: entries[title] for title in fits if all(part in title for part in parts)}

        if not selected(measured):
            of, there = " of ".join(wanted) or "anything", ", ".join(known) or "nothing"
            raise ValueError(f"{self.place} has no measurement of {of}; it has of {there}.")
        tables: Any = {key: selected(getattr(self, key)) for key in ("measurements", "sweeps", "choices", "costs")}
        return replace(self, **tables)

    def refuse(self, title: str, why: str) -> None:
        """Mark a work as wrong, and drop its times, including those taken before."""
        for key in TABLES:
            getattr(self, key).pop(title, None)
        self.refused[title] = why

    def merged_with(self, old: "Record") -> "Record":
        """Merge with an older record of the day.

        A title with a wrong result now loses its times, one timed now loses its reason, and a sweep of kernels that
        this work no longer launches is dropped.
        """
        kernels = {title: m.kernels for title, m in old.measurements.items()}
        stale = {title for title, m in self.measurements.items() if kernels.get(title, m.kernels) != m.kernels}
        tables: dict[str, Any] = {}
        for key in TABLES:
            dropped = self.refused.keys() | (stale if key in ("sweeps", "choices") else set())
            kept = {title: x for title, x in getattr(old, key).items() if title not in dropped}
            tables[key] = kept | getattr(self, key)
        timed = {title for key in TABLES for title in getattr(self, key)}
        tables["refused"] = {title: why for title, why in (old.refused | self.refused).items() if title not in timed}
        command = "; ".join(dict.fromkeys([*old.command.split("; "), *self.command.split("; ")]))
        tables["versions"] = old.versions | self.versions
        return replace(self, command=command, chip=self.chip or old.chip, copy=self.copy or old.copy, **tables)

    def table(self) -> Table:
        if self.folder == ADJOINT:
            return table([cost.row(name) for name, cost in self.costs.items()], costs.HEADERS, self._head())
        return table([self._row(m) for m in self.measurements.values()], HEADERS, self._head())

    def _row(self, m: Measurement) -> tuple[str, ...]:
        share = f"{m.bytes_per_second / self.copy:.2f}" if self.copy else ""
        peak = self.chip.peak(m.unit) if self.chip and m.flops else None
        times = [f"{value:.2f}" if (value := m.against(rival)) else "" for rival in ("torch", "numpy")]
        rate = f"{m.flops_per_second / 1e12:.2f}" if m.flops else ""
        return (
            m.title, f"{m.timing.seconds * 1e6:.1f}", f"{m.bytes_per_second / 1e9:.0f}", share,
            rate, f"{m.flops_per_second / peak:.2f}" if peak else "", *times,
        )  # fmt: skip

    def _head(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        copied = f" A copy moves {self.copy / 1e9:.0f} GB/s." if self.copy else ""
        ratio = f" Median ratio {self.median:.2f}." if self.costs else ""
        return f"{self.place}; {versions}. {self.command}.{copied}{ratio}"


# --- files ---


def records_folder(folder: Path | str | None = None) -> Path:
    """The folder itself, or without one that of the project's records."""
    return Path(folder) if folder else next((path for path in FOLDERS if path.is_dir()), FOLDERS[0])


def load(path: Path | str) -> Record:
    """Read a record. Raises ValueError for any other file."""
    path = Path(path)
    try:
        content = json.loads(path.read_text())
    except ValueError:
        content = None
    folder = path.parent.name if path.parent.name in KEYS else ""
    if isinstance(content, dict) and "costs" in content:
        folder = ADJOINT
    needs = (*HEAD, "costs") if folder == ADJOINT else HEAD
    if not isinstance(content, dict) or not set(needs) <= content.keys():
        raise ValueError(f"{path} is not a record: it needs {', '.join(needs)}. `minigrad bench` writes one.")
    try:
        return Record(**{key: _parsed(key, content[key]) for key in KEYS[folder] if key in content}, folder=folder)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is a damaged record ({type(error).__name__}: {error}).") from error


def _parsed(key: str, content: Any) -> Any:
    """The field of a record from its JSON."""
    match key:
        case "chip":
            return Chip(**content | {"compute": tuple(content["compute"])}) if content else None
        case "measurements" | "layers":
            return {title: Measurement.from_json(title, entry) for title, entry in content.items()}
        case "timelines":
            return {step: _parsed("layers", parts) for step, parts in content.items()}
        case "sweeps" | "steps" | "host":
            return {title: {k: Timing.from_json(n) for k, n in entry.items()} for title, entry in content.items()}
        case "levels":
            return {name: Level(*entry) for name, entry in content.items()}
        case "peaks":
            return {title: _parsed("resources", entry) for title, entry in content.items()}
        case "resources":
            return {title: tuple(entry) for title, entry in content.items()}
        case "spans":
            return {title: [[RankSpan(*span) for span in rank] for rank in ranks] for title, ranks in content.items()}
        case "costs" | "applications":
            return {title: AdjointCost.from_json(entry) for title, entry in content.items()}
        case _:
            return content


def records(device: str | None = None, folder: str = "") -> Iterator[Record]:
    """The project's records, of one device if named, the newest first, of one day by name, the last first."""
    files = [path for base in FOLDERS for path in (base / folder).glob("*.json")]
    loaded = map(load, sorted(files, key=lambda path: (path.stem[-10:], path.stem), reverse=True))
    yield from (record for record in loaded if device in (None, record.device))


def newest(device: str | None = None) -> Record | None:
    """The newest record with measurements of ops, or, where there is none, the newest."""
    found = [*records(device)]
    return next((record for record in found if record.measurements), found[0] if found else None)


def newest_with(part: Callable[[Record], Part | None], missing: str) -> tuple[Record, Part]:
    """The newest record that has a part, and the part. Raises ValueError, which says what is missing, without one."""
    for record in records():
        if found := part(record):
            return record, found
    raise ValueError(missing)


def newest_adjoints() -> Record | None:
    """The newest record of the ladder's adjoints."""
    return next((r for r in records(folder=ADJOINT) if r.costs or not r.applications), None)


def recorded(title: str) -> tuple[Times, Record | None]:
    """The newest recorded sweep of that title, and the record it is from."""
    return next(((r.sweeps[title], r) for r in records() if title in r.sweeps), ({}, None))


# --- this machine ---


def todays_record(command: str, **tables: Any) -> Record:
    """A record of this GPU and today, with these tables. Raises DeviceError without a GPU."""
    gpu: Any = get(check("cuda"))
    return Record(gpu.label, date.today().isoformat(), command, versions(), gpu.chip, **tables)


def copy_bandwidth(nbytes: int = 2**30) -> float:
    """Bytes per second of a copy within the device, reads plus writes: the bound for memory-bound work."""
    gpu: Any = get(check("cuda"))
    source, target = (Array.empty(gpu, (nbytes,), np.dtype(np.uint8)) for _ in range(2))
    gpu.upload(source.address, np.random.default_rng(0).integers(0, 255, nbytes, np.uint8))
    times = timer().interleaved({"copy": lambda: target.copy_from(source)}, 20, 2e-3)
    return 2 * nbytes / times["copy"].seconds


def versions() -> dict[str, str]:
    """The versions of driver, CUDA compiler, Python, and of the packages that are imported."""
    found = {}
    if smi := shutil.which("nvidia-smi"):
        query = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
        found["driver"] = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]
    if nvcc := find_nvcc():
        found["nvcc"] = nvcc_version(nvcc)
    found |= {"python": platform.python_version(), "numpy": np.__version__}
    return found | {name: metadata.version(name) for name in ("pycuda", "torch") if name in sys.modules}
