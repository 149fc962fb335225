"""Speed-ups of recurrent networks from a record: over threads, sizes and ranks, and by rungs of the CUDA ladder."""

from collections.abc import Mapping, Sequence

from minigrad.display import Text, table
from minigrad.errors import require_words
from minigrad.lab.bench.record import Times
from minigrad.lab.bench.recurrent import RecurrentReport, recorded_recurrent
from minigrad.lab.show.draw.axes import STYLES, frame, name_curves, plain_ticks
from minigrad.lab.show.draw.colours import BLUE, FONT, GREY, INK, LIGHT_BLUE, LIGHT_ORANGE, ORANGE
from minigrad.lab.show.draw.picture import WIDTH, Picture, box, canvas, rounded, write
from minigrad.recurrent.mpi import SPLITS
from minigrad.recurrent.openmp import RUNGS

CELLS = ("tanh", "lstm", "gru")
Curves = dict[str, dict[int, float]]  # by name: the height of each place along the axis


def thread_speedups(
    cell: str = "lstm", hidden: int = 512, batch: int = 32, report: RecurrentReport | None = None
) -> Picture | Text:
    """How many times as fast a step is on more CPU threads, by rung and by PyTorch, each over its own time on one.

    The limit is that of the record: its multiplications at the peak, its weights at the bandwidth of where they lie.
    Without a report, the newest record; where there is none, a sentence.
    """
    report = report or _newest("processor")
    if isinstance(report, Text):
        return report
    title = f"{cell} {hidden}, batch {batch}, float32"
    times = _of(report, title)
    curves: Curves = {}
    for label, timing in times.items():
        name, _, count = label.partition(", ")
        curves.setdefault(name, {})[int(count.split()[0])] = timing.fastest
    alone = curves.pop("packed", {}).get(1)
    speedups = {
        name: {n: (alone if name in RUNGS and alone else by[1]) / seconds for n, seconds in by.items()}
        for name, by in curves.items()
        if 1 in by
    }
    speedups["ideal"] = {n: float(n) for n in next(iter(speedups.values()))}
    return _picture(f"{title}: speed-up over one thread, on {report.record.place}", "threads", "speed-up", speedups)


def step_times(
    along: str = "hidden", cell: str = "lstm", size: int = 1, report: RecurrentReport | None = None
) -> Picture | Text:
    """Microseconds of a step over "hidden", for `size` sequences, or over "batch", for `size` units.

    The fastest rung on all threads of the record, next to PyTorch and to the limit on as many.
    """
    (along,) = require_words("step_times", "along", along, ("hidden", "batch"))
    report = report or _newest("processor")
    if isinstance(report, Text):
        return report
    curves: Curves = {}
    for title, times in report.record.steps.items():
        sizes = _sizes(title, cell)
        if not sizes or sizes["batch" if along == "hidden" else "hidden"] != size:
            continue
        most = max(int(label.split()[-2]) for label in times)
        last = {
            label.partition(", ")[0]: t.fastest * 1e6 for label, t in times.items() if label.split()[-2] == str(most)
        }
        ours = {"fastest rung": min(us for name, us in last.items() if name in RUNGS)}
        for name, us in (ours | {name: us for name, us in last.items() if name not in RUNGS}).items():
            curves.setdefault({"torch": "PyTorch"}.get(name, name), {})[sizes[along]] = us
    if not curves:
        return Text(
            f"{report.record.place} has no times of {cell} with {size} {'sequences' if along == 'hidden' else 'units'}."
        )
    fixed = f"{size} units" if along == "batch" else f"batch {size}"
    title = f"{cell}, {fixed}: microseconds of a step on {report.record.place}"
    return _picture(title, "units" if along == "hidden" else "sequences", "microseconds", curves, log=True)


