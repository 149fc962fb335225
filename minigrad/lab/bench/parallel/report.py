"""The benchmark of several GPUs: its parts on one rank a GPU, into one record, and the goals that it has to reach."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from minigrad.devices import check, gpus
from minigrad.devices.cuda import libnccl
from minigrad.display import Table, Tabular, table
from minigrad.distributed import init, launch
from minigrad.errors import DeviceError, require_words
from minigrad.lab.bench.jobs import attempt, known_part
from minigrad.lab.bench.parallel import messages, timeline, training
from minigrad.lab.bench.record import PARALLEL, Record, Times, records, todays_record
from minigrad.lab.bench.resnet.goals import verdict
from minigrad.lab.bench.timer import Timing

PARTS, RIVALS = ("messages", "calls", "training", "timeline"), ("torch",)
LIMIT = 900  # seconds for a part
CALLS = "a call of all_reduce on the host"
SHOWN = training.STEPS[0]  # of which there is a time line
CODE = "from minigrad.lab.bench.parallel.report import on_rank\nfound, library = on_rank()"
EFFICIENCY = dict(zip((step.title for step in training.STEPS), (0.97, None, 0.93, None, 0.95), strict=True))  # at least
MICROSECONDS = {training.STEPS[3].title: 120, CALLS: 8}  # at most
OF_NCCL, FROM = 0.97, 2**24  # at least, of NCCL's own bandwidth, for messages of this many bytes and more


@dataclass(frozen=True, repr=False)
class ParallelReport(Tabular):
    """A record's measurements of several GPUs. Shown as the table of goals; other tables are its attributes."""

    record: Record

    @property
    def ranks(self) -> int:
        """The GPUs that worked together."""
        return int(self.record.versions["gpus"])

    @property
    def place(self) -> str:
        """2 GPUs, NVIDIA H200, 2026-11-28"""
        return f"{self.ranks} GPUs, {self.record.place}"

    def tables(self, part: str | None = None) -> list[Table]:
        """The goals and every table with rows, or those of one part of the benchmark."""
        chosen = [self.table(), *(getattr(self, name) for name in PARTS if part in (None, name))]
        return [found for found in chosen if found.rows]

    def table(self) -> Table:
        rows = [*self._efficiencies(), *self._times(), *self._bandwidths()]
        headers = ("work", "measured", "PyTorch", "must", "reached")
        return table(
            rows, headers, f"Goals on {self.place}. Efficiency: the time of a step alone over that on all GPUs"
        )

    def _efficiencies(self) -> Iterator[tuple[str, ...]]:
        for title, must in EFFICIENCY.items():
            if must and (times := self.record.steps.get(title)):
                ours, theirs = (efficiency(times, *names) for names in training.PAIRS)
                assert ours
                reached = verdict(-ours, -must, None)
                yield f"{title}: efficiency", f"{ours:.3f}", f"{theirs:.3f}" if theirs else "", f"{must}", reached

    def _times(self) -> Iterator[tuple[str, ...]]:
        for title, must in MICROSECONDS.items():
            times = self.record.steps.get(title) or self.record.host.get(title, {})
            ours, theirs = ("minigrad", "PyTorch") if title == CALLS else (training.PAIRS[0][1], training.PAIRS[1][1])
            if times:
                shown = f"{times[theirs].seconds * 1e6:.1f} us" if theirs in times else ""
                us = times[ours].seconds * 1e6
                yield title, f"{us:.1f} us", shown, f"{must} us", verdict(us, must, None)

    def _bandwidths(self) -> Iterator[tuple[str, ...]]:
        for nbytes in messages.SIZES:
            times = self.record.steps.get(messages.size_title(nbytes), {})
            if nbytes >= FROM and {"minigrad", messages.NCCL} <= times.keys():
                bus = {name: self._bus(nbytes, time) for name, time in times.items()}
                ours, own = bus["minigrad"], bus[messages.NCCL]
                theirs = f"{bus['PyTorch']:.0f} GB/s" if "PyTorch" in bus else ""
                must, reached = f"{OF_NCCL} of NCCL's {own:.0f}", verdict(-ours, -OF_NCCL * own, None)
                yield f"{messages.size_title(nbytes)}: bus bandwidth", f"{ours:.0f} GB/s", theirs, must, reached

    def _bus(self, nbytes: int, time: Timing) -> float:
        """GB/s"""
        return messages.bus_bandwidth(nbytes, self.ranks, time.seconds) / 1e9

    @property
    def messages(self) -> Table:
        """The time and the bus bandwidth of an all-reduce by its size."""
        rows = []
        for nbytes in messages.SIZES:
            for who, time in self.record.steps.get(messages.size_title(nbytes), {}).items():
                bus = f"{self._bus(nbytes, time):.1f}"
                rows.append((messages.size_title(nbytes), who, f"{time.seconds * 1e6:.1f}", bus))
        return table(rows, ("message", "by", "us", "GB/s of the bus"), f"All-reduces in a graph on {self.place}")

    @property
    def calls(self) -> Table:
        """The host's time for a call."""
        rows = [(who, f"{time.seconds * 1e6:.1f}") for who, time in self.record.host.get(CALLS, {}).items()]
        return table(rows, ("by", "us"), f"{CALLS[0].upper()}{CALLS[1:]}, {messages.SMALL} bytes, on {self.place}")

    @property
    def training(self) -> Table:
        """A training step alone and on all GPUs, next to PyTorch's."""
        rows = []
        for step in training.STEPS:
            for who, time in self.record.steps.get(step.title, {}).items():
                rows.append((step.title, who, f"{time.seconds * 1e6:.1f}"))
        return table(rows, ("step", "by", "us"), f"Training steps on {self.place}, the host's time included")

    @property
    def timeline(self) -> Table:
        """The spans of each rank in a step."""
        rows = []
        for ranks in self.record.spans.values():
            for rank, spans in enumerate(ranks):
                rows += [(str(rank), lane, name, f"{a * 1e6:.1f}", f"{b * 1e6:.1f}") for lane, name, a, b in spans]
        title = f"{', '.join(self.record.spans)} on {self.place}, eager"
        return table(rows, ("rank", "lane", "part", "from us", "to us"), title)


