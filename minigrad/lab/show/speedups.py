"""Speed-ups of recurrent networks from a record: over threads, sizes and ranks, and by rungs of the CUDA ladder."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import LogLocator

from minigrad.display import Text, plural, table
from minigrad.errors import require_word
from minigrad.lab.bench.record import Times
from minigrad.lab.bench.recurrent import RecurrentReport, recorded_recurrent
from minigrad.lab.show.draw.axes import STYLES, frame, name_curves, plain_ticks
from minigrad.lab.show.draw.colours import BLUE, GREY, INK, LIGHT_BLUE, LIGHT_ORANGE, ORANGE, PAPER
from minigrad.lab.show.draw.picture import Picture, box, canvas, rounded, write
from minigrad.recurrent.mpi import SPLITS
from minigrad.recurrent.openmp import RUNGS

AXES = {"hidden": "unit", "batch": "sequence"}
RIVAL, LIMIT, MEETING = "PyTorch", "limit", "limit and barrier"
MODELS: dict[str, tuple[str, Any]] = {
    "ideal": (GREY, ":"), LIMIT: (INK, (0, (1, 3))), MEETING: (GREY, (0, (4, 2))), "hidden, model": (INK, (0, (4, 2))),
}  # fmt: skip
Curves = dict[str, dict[int, float]]  # by name: the height of each place along the axis


def thread_speedups(
    cell: str = "lstm", hidden: int = 512, batch: int = 32, report: RecurrentReport | None = None
) -> Picture | Text:
    """The speed-up of a step by more CPU threads: each rung over `packed` on one, and PyTorch over itself.

    The limit, where the record has it, is over `packed`, too: of the multiplications at the peak, and the weights from
    where they lie; and the same with a barrier a step. Without a report, the newest record; where there is none, a
    sentence.
    """
    source = report or _newest("processor")
    if isinstance(source, Text):
        return source
    title = f"{cell} {hidden}, batch {batch}, float32"
    seconds = _by_name(_of(source, title))
    alone = seconds.pop("packed")[1]
    base = {name: by[1] if name == RIVAL else alone for name, by in seconds.items()}
    curves = {name: {n: base[name] / s for n, s in by.items()} for name, by in seconds.items()}
    curves["ideal"] = {n: float(n) for by in curves.values() for n in by}
    return scaling(f"{title}: speed-up over one thread, on {source.host}", "threads", "speed-up", curves)


def step_times(
    along: str = "hidden", cell: str = "lstm", size: int = 1, report: RecurrentReport | None = None
) -> Picture | Text:
    """Microseconds of a step over "hidden", for `size` sequences, or over "batch", for `size` units.

    The fastest rung on all threads of the record, next to PyTorch, the limit, and the limit with a barrier a step, on
    as many, where the record has them.
    """
    along = require_word("step_times", "along", along, tuple(AXES))
    other = next(name for name in AXES if name != along)
    source = report or _newest("processor")
    if isinstance(source, Text):
        return source
    curves: Curves = {}
    for title, times in source.record.steps.items():
        sizes = _sizes(title, cell)
        if sizes and sizes[other] == size:
            found = _by_name(times)
            most = max(n for by in found.values() for n in by)
            us = {name: by[most] * 1e6 for name, by in found.items() if most in by}
            ours = min(us[name] for name in RUNGS if name in us)
            for name in ("fastest rung", RIVAL, LIMIT, MEETING):
                if name in us or name == "fastest rung":
                    curves.setdefault(name, {})[sizes[along]] = us.get(name, ours)
    if not curves:
        return Text(f"{source.host} has no times of {cell} with {plural(size, AXES[other])}.")
    title = f"{cell}, {plural(size, AXES[other])}: microseconds of a step on {source.host}"
    return scaling(title, f"{AXES[along]}s", "microseconds", curves, log=True)


def rank_speedups(hidden: int = 1024, batch: int = 32, report: RecurrentReport | None = None) -> Picture | Text:
    """The speed-up of a call by more ranks of MPI, for each split, and below the part of it in messages.

    Model of "hidden": the units shared evenly, and the messages as long as they take. PyTorch's is that of as many
    threads over `batch` on one rank, where the record has it.
    """
    source = report or _newest("ranks")
    if isinstance(source, Text):
        return source
    curves: Curves = {}
    notes: list[tuple[str, ...]] = []
    for title, times in source.record.steps.items():
        split = title.rpartition(", ")[2]
        if split in SPLITS and f"H{hidden} B{batch} " in title and "1 rank" in times:
            alone = times["1 rank"].fastest
            calls = {int(label.split()[0]): label for label in times if "messages" not in label}
            curves[split] = {n: alone / times[label].fastest for n, label in calls.items()}
            messages = {n: times[f"{label}, messages"].fastest for n, label in calls.items()}
            parts = (messages[n] / times[label].fastest for n, label in calls.items())
            if split == "hidden":
                curves["hidden, model"] = {n: alone / (alone / n + messages[n]) for n in calls}
            if split == "batch":
                curves |= _torch_threads(source, hidden, batch, alone / int(title.partition(",")[0].rpartition("T")[2]))
            notes.append((f"{split}, of it in messages", *(f"{part:.0%}" for part in parts)))
    if not curves:
        return Text(f"{source.host} has no times of ranks with H{hidden} B{batch}.")
    curves["ideal"] = {n: float(n) for n in next(iter(curves.values()))}
    title = f"LSTM, {hidden} units, batch {batch}: speed-up over one rank, on {source.host}"
    return scaling(title, "ranks", "speed-up", curves, notes=notes)


def sequence_rungs(
    work: str, models: Mapping[str, float] | None = None, report: RecurrentReport | None = None
) -> Picture | Text:
    """A bar for each rung of the GPU's ladder on a whole sequence, and for each mode of PyTorch.

    work: a title of the record, as "LSTM H512 B32 T512, float32". models: seconds by name, drawn as lines.
    """
    source = report or _newest("gpu")
    if isinstance(source, Text):
        return source
    times, models = _of(source, work), models or {}
    rows = [(label, timing.seconds * 1e6) for label, timing in times.items()]
    best = min(rows, key=lambda row: row[1])
    title = f"{work}: {best[0]} takes {best[1]:.0f} us on {source.record.place}"
    figure, axes = canvas(7.5, 1 + 0.3 * len(rows) + 0.2 * len(models), title)
    frame(axes, "microseconds of a sequence", "")
    for y, (label, us) in enumerate(rows):
        fill, edge = (LIGHT_ORANGE, ORANGE) if label.startswith("PyTorch") else (LIGHT_BLUE, BLUE)
        box(axes, 0, y - 0.35, us, 0.7, fill, edgecolor=edge)
    longest = max(us for _, us in rows)
    for line, ((name, seconds), (colour, dash)) in enumerate(zip(models.items(), STYLES[1:], strict=False)):
        axes.axvline(seconds * 1e6, color=colour, linestyle=dash, linewidth=1.8)
        low = len(rows) - 0.2 + 0.45 * line  # below each other: the lines may lie close
        write(axes, seconds * 1e6 + 0.01 * longest, low, name, color=colour, ha="left", bbox=PAPER)
    axes.set(xlim=(0, 1.05 * longest), ylim=(len(rows) - 0.4 + 0.45 * len(models), -0.6), axisbelow=True)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    cells = [*rows, *((f"model: {name}", seconds * 1e6) for name, seconds in models.items())]
    return Picture(figure, title, repr(table([(name, f"{us:.0f}") for name, us in cells], ("by", "us"))))


# --- records ---


def _torch_threads(report: RecurrentReport, hidden: int, batch: int, alone: float) -> Curves:
    """PyTorch's speed-up over these seconds of a step, by threads up to 4; nothing where the record has no times."""
    seconds = _by_name(report.record.steps.get(f"lstm {hidden}, batch {batch}, float32", {})).get(RIVAL, {})
    return {f"{RIVAL}, threads": {n: alone / s for n, s in seconds.items() if n <= 4}} if seconds else {}


