"""Every legal value of an op's tunables: which there are, what each launches, and what each takes."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from typing import Any

from minigrad.devices import get, why_not
from minigrad.display import Table, table
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.lab.bench.measure import Stage, staged
from minigrad.lab.bench.record import Times, recorded
from minigrad.lab.bench.timer import Timing, timer
from minigrad.lab.bench.work import Dry, Work, work_of
from minigrad.op import Op


@dataclass(frozen=True)
class Setting:
    """An op with values for its tunables, and what it would launch."""

    values: Mapping[str, int]
    op: Op
    dry: Dry

    @property
    def label(self) -> str:
        """BLOCK=256 CHUNK=8192"""
        return label(self.values)


def label(values: Mapping[str, int]) -> str:
    """Values of tunables as words: BLOCK=256 CHUNK=8192"""
    return " ".join(f"{key}={value}" for key, value in sorted(values.items()))


def settings(work: Work, **fixed: int) -> list[Setting]:
    """The legal settings of the kernels that a work launches, one for each way in which the launches differ."""
    legal = {key: sorted(set(values)) for kernel in launched(work) for key, values in kernel.tunables.items()}
    legal |= {key: [value] for key, value in fixed.items()}
    found: dict[Any, Setting] = {}
    for values in product(*legal.values()):
        setting = dict(zip(legal, values, strict=True))
        op = retuned(work.chosen, setting)
        try:
            dry = work.dry(op)
        except LaunchError:
            continue  # legal one by one, not together
        found.setdefault(alike(dry), Setting(setting, op, dry))
    return list(found.values())


def default(work: Work) -> dict[str, int]:
    """The values that the op takes by itself for this work."""
    own = alike(work.dry())
    same = next((s.values for s in settings(work) if alike(s.dry) == own), None)
    return dict(same) if same else {key: value for kernel in launched(work) for key, value in kernel.values.items()}


def launched(work: Work) -> list[Kernel]:
    """The kernels of the op that a work launches."""
    names = {launch.kernel for launch in work.dry().launches}
    return [kernel for kernel in work.chosen.kernels.values() if kernel.name in names]


def retuned(op: Op, values: Mapping[str, int], only: Container[str] | None = None) -> Op:
    """The op with values for the tunables of its kernels, or of those of some names; what runs stays what it is."""
    made: dict[int, Kernel] = {}

    def changed(kernel: Kernel) -> Kernel:
        wanted = values if only is None or kernel.name in only else {}
        known = {key: value for key, value in wanted.items() if key in kernel.tunables}
        return made.setdefault(id(kernel), kernel.using(**known) if known else kernel)

    return op.with_kernels({role: changed(kernel) for role, kernel in op.kernels.items()})  # one in two roles stays one


def alike(dry: Dry) -> tuple:
    """Settings that launch the same are one."""
    return tuple((run.kernel, run.grid, run.block, tuple(sorted(run.defines.items()))) for run in dry.launches)


def swept(stage: Stage, chosen: Sequence[Setting], repeats: int = 20) -> Times:
    """The time of each setting on this GPU, in turns, after a check that each gives what NumPy gives."""
    for setting in chosen:
        stage.check(stage.calls(setting.op)(), setting.label)
    runs = timer().interleaved([stage.calls(setting.op) for setting in chosen], repeats, 2e-4)
    return {s.label: Timing.of(r.seconds, not r.queued) for s, r in zip(chosen, runs, strict=True)}


@dataclass(frozen=True)
class Sweep:
    """The time of one op for each legal value of a tunable: on this machine's GPU, and as recorded on another."""

    title: str
    tunable: str
    live: dict[int, Timing]
    live_on: str
    recorded: dict[int, Timing]
    recorded_on: str

    def at(self, value: int) -> str:
        """The time for one value, of what, and whether it is live or recorded; empty where it is not known."""
        known = [
            f"{runs[value]} {where}"
            for runs, where in (
                (self.live, f"live on {self.live_on}"),
                (self.recorded, f"recorded on {self.recorded_on}"),
            )
            if value in runs
        ]
        return f"{'; '.join(known)}, for {self.title}" if known else ""

    def table(self) -> Table:
        """A row for each value: value, live time, recorded time."""
        values, both = sorted({*self.live, *self.recorded}), (self.live, self.recorded)
        recorded = f"recorded{f' on {self.recorded_on}' if self.recorded_on else ': never'}"
        rows = [(str(v), *(repr(runs[v]) if v in runs else "-" for runs in both)) for v in values]
        return table(rows, (self.tunable, self.live_on or "live: no GPU here", recorded))

    def __repr__(self) -> str:
        return f"{self.title}\n{self.table()!r}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.title)}</p>{self.table()._repr_html_()}"


def sweep(
    op: Op, *shapes: Any, tunable: str = "BLOCK", variant: str | None = None, way: str = "forward", **params: Any
) -> Sweep:
    """Time an op on random float32 arrays of these shapes for each legal value of a tunable, the others as they are.

    Where there is no GPU, the times are those that were recorded, and the result says so.
    """
    work = work_of(op, shapes, way, variant, **params)
    others = {key: value for key, value in default(work).items() if key != tunable}
    chosen = [s for s in settings(work, **others) if tunable in s.values]
    if not chosen:
        raise ValueError(
            f"{work.title}: no kernel with a tunable {tunable}; there is {label(default(work)) or 'none'}."
        )
    title = f"{work.title}, by {tunable}"
    times, record = recorded(work.title)
    old = {s.values[tunable]: times[s.label] for s in chosen if s.label in times}
    if why_not("cuda"):
        return Sweep(title, tunable, {}, "", old, record.place if record else "")
    device: Any = get("cuda")
    live = swept(staged(work), chosen)
    new = {s.values[tunable]: live[s.label] for s in chosen}
    return Sweep(title, tunable, new, device.label, old, record.place if record else "")
