"""The report of attention and GPTs: their works into one record, the goals, and tables of all contestants."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np

from minigrad.devices import check, get
from minigrad.display import Table, Tabular, table
from minigrad.errors import require_words
from minigrad.lab.bench import steps
from minigrad.lab.bench.jobs import NOT_TIMED, attempt, known_part
from minigrad.lab.bench.measure import Measurement
from minigrad.lab.bench.record import TRANSFORMER, Record, Times, copy_bandwidth, records, todays_record
from minigrad.lab.bench.resnet.goals import GPU, best, verdict
from minigrad.lab.bench.resnet.modes import MODES
from minigrad.lab.bench.resnet.timeline import timeline
from minigrad.lab.bench.timer import Timing, clocked, timer
from minigrad.lab.bench.transformer import models, works
from minigrad.lab.bench.transformer.models import CHARACTERS, GPT2, TRAINED, Model
from minigrad.lab.check import ValueMismatch

PARTS, RIVALS = ("attention", "gpt"), ("torch",)
DEVICE, CHECKED, REPEATS = works.DEVICE, 4, 7
ALLOWED = {"tf32": 2e-3, "bf16": 2e-2}  # of the losses of the first steps, from PyTorch's
EAGER = ", eager"  # ends the title of a step whose parts are timed
PART_HEADERS = ("part", "us", "floor us", "of the step", "GFLOP", "MB")
HEADERS = ("work", "us", "PyTorch", "ratio", "must", "hope", "reached")
ALONE = [*(work.title(way) for work in works.WORKS[:4] for way in works.SIDES), *(w[-1] for w in works.other_works())]
LIMITS = (
    (600, 400), (1500, 1100), (3300, 2200), (8300, 6000), (900, 600), (2400, 1650), (300, 184), (900, 581),
    (20, 18.4), (40, 27.6), (300, 150),
)  # fmt: skip
MICROSECONDS = dict(zip(ALONE, LIMITS, strict=True))  # at most
STEPS = {(CHARACTERS, "tf32"): 9e3, (CHARACTERS, "bf16"): 5e3, (GPT2, "tf32"): 25e3, (GPT2, "bf16"): 11e3}
FASTER = 5, 10  # times as fast as PyTorch's generation: at least, and hoped for


@dataclass(frozen=True, repr=False)
class TransformerReport(Tabular):
    """A record's measurements of attention and GPTs. Shown as the table of goals; `all` has every contestant."""

    record: Record

    def tables(self, part: str | None = None) -> list[Table]:
        """The goals, and every time of one part of the benchmark or of all."""
        steps = {t: times for t, times in self.record.steps.items() if part in (None, PARTS["GPT" in t])}
        report = TransformerReport(replace(self.record, steps=steps))
        found = [report.table(), report.all]
        if part != PARTS[0]:
            found += [self.parts(step) for step in self.record.timelines]
        return [x for x in found if x.rows]

    def table(self) -> Table:
        caption = f"Attention and GPTs next to PyTorch's best on {self.record.place}. A ratio below 1 is faster."
        return table([*self._rows()], HEADERS, caption)

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for title, times in self.record.steps.items():
            seconds = {name: timing.seconds for name, timing in times.items()}
            ours, theirs = best(seconds, "minigrad"), best(seconds, "PyTorch")
            limits = self._limits(title, theirs)
            numbers = ["" if x is None else f"{x * 1e6:.1f}" for x in (ours, theirs, *limits)]
            ratio = f"{ours / theirs:.2f}" if ours and theirs else ""
            yield title, *numbers[:2], ratio, *numbers[2:], verdict(ours, *limits)

    def _limits(self, title: str, theirs: float | None) -> tuple[float | None, float | None]:
        """The seconds that have to be reached, and those that one hopes for."""
        for (of, mode), hoped in STEPS.items():
            if title == of.step_title(mode):
                return theirs, hoped * 1e-6
        if title == CHARACTERS.generation_title:
            return (theirs / FASTER[0], theirs / FASTER[1]) if theirs else (None, None)
        must, hope = MICROSECONDS.get(title, (None, None)) if self.record.device == GPU else (None, None)
        return must and must * 1e-6, hope and hope * 1e-6

    def parts(self, step: str) -> Table:
        """The kinds of layers of a recorded step, eager, all blocks together: times, and the floors of all their calls.

        Raises ValueError where the record has no such step.
        """
        if step not in self.record.timelines:
            raise ValueError(f"{self.record.place} has no parts of {step!r}; it has {[*self.record.timelines]}.")
        found: dict[str, list[float]] = {}
        for title, m in self.record.timelines[step].items():
            row = found.setdefault(kind(title), [0, 0, 0, 0])
            for i, x in enumerate((m.timing.seconds, self.record.floor(m) or 0, m.flops, m.nbytes)):
                row[i] += x
        found["all"] = [sum(column) for column in zip(*found.values(), strict=True)]
        rows = [
            (name, f"{1e6 * took:.0f}", f"{1e6 * floor:.0f}", f"{took / found['all'][0]:.3f}", f"{flops / 1e9:.0f}",
             f"{nbytes / 1e6:.0f}") for name, (took, floor, flops, nbytes) in found.items()
        ]  # fmt: skip
        return table(rows, PART_HEADERS, f"{step}: its parts on {self.record.place}")

    @property
    def all(self) -> Table:
        """Every contestant's time."""
        rows = [
            (title, name, f"{t.seconds * 1e6:.1f}", f"{t.fastest * 1e6:.1f}")
            for title, times in self.record.steps.items() for name, t in times.items()
        ]  # fmt: skip
        return table(rows, ("work", "by", "median us", "fastest us"), f"All contestants on {self.record.place}")