def _newest(part: str) -> RecurrentReport | Text:
    """The newest record with that part, or the sentence that there is none."""
    try:
        return recorded_recurrent(part)
    except ValueError as missing:
        return Text(f"{missing}")


def _of(report: RecurrentReport, title: str) -> Times:
    """The times of one network. Raises ValueError with those that there are."""
    if title not in report.record.steps:
        known = [known for known in report.record.steps if (", batch " in known) == (", batch " in title)]
        raise ValueError(f"{report.record.place} has no times of {title!r}; it has {'; '.join(known)}.")
    return report.record.steps[title]


def _by_name(times: Times) -> Curves:
    """Seconds by rung or library, and by its number of threads."""
    found: Curves = {}
    for label, timing in times.items():
        name, _, threads = label.partition(", ")
        if " " in name:
            continue  # a rung with an affinity or a schedule
        found.setdefault({"torch": RIVAL}.get(name, name), {})[int(threads.split()[0])] = timing.fastest
    if barriers := found.pop("barrier", None):
        found[MEETING] = {n: seconds + barriers[n] for n, seconds in found[LIMIT].items()}
    return found


def _sizes(title: str, cell: str) -> dict[str, int] | None:
    """Units and sequences of a title as "lstm 512, batch 32, float32"; None for another cell, or another title."""
    words = title.replace(",", "").split()
    if words[0] != cell or "batch" not in words or "layers" in words:
        return None
    return {"hidden": int(words[1]), "batch": int(words[words.index("batch") + 1])}


def scaling(
    title: str, along: str, up: str, curves: Curves, log: bool = False, notes: Sequence[tuple[str, ...]] = ()
) -> Picture:
    """A curve for each name over the places that any of them has, and the same numbers as a table with more rows.

    curves: heights by place, by name. Places are on a scale with powers of 2; log: heights on one, too.
    """
    places = sorted({place for by in curves.values() for place in by})
    figure, axes = canvas(6.6, 3, title)
    frame(axes, along, up)
    ends = []
    for (name, by), (colour, dash) in zip(curves.items(), _styles(list(curves)), strict=True):
        found = [place for place in places if place in by]
        axes.plot(found, [by[place] for place in found], color=colour, linestyle=dash, linewidth=2, marker="o")
        ends.append((name, by[found[-1]], colour))
    axes.set_xscale("log", base=2)
    axes.set_xticks(places, [str(place) for place in places])
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        plain_ticks(axes.yaxis)
    else:
        axes.set_ylim(0)
    name_curves(axes, ends)
    rows = [(name, *(rounded(by[place]) if place in by else "" for place in places)) for name, by in curves.items()]
    return Picture(figure, title, repr(table([*rows, *notes], (along, *map(str, places)))))


def _styles(names: Sequence[str]) -> list[tuple]:
    """A color and a dash for each curve: dots for what is not measured."""
    drawn = iter(STYLES)
    return [MODELS[name] if name in MODELS else next(drawn) for name in names]
