"""The benchmark of recurrent networks: its parts into one record of this machine, and what is shown of it."""

import os
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

from minigrad.devices import check, get, why_not
from minigrad.devices.host_compiler import cores, processor
from minigrad.display import Table, Tabular, plural, table
from minigrad.errors import require_words
from minigrad.lab.bench.jobs import attempt, known_part
from minigrad.lab.bench.record import RECURRENT, Record, Times, records, versions
from minigrad.lab.bench.recurrent import gpu, ranks
from minigrad.lab.bench.recurrent.goals import goals_table
from minigrad.lab.bench.recurrent.processor import (
    BATCHES,
    BOUND,
    CORES,
    HIDDEN,
    MEASURED,
    MULTIPLY,
    READ,
    RecurrentTimes,
    core_times,
    recurrent_times,
)

PARTS, RIVALS = ("gpu", "barriers", "processor", "ranks"), ("torch",)
ON_GPU, BARRIERS = PARTS[:2], PARTS[1]
LAYERS = 4  # of the network that is timed as a wavefront
THREADS = (1, 2, 4, 8, 16)  # that are timed, as far as the machine has them
SWEEPS, REPEATS = 3, 5  # of the processor's part: for seconds at a time others may share a rented machine's cores


@dataclass(frozen=True, repr=False)
class RecurrentReport(Tabular):
    """A record's measurements of recurrent networks. Shown as the table of goals; other tables are its attributes."""

    record: Record

    def table(self) -> Table:
        return goals_table(self.record)

    @property
    def processors(self) -> str:
        """Those of the threads and ranks."""
        return self.record.versions.get("processors", self.record.device)

    @property
    def host(self) -> str:
        """The processors, and the date."""
        return f"{self.processors}, {self.record.date}"

    def tables(self, part: str | None = None) -> list[Table]:
        """The goals and every table with rows, or those of one part of the benchmark."""
        parts = {name: getattr(self, name) for name in PARTS}
        chosen = [self.table(), *(parts.values() if part is None else [parts[part]])]
        chosen += [self.cores] if part in (None, "processor") else []
        return [found for found in chosen if found.rows]

    @property
    def gpu(self) -> Table:
        """Every rung on whole sequences next to PyTorch's modes."""
        rows = []
        for work in gpu.WORKS:
            times = self.record.steps.get(work.title, {})
            rival = gpu.best(times, work.precision)[1] if times else None
            for label, t in times.items():
                ratio = f"{t.seconds / rival:.2f}" if rival else ""
                rows.append((work.title, label, f"{t.seconds * 1e6:.0f}", f"{t.seconds / work.steps * 1e6:.2f}", ratio))
        caption = f"Whole sequences on {self.record.place}; a ratio below 1 is faster than cuDNN in the same precision"
        return table(rows, ("network", "by", "us", "us a step", "ratio"), caption)

    @property
    def barriers(self) -> Table:
        """The time of a barrier: of the threads of a block, of the blocks of a cluster, and of those of a grid."""
        times = self.record.steps.get(BARRIERS, {})
        rows = [(who, f"{t.seconds * 1e6:.3f}", f"{t.seconds * 512e6:.0f}") for who, t in times.items()]
        caption = f"What a barrier costs on {self.record.place}, blocks of {gpu.THREADS} threads"
        return table(rows, ("who meets", "us", "us for 512 steps"), caption)

    @property
    def cores(self) -> Table:
        """The limits of the processor: multiplications and bytes a second of so many threads at once."""
        times = self.record.steps.get(CORES, {})
        rows = []
        for label in times:
            if label.startswith(MULTIPLY):
                words = label.partition(", ")[2]
                n, did = int(words.split()[0]), 1e6 / times[label].seconds
                reads = [(size, times.get(f"reads {size} MiB, {words}")) for size in READ]
                speeds = (f"{n * size * 2**20 / t.seconds / 1e9:.0f}" if t else "" for size, t in reads)
                alone = 1e6 / times[f"{MULTIPLY}, 1 thread"].seconds
                rows.append((words, f"{n * did / 1e9:.0f}", f"{n * did / alone:.1f}", *speeds))
        headers = ("at once", "GFLOP/s", "of 1 thread", *(f"GB/s, {size} MiB each" for size in READ))
        return table(rows, headers, f"What the cores do at once, {self.host}")

    @property
    def processor(self) -> Table:
        """A step by each rung of the OpenMP ladder next to PyTorch and the machine's limit."""
        times = {title: t for title, t in self.record.steps.items() if ", batch " in title}
        return RecurrentTimes(
            self.processors, self.record.date, float(self.record.versions.get("load", 0)), times
        ).table()

    @property
    def ranks(self) -> Table:
        """A step on ranks of MPI, by split."""
        times = {title: t for title, t in self.record.steps.items() if any("rank" in label for label in t)}
        return ranks.RankTimes(times).table()