def rank_speedups(hidden: int = 1024, batch: int = 32, report: RecurrentReport | None = None) -> Picture | Text:
    """How many times as fast a call is on more ranks of MPI, by split, and with the messages taken off."""
    report = report or _newest("ranks")
    if isinstance(report, Text):
        return report
    curves: Curves = {}
    for title, times in report.record.steps.items():
        split = title.rpartition(", ")[2]
        if split in SPLITS and f"H{hidden} B{batch} " in title and "1 rank" in times:
            alone = times["1 rank"].fastest
            calls = {int(label.split()[0]): label for label in times if "messages" not in label}
            curves[split] = {n: alone / times[label].fastest for n, label in calls.items()}
    if not curves:
        return Text(f"{report.record.place} has no times of ranks with H{hidden} B{batch}.")
    curves["ideal"] = {n: float(n) for n in next(iter(curves.values()))}
    title = f"LSTM, {hidden} units, batch {batch}: speed-up over one rank, on {report.record.place}"
    return _picture(title, "ranks", "speed-up", curves)


def sequence_rungs(
    work: str, models: Mapping[str, float] | None = None, report: RecurrentReport | None = None
) -> Picture | Text:
    """A bar for each rung of the GPU's ladder on a whole sequence, and for each mode of PyTorch.

    work: a title of the record, as "LSTM H512 B32 T512, float32". models: seconds by name, drawn as lines.
    """
    report = report or _newest("gpu")
    if isinstance(report, Text):
        return report
    times, models = _of(report, work), models or {}
    rows = [(label, timing.seconds * 1e6) for label, timing in times.items()]
    best = min(rows, key=lambda row: row[1])
    title = f"{work}: {best[0]} takes {best[1]:.0f} us on {report.record.place}"
    figure, axes = canvas(WIDTH, 1.3 + 0.4 * len(rows), title)
    frame(axes, "microseconds of a sequence", "")
    for y, (label, us) in enumerate(rows):
        fill, edge = (LIGHT_ORANGE, ORANGE) if label.startswith("PyTorch") else (LIGHT_BLUE, BLUE)
        box(axes, 0, y - 0.35, us, 0.7, fill, edgecolor=edge)
    longest = max(us for _, us in rows)
    for (name, seconds), (colour, dash) in zip(models.items(), STYLES[1:], strict=False):
        axes.axvline(seconds * 1e6, color=colour, linestyle=dash, linewidth=1.8)
        write(axes, seconds * 1e6, len(rows) - 0.35, name, fontsize=FONT - 1, color=colour, ha="left")
    axes.set(xlim=(0, 1.05 * longest), ylim=(len(rows) - 0.1, -0.6), axisbelow=True)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    cells = [*rows, *((f"model: {name}", seconds * 1e6) for name, seconds in models.items())]
    return Picture(figure, title, repr(table([(name, f"{us:.0f}") for name, us in cells], ("by", "us"))))


# --- records ---


def _newest(part: str) -> RecurrentReport | Text:
    """The newest record with that part, or the sentence that there is none."""
    try:
        return recorded_recurrent(part)
    except ValueError as missing:
        return Text(f"{missing}")


def _of(report: RecurrentReport, title: str) -> Times:
    """The times of one network. Raises ValueError with those that there are."""
    if title not in report.record.steps:
        raise ValueError(f"{report.record.place} has no times of {title!r}; it has {'; '.join(report.record.steps)}.")
    return report.record.steps[title]


def _sizes(title: str, cell: str) -> dict[str, int] | None:
    """Units and sequences of a title as "lstm 512, batch 32, float32"; None for another cell, or another title."""
    words = title.replace(",", "").split()
    if words[0] != cell or "batch" not in words:
        return None
    return {"hidden": int(words[1]), "batch": int(words[words.index("batch") + 1])}


def _picture(title: str, along: str, up: str, curves: Curves, log: bool = False) -> Picture:
    """A curve for each name over the places that any of them has, and the same numbers as a table."""
    places = sorted({place for by in curves.values() for place in by})
    figure, axes = canvas(8, 3.8, title)
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
        plain_ticks(axes.yaxis)
    else:
        axes.set_ylim(0)
    name_curves(axes, ends)
    rows = [(name, *(rounded(by[place]) if place in by else "" for place in places)) for name, by in curves.items()]
    return Picture(figure, title, repr(table(rows, (along, *map(str, places)))))


def _styles(names: Sequence[str]) -> list[tuple]:
    """A color and a dash for each curve: gray for what is not measured."""
    drawn = iter([*STYLES, (INK, "--")])
    return [(GREY, ":") if name in ("ideal", "limit") else next(drawn) for name in names]