def efficiency(times: Times, alone: str, together: str) -> float | None:
    """The time of a step on one GPU over that of the same step on all of them."""
    return times[alone].seconds / times[together].seconds if {alone, together} <= times.keys() else None


def jobs(only: str | None) -> dict[str, tuple[str, int]]:
    """By title the part that gives its times, and the number of the step in training."""
    found = {part: (part, 0) for part in PARTS[:2]}
    found |= {step.title: ("training", number) for number, step in enumerate(training.STEPS)}
    found[f"time line of {SHOWN.title}"] = "timeline", training.STEPS.index(SHOWN)
    return {title: job for title, job in found.items() if only in (None, job[0])}


def on_rank() -> tuple[dict[str, Any], str]:
    """The seconds of each run by title and contestant, or this rank's spans by title; and the version of NCCL."""
    init()  # from now on the rank's GPU is the device "cuda"
    part, number, against = json.loads(sys.argv[1])
    step = training.STEPS[number]
    measure: dict[str, Callable[[], dict[str, Any]]] = {
        "messages": lambda: messages.message_seconds(against),
        "calls": lambda: {CALLS: messages.host_seconds(against)},
        "training": lambda: {step.title: training.step_seconds(step, against)},
        "timeline": lambda: {f"time line of {step.title}": timeline.step_spans(step)},
    }
    return measure[part](), libnccl.version(libnccl.load())


def _add(record: Record, part: str, number: int, against: Sequence[str]) -> None:
    words = json.dumps([part, number, against])
    done = launch(gpus(), CODE, [words], get=["found", "library"], timeout=LIMIT)
    record.versions["nccl"] = done["library"][0]
    if part == "timeline":
        record.spans |= {title: [found[title] for found in done["found"]] for title in done["found"][0]}
        return
    for title, runs in done["found"][0].items():
        times = {who: Timing.of(seconds, host=part != "messages") for who, seconds in runs.items()}
        (record.host if part == "calls" else record.steps)[title] = times


def parallel_report(
    only: str | None = None,
    against: Sequence[str] = (),
    track: Callable[[Sequence[str]], Iterable[str]] = iter,
    command: str = "mg.bench.parallel_report()",
) -> ParallelReport:
    """Measure this machine's GPUs together, or one part, next to PyTorch if `against` names "torch".

    Parts: "messages", all-reduces by their size; "calls", the host's time for one; "training", steps of a model on each
    GPU, alone and with `DataParallel`; "timeline", the spans of one of them on each GPU. Results are checked first; a
    wrong one is not timed, and the record says why.
    Raises DeviceError with fewer than two GPUs, ImportError without PyTorch.
    """
    against = require_words("mg.bench.parallel_report", "against", against, RIVALS)
    wanted = jobs(known_part(only, PARTS))
    check("cuda")
    if gpus() < 2:
        raise DeviceError(f"the benchmark of several GPUs needs two at least; this machine has {gpus()}.")
    if against and not find_spec("torch"):
        raise ImportError("--against torch needs PyTorch: pip install torch.")
    record = todays_record(command)
    record.folder, record.chip = PARALLEL, None
    record.versions |= {"gpus": str(gpus())} | {name: metadata.version(name) for name in against}
    with suppress(KeyboardInterrupt):
        for title in track([*wanted]):
            if not attempt(record, title, partial(_add, record, *wanted[title], against)):
                break
    return ParallelReport(record)


def recorded_parallel() -> ParallelReport:
    """The newest recorded report. Raises ValueError if there is none."""
    if found := next(records(folder=PARALLEL), None):
        return ParallelReport(found)
    raise ValueError("no record has measurements of several GPUs. `minigrad bench --gpus` takes them.")