def jobs(only: str | None, against: Sequence[str]) -> dict[str, Callable[[], dict[str, Times]]]:
    """By title what gives the times of one part, or of all parts that this machine can run."""
    chosen = [only] if only else [part for part in PARTS if part not in ON_GPU or not why_not("cuda")]
    found: dict[str, Callable[[], dict[str, Times]]] = {}
    if "gpu" in chosen:
        found |= {work.title: partial(_on_gpu, work, against) for work in gpu.WORKS}
    if BARRIERS in chosen:
        found[BARRIERS] = lambda: {BARRIERS: gpu.barrier_times()}
    for sweep in range(1, 1 + SWEEPS * ("processor" in chosen)):
        last = f", sweep {sweep} of {SWEEPS}"
        found[f"{CORES}{last}"] = lambda: {CORES: core_times(counts())}
        works = [*product(("tanh", "lstm", "gru"), HIDDEN, BATCHES)]
        found |= {f"{cell} {h}, batch {b}{last}": partial(_threads, cell, h, b, against) for cell, h, b in works}
        found |= {f"{LAYERS} layers, batch {b}{last}": partial(_layers, b, against) for b in BATCHES}
    if "ranks" in chosen:
        found |= {f"ranks, H{h} B{b}": partial(_ranks, h, b) for h, b in product((512, 1024), BATCHES)}
    return found


def _add(record: Record, measure: Callable[[], dict[str, Times]]) -> None:
    """Put the times into the record; of what an earlier sweep has timed, those of the sweep with the fastest run."""
    for title, times in measure().items():
        known = record.steps.setdefault(title, {})
        known |= {label: min(known.get(label, t), t, key=lambda timing: timing.fastest) for label, t in times.items()}


def _on_gpu(work: gpu.Sequences, against: Sequence[str]) -> dict[str, Times]:
    return {work.title: gpu.sequence_times(work, against)}


def _threads(cell: str, hidden: int, batch: int, against: Sequence[str]) -> dict[str, Times]:
    rungs = (*MEASURED, *BOUND) if (cell, hidden) == ("lstm", HIDDEN[-1]) else MEASURED
    return recurrent_times(against, [cell], [hidden], [batch], counts(), rungs, REPEATS).times


def _layers(batch: int, against: Sequence[str]) -> dict[str, Times]:
    """Layers that overlap, and the rungs that run one after the other."""
    rungs = (*MEASURED, "wavefront")
    return recurrent_times(against, ["lstm"], [HIDDEN[0]], [batch], counts(), rungs, REPEATS, layers=LAYERS).times


def counts() -> list[int]:
    """The numbers of threads that this machine has processors for."""
    return [n for n in THREADS if n <= len(cores())]


def _ranks(hidden: int, batch: int) -> dict[str, Times]:
    return ranks.rank_times(hidden=[hidden], batch=[batch]).times


def recurrent_report(
    only: str | None = None,
    against: Sequence[str] = (),
    track: Callable[[Sequence[str]], Iterable[str]] = iter,
    command: str = "mg.bench.recurrent_report()",
) -> RecurrentReport:
    """Measure recurrent networks on this machine, or one part, next to PyTorch if `against` names "torch".

    Parts: "gpu", whole sequences by the CUDA ladder; "barriers", the time of one; "processor", a step by the OpenMP
    ladder on 1 thread to all; "ranks", a step on 1, 2 and 4 ranks of MPI. Every result is checked first; a wrong one is
    not timed, and the record says why. Ctrl-C ends the run early and keeps the measurements. Without a GPU the first
    two are left out, or raise DeviceError where one is asked for; "torch" raises ImportError without PyTorch.
    """
    against = require_words("mg.bench.recurrent_report", "against", against, RIVALS)
    if known_part(only, PARTS) in ON_GPU:
        check("cuda")
    if against and not find_spec("torch"):
        raise ImportError("--against torch needs PyTorch: pip install torch.")
    wanted, record = jobs(only, against), Record(machine(), date.today().isoformat(), command, {}, folder=RECURRENT)
    with suppress(KeyboardInterrupt):
        for title in track([*wanted]):
            if not attempt(record, title, partial(_add, record, wanted[title])):
                break
    record.versions = versions() | {"processors": processors(), "load": f"{os.getloadavg()[0]:.1f}"}
    return RecurrentReport(record)


def machine() -> str:
    """The GPU's name, or where there is none the processors."""
    device: Any = get("cuda") if not why_not("cuda") else None
    return device.label if device else processors()


def processors() -> str:
    """AMD EPYC with 2 processors"""
    model = re.search(r"model name\s*: (.+?)\s+flags\s*:", processor())  # of Linux on x86-64
    return f"{model[1] if model else platform.machine()} with {plural(len(cores()), 'processor')}"


def recorded_recurrent(only: str = "processor") -> RecurrentReport:
    """The newest recorded report with that part. Raises ValueError if there is none."""
    for record in records(folder=RECURRENT):
        report = RecurrentReport(record)
        if getattr(report, known_part(only, PARTS) or "").rows:
            return report
    raise ValueError(f"no record has the part {only} of recurrent networks. `minigrad bench --rnn` measures one.")
