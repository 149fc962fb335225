"""Every legal setting of an op's tunables: its launches, and its time."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from minigrad.devices import get, why_not
from minigrad.devices.dry_run import DryRun
from minigrad.display import Table, Tabular, table
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.measure import Experiment, set_up
from minigrad.lab.bench.record import Times, recorded
from minigrad.lab.bench.timer import Timing, timer
from minigrad.lab.bench.work import DryWork, Work, work_of
from minigrad.op import Op


@dataclass(frozen=True)
class Setting:
    values: Mapping[str, int]
    op: Op
    dry: DryWork

    @property
    def label(self) -> str:
        return label(self.values)


def label(values: Mapping[str, int]) -> str:
    """BLOCK=256 CHUNK=8192"""
    return " ".join(f"{key}={value}" for key, value in sorted(values.items()))


def settings(work: Work, **fixed: int) -> list[Setting]:
    """The legal settings of the kernels that a work launches; of those with the same launches only the first."""
    legal: dict[str, set[int]] = {}
    for kernel in launched(work):
        for key, choices in kernel.tunables.items():
            legal.setdefault(key, set()).update(choices)
    legal |= {key: {value} for key, value in fixed.items()}
    found: dict[Any, Setting] = {}
    for values in product(*map(sorted, legal.values())):
        setting = dict(zip(legal, values, strict=True))
        op = retuned(work.chosen, setting)
        try:
            dry = work.dry(op)
        except LaunchError:
            continue  # each value is legal, this combination is not
        found.setdefault(launch_key(dry), Setting(setting, op, dry))
    return list(found.values())


def default(work: Work) -> dict[str, int]:
    """The values that the op uses for this work if none are asked for."""
    own = launch_key(work.dry())
    same = next((s.values for s in settings(work) if launch_key(s.dry) == own), None)
    return dict(same) if same else {key: value for kernel in launched(work) for key, value in kernel.values.items()}


def launched(work: Work) -> list[Kernel]:
    """The op's kernels that a work launches."""
    names = {launch.kernel for launch in work.dry().launches}
    return [kernel for kernel in work.chosen.kernels.values() if kernel.name in names]


def retuned(op: Op, values: Mapping[str, int], only: Container[str] | None = None) -> Op:
    """A copy of the op with these values for the tunables of its kernels, or of those named in `only`.

    Where kernels have a tunable of one name and different choices, those keep theirs that do not have the value.
    """
    copies: dict[int, Kernel] = {}
    for kernel in op.kernels.values():
        wanted = values if only is None or kernel.name in only else {}
        if known := {key: value for key, value in wanted.items() if value in kernel.tunables.get(key, ())}:
            copies.setdefault(id(kernel), kernel.using(**known))
    return op.with_kernels({role: copies.get(id(k), k) for role, k in op.kernels.items()})  # one in two roles stays one


def launch_key(dry: DryWork | DryRun) -> tuple:
    """The launches as a key, with the shapes of their arrays: two settings with the same key are one."""
    return tuple(
        (run.kernel, run.grid, run.block, tuple(sorted(run.defines.items())), tuple(x.shape for _, x in run.arrays))
        for run in dry.launches
    )


def swept(experiment: Experiment, chosen: Sequence[Setting], repeats: int = 20) -> Times:
    """Time the settings on this GPU in turns, after comparing the result of each with NumPy's."""
    for setting in chosen:
        experiment.check(experiment.calls(setting.op)(), setting.label)
    return timer().interleaved({setting.label: experiment.calls(setting.op) for setting in chosen}, repeats)


@dataclass(frozen=True, repr=False)
class TunableSweep(Tabular):
    """The time of one op for each legal value of a tunable: live on this machine's GPU, and recorded on another."""

    title: str
    tunable: str
    live: dict[int, Timing]
    live_on: str
    recorded: dict[int, Timing]
    recorded_on: str

    def at(self, value: int) -> str:
        """The live and the recorded time for one value, with title and place; empty if there is none."""
        places = ((self.live, f"live on {self.live_on}"), (self.recorded, f"recorded on {self.recorded_on}"))
        known = [f"{runs[value]} {where}" for runs, where in places if value in runs]
        return f"for {self.title}: {'; '.join(known)}" if known else ""

    def table(self) -> Table:
        runs = {f"recorded{f' on {self.recorded_on}' if self.recorded_on else ': never'}": self.recorded}
        if self.live_on:
            runs = {self.live_on: self.live, **runs}
        values = sorted({*self.live, *self.recorded})
        rows = [(str(v), *(repr(times[v]) if v in times else "-" for times in runs.values())) for v in values]
        return table(rows, (self.tunable, *runs), self.title)


def sweep(
    op: Op, *shapes: Any, tunable: str = "BLOCK", variant: str | None = None, way: str = "forward", **params: Any
) -> TunableSweep:
    """Time an op on random float32 arrays of these shapes for each legal value of a tunable; others keep their default.

    Without a GPU the times are recorded ones, and the result says so.
    """
    work = work_of(op, shapes, way, variant, **params)
    others = {key: value for key, value in default(work).items() if key != tunable}
    chosen = [s for s in settings(work, **others) if tunable in s.values]
    if not chosen:
        known = label(default(work)) or "none"
        raise ValueError(f"{work.title}: no kernel with a tunable {tunable}; the tunables are {known}.")
    gpu: Any = None if why_not("cuda") else get("cuda")
    times, record = recorded(work.title)
    live, old = (
        {s.values[tunable]: found[s.label] for s in chosen if s.label in found}
        for found in (swept(set_up(work), chosen) if gpu else {}, times)
    )
    title = f"{work.title}, by {tunable}"
    return TunableSweep(title, tunable, live, gpu.label if gpu else "", old, record.place if record else "")