def kind(title: str) -> str:
    """The part without the number of its block: attn.c_attn, matmul, forward."""
    return re.sub(r"^h\.\d+\.?(, )?", "", title)


def jobs(part: str | None) -> dict[str, Callable[[Sequence[str]], Mapping]]:
    """By title what gives the times, or the parts of a step."""
    found: dict[str, Callable[[Sequence[str]], Mapping]] = {}
    if part in (None, PARTS[0]):
        found |= {work.title(): partial(works.attention_times, work) for work in works.WORKS}
        found |= {work[-1]: partial(works.other_times, *work) for work in works.other_works()}
    if part in (None, PARTS[1]):
        found |= {of.step_title(mode): partial(step_times, of, mode) for of in (CHARACTERS, GPT2) for mode in TRAINED}
        found[CHARACTERS.generation_title] = generation_times
        found |= {GPT2.step_title(mode) + EAGER: partial(timeline_of, GPT2, mode) for mode in TRAINED}
    return found


def step_times(of: Model, mode: str, against: Sequence[str]) -> dict[str, Times]:
    """A step by each contestant, the host's time included; their first losses must agree. Raises ValueMismatch."""
    calls = {name: models.training(of, mode, DEVICE, name != "minigrad") for name in ("minigrad", "minigrad, graph")}
    if "torch" in against:
        calls |= works.rival().every_training(of, mode)
    first: list[float] = []
    for name, call in reversed(calls.items()):
        losses = [float(call().item()) for _ in range(CHECKED)]
        first = first or losses
        if not np.allclose(losses, first, ALLOWED[mode]):
            raise ValueMismatch(f"{of.step_title(mode)}: {name} has the losses {losses}, not {first}; not timed.")
    return {of.step_title(mode): steps.timed(calls, get(DEVICE).finish, REPEATS)}  # type: ignore[attr-defined]


def timeline_of(of: Model, mode: str, against: Sequence[str]) -> dict[str, Measurement]:
    """The parts of a step whose launches are made one by one."""
    return timeline(models.training(of, mode, DEVICE), get(DEVICE), timer(), MODES[mode].unit)


def generation_times(against: Sequence[str]) -> dict[str, Times]:
    """The time of a word; the texts of all contestants must be the same. Raises ValueMismatch."""
    calls = {"minigrad": models.generation(CHARACTERS, DEVICE)}
    if "torch" in against:
        calls["PyTorch"] = works.rival().generation(CHARACTERS)
    texts = [call() for call in calls.values()]
    if not all((text == texts[0]).all() for text in texts):
        raise ValueMismatch(f"{CHARACTERS.generation_title}: the texts differ; not timed.")
    runs = {name: [clocked(call) / models.WORDS for _ in range(3)] for name, call in calls.items()}
    return {CHARACTERS.generation_title: {name: Timing.of(seconds, True) for name, seconds in runs.items()}}


def transformer_report(
    only: str | None = None,
    against: Sequence[str] = (),
    track: Callable[[Sequence[str]], Iterable[str]] = iter,
    command: str = "mg.bench.transformer_report()",
) -> TransformerReport:
    """Measure attention and GPTs on this GPU, or one part, next to PyTorch if `against` names "torch".

    Parts: "attention", with layer norm and the gradient of a table; "gpt", whole training steps and generation.
    Results are checked first; a wrong one is not timed, and the record says why. Ctrl-C ends the run early. Raises
    DeviceError without a GPU, ImportError without PyTorch.
    """
    against = require_words("mg.bench.transformer_report", "against", against, RIVALS)
    wanted = jobs(known_part(only, PARTS))
    check(DEVICE)
    if against and not find_spec("torch"):
        raise ImportError("--against torch needs PyTorch: pip install torch.")
    record = todays_record(command, copy=copy_bandwidth() if only != PARTS[0] else None)
    record.folder = TRANSFORMER
    record.versions |= {name: metadata.version(name) for name in against}
    with suppress(KeyboardInterrupt):
        for title in track([*wanted]):
            into: Any = record.timelines.setdefault(title, {}) if title.endswith(EAGER) else record.steps
            add = lambda title=title, into=into: into.update(wanted[title](against))  # noqa: E731
            if not attempt(record, title, add, (*NOT_TIMED, TypeError)):
                break
    return TransformerReport(record)


def recorded_transformer(title: str = "") -> TransformerReport:
    """The newest recorded report that has the work of this title, or any. Raises ValueError if there is none."""
    for record in records(folder=TRANSFORMER):
        if not title or title in record.steps or title in record.timelines:
            return TransformerReport(record)
    raise ValueError("no record has times of attention and GPTs. On a GPU: minigrad bench --attention --gpt.")
