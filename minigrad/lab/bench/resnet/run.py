"""The run of the benchmark of ResNet-18: its parts one after the other, into one record."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from minigrad.devices import check, get
from minigrad.errors import require_words
from minigrad.lab.bench.jobs import NOT_TIMED, attempt, known_part
from minigrad.lab.bench.measure import set_up, timed
from minigrad.lab.bench.record import Record, copy_bandwidth, todays_record, versions
from minigrad.lab.bench.resnet import layers, network, sweep
from minigrad.lab.bench.resnet.calls import SMALL, products, small_call
from minigrad.lab.bench.resnet.modes import ASKED, MODES, STEPS, Mode
from minigrad.lab.bench.resnet.report import ResNetReport
from minigrad.lab.bench.resnet.timeline import timeline
from minigrad.lab.bench.resnet.whole_steps import DEVICE, INFERRED, TRAINED, WholeStep
from minigrad.lab.bench.timer import timer
from minigrad.lab.bench.work import Work

RIVALS = ("torch",)
# A mode: training in it alone. "sweep" takes long, and is measured only where one asks for it.
PARTS = ("training", *STEPS, *ASKED, "inference", "layers", "timeline", "calls", "sweep")
Tables = dict[str, Any]  # by the name of a record's table, the entry of one title


@dataclass(frozen=True)
class Job:
    """Something that is measured under one title: measure(against) gives the entries of a record's tables."""

    title: str
    measure: Callable[[Sequence[str]], Tables]


def jobs(only: str | None = None) -> list[Job]:
    """All jobs, or those of one part."""
    trained = [only] if only in (*STEPS, *ASKED) else STEPS if only in (None, "training") else ()
    whole = [WholeStep("training", batch, MODES[mode]) for mode in trained for batch in TRAINED]
    if only in (None, "inference"):
        whole += [WholeStep("inference", batch, MODES["tf32"]) for batch in INFERRED]
    found = [Job(step.title, partial(_whole, step)) for step in whole]
    if only in (None, "layers"):
        works = layers.works()
        found += [Job(layer.title(way, mode), partial(_layer, layer, way, mode)) for layer, way, mode in works]
    if only == "sweep":
        found += [Job(layer.title(way, mode), partial(_sweep, layer, way, mode)) for layer, way, mode in sweep.works()]
    if only in (None, "timeline"):
        step = WholeStep("training", max(TRAINED), MODES["tf32"])
        found.append(Job(f"{step.title}, eager", partial(_timeline, step)))
    if only in (None, "calls"):
        found += [Job(title, partial(_small, title)) for title in SMALL]
        found += [Job(work.title, partial(_product, work)) for work in products()]
    return found


def _add(record: Record, job: Job, against: Sequence[str]) -> None:
    """Measure a job, and add its entries to the tables of the record."""
    for table, entry in job.measure(against).items():
        getattr(record, table).update({job.title: entry} if entry else {})


def _whole(step: WholeStep, against: Sequence[str]) -> Tables:
    times, peaks = step.measured(against)
    return {"steps": times, "peaks": peaks}


def _layer(layer: layers.Layer, way: str, mode: Mode, against: Sequence[str]) -> Tables:
    return {"layers": layers.stage(layer, mode.dtype).measured(way, mode, against)}


def _sweep(layer: layers.Layer, way: str, mode: Mode, against: Sequence[str]) -> Tables:
    return {"sweeps": sweep.swept(layers.stage(layer, mode.dtype), way, mode)}


def _timeline(step: WholeStep, against: Sequence[str]) -> Tables:
    call = network.training(network.task(step.batch), step.mode, DEVICE)
    return {"timelines": timeline(call, get(DEVICE), timer(), step.mode.unit)}


def _small(title: str, against: Sequence[str]) -> Tables:
    return {"steps": small_call(title, against)}


def _product(work: Work, against: Sequence[str]) -> Tables:
    return {"layers": timed(set_up(work), against)}


def resnet_report(
    only: str | None = None,
    against: Sequence[str] = (),
    track: Callable[[Sequence[Job]], Iterable[Job]] = iter,
    command: str = "mg.bench.resnet_report()",
) -> ResNetReport:
    """Measure ResNet-18 on this GPU, or one part of the benchmark, next to PyTorch if `against` names "torch".

    Whole steps, single layers, a timeline of a step, and calls apart from it; `PARTS` has the words for `only`.
    Every result is checked first; one that is wrong, or for which there is no room or no kernel, is not timed, and the
    record says why. Ctrl-C ends the run early and keeps the measurements. Raises DeviceError without a GPU, ImportError
    without PyTorch and torchvision.
    """
    against, wanted = require_words("mg.bench.resnet_report", "against", against, RIVALS), jobs(known_part(only, PARTS))
    check(DEVICE)
    if against and (missing := [name for name in ("torch", "torchvision") if not find_spec(name)]):
        raise ImportError(f"--against torch needs {' and '.join(missing)}: pip install torch torchvision.")
    record = todays_record(command, copy=copy_bandwidth())
    with suppress(KeyboardInterrupt):
        for job in track(wanted):
            if not attempt(record, job.title, partial(_add, record, job, against), (*NOT_TIMED, TypeError)):
                break
    layers.stage.cache_clear()
    record.versions = versions()  # again: PyTorch may have been imported since
    return ResNetReport(record)
