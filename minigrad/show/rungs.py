"""The ladder of matrix multiplication in pictures: what a thread of each rung owns, and how fast it was on a GPU."""

from matplotlib.axes import Axes as Canvas
from matplotlib.colors import ListedColormap
from matplotlib.ticker import FuncFormatter, NullLocator

from minigrad.bench.measurement import Measurement
from minigrad.bench.record import Record, records
from minigrad.show.counts import SIDE, Counts, counted, rungs, settings
from minigrad.show.curves import frame
from minigrad.show.picture import GREY, INK, LIGHT_BLUE, PALE, VERMILLION, Picture, canvas, plural, words
from minigrad.show.roofs import COLOURS
from minigrad.show.sliders import Slider
from minigrad.show.tables import table

HEADERS = ("rung", "arithmetic", "us", "TFLOP/s", "of peak", "x PyTorch")


def rung(name: str = "tiled", n: int = 4096, record: Record | None = None, **values: int) -> Picture:
    """One rung: the elements of c that a block, a warp and a thread make, what they load for it, and how fast it was.

    Owners and loads are seen on `sim`, in the kernel itself. The times are of the record, the newest that has any.
    Raises ValueError where there is no such rung.
    """
    record, values = record or _newest(n), settings(name, n) | values
    counts = counted(name, **values)
    title = f"{name}: {_finding(counts)}"
    figure, axes = canvas(9.6, 4.3, title)
    axes.remove()
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.55))
    _draw_owners(left, counts)
    _draw_ladder(right, _measured(record, n), record, name)
    return Picture(figure, title, "\n".join(_told(name, values, counts, n, record)))


def _finding(counts: Counts | None) -> str:
    if counts is None:
        return "on tensor cores, which only a GPU has"
    loads = (counts.global_loads + counts.shared_loads) / counts.multiplications
    return f"a thread makes {plural(counts.elements, 'element')} of c, with {loads:.2g} loads for each multiplication"


def _told(name: str, values: dict[str, int], counts: Counts | None, n: int, record: Record | None) -> list[str]:
    """The numbers of a rung, and where they are from."""
    told = [", ".join([f"matmul_{name}", *(f"{key}={value}" for key, value in values.items())])]
    if counts:
        per, (rows, columns) = counts.multiplications, counts.tile
        told += [
            f"  a block    {plural(counts.threads, 'thread')} for {rows} x {columns} elements of c,"
            f" {plural(counts.elements, 'element')} for each thread",
            f"  loads      {counts.global_loads / per:.3g} from global memory and {counts.shared_loads / per:.3g} from "
            "shared memory for each multiplication and addition",
            f"  FLOP/byte  {counts.intensity:.3g} for each byte that is fetched from global memory",
        ]
    row = next((row for row in _rows(record, n) if row[0] == name), None)
    time = f"{row[2]} us, {row[3]} TFLOP/s, {row[4]} of peak" if row else "not timed"
    place = record.place if record else "no GPU yet"
    return [*told, f"  time       {time}, {n} x {n}", f"Loads: counted on sim. Times: recorded on {place}."]


def rung_slider(n: int = 4096, record: Record | None = None) -> Slider:
    """A slider over the rungs of the ladder, above the picture of each."""
    draw = rung
    return Slider(lambda rung: draw(rung, n, record), {"rung": rungs()}, {"rung": "tiled"}).show()


def ladder(n: int = 4096, record: Record | None = None) -> Picture:
    """Every rung's speed for n x n matrices, from a record, the newest that has any; dashed: PyTorch's."""
    record = record or _newest(n)
    found = _measured(record, n)
    if not found or record is None:
        raise ValueError(f"no record has the rungs of matmul at {n} x {n}. On a GPU: minigrad bench --only matmul.")
    fastest, slowest = (pick(found.values(), key=lambda m: m.flops_per_second) for pick in (max, min))
    times = fastest.flops_per_second / slowest.flops_per_second
    title = f"The ladder at {n} x {n}: from the foot to the top {times:.0f} times faster, on {record.place}"
    figure, axes = canvas(9.6, 4.6, title)
    _draw_ladder(axes, found, record)
    return Picture(figure, title, repr(table(_rows(record, n), HEADERS)))


def _newest(n: int) -> Record | None:
    """The newest record that has rungs at n x n."""
    return next((record for record in records() if len(_measured(record, n)) > 1), None)


def _measured(record: Record | None, n: int) -> dict[str, Measurement]:
    """The measurement of each rung, by the kernel that was launched."""
    square = sorted(_square(record, n), key=lambda m: len(m.rivals))  # rather one with a rival
    by_kernel = {m.kernels: m for m in square}
    return {name: by_kernel[key] for name in rungs() if (key := (f"matmul_{name}",)) in by_kernel}


def _square(record: Record | None, n: int) -> list[Measurement]:
    """Every product of n x n matrices, whatever kernels made it."""
    of = f" of {n} x {n}, {n} x {n}"
    whole = record.measurements.values() if record else ()
    return [m for m in whole if of in m.title and m.title.startswith("matmul") and "backward" not in m.title]


def _rivals(record: Record | None, n: int) -> dict[str, float]:
    """PyTorch's FLOP/s by the unit that computes. It may have been beside kernels that are no rung."""
    return {m.unit: m.flops / m.rivals["torch"].seconds for m in _square(record, n) if "torch" in m.rivals}


def _rows(record: Record | None, n: int) -> list[tuple[str, ...]]:
    found = _measured(record, n)
    rivals = _rivals(record, n)
    rows: list[tuple[str, ...]] = []
    for name, m in found.items():
        peak = record.chip.peak(m.unit) if record and record.chip else None
        share = f"{100 * m.flops_per_second / peak:.0f} %" if peak else ""
        against = f"{m.flops_per_second / rivals[m.unit]:.2f}" if m.unit in rivals else ""
        speed = f"{m.flops_per_second / 1e12:.2f}"
        rows.append((name, m.unit, f"{m.timing.seconds * 1e6:.1f}", speed, share, against))
    return rows


def _draw_owners(axes: Canvas, counts: Counts | None) -> None:
    """c, with the elements of block 0, of its first warp and of its first thread."""
    axes.set_xticks([])
    axes.set_yticks([])
    if counts is None:
        words(axes, 0.5, 0.5, "Its threads hold pieces of\nsmall matrices, which\nonly a GPU can multiply.")
        axes.set_axis_off()
        return
    colours = ListedColormap(["white", PALE, LIGHT_BLUE, VERMILLION])
    side = min(2 * max(counts.tile), SIDE)  # a small block would be lost in all of c
    axes.imshow(counts.owners[:side, :side], cmap=colours, vmin=0, vmax=3, interpolation="nearest")
    note = f"{side} x {side} elements of c. Grey: a block,\nblue: its first warp, red: its first thread"
    axes.set_xlabel(note, fontsize=10, color=INK)


def _draw_ladder(axes: Canvas, found: dict[str, Measurement], record: Record | None, here: str | None = None) -> None:
    """A bar for each rung that was measured, the first at the foot; the one at `here` is marked."""
    frame(axes, "", "")
    speeds = [m.flops_per_second / 1e12 for m in found.values()]
    axes.grid(visible=False)
    if not speeds:
        words(axes, 0.5, 0.5, "not timed: there is no record")
        return
    edges = [VERMILLION if name == here else "none" for name in found]
    axes.barh(range(len(found)), speeds, 0.72, color=[COLOURS[m.unit] for m in found.values()], edgecolor=edges,
              linewidth=3)  # fmt: skip
    axes.set_yticks(range(len(found)), list(found))
    n = next(iter(found.values())).title.split(" of ")[1].split(" x ")[0]
    units = [m.unit for m in found.values()]
    rivals = {unit: speed / 1e12 for unit, speed in _rivals(record, int(n)).items() if unit in units}
    axes.set_xscale("log")
    axes.set_xlim(min(speeds) / 1.6, max([*speeds, *rivals.values()]) * 4)
    axes.set_ylim(-0.6, len(found) - 0.1)
    for at, speed in enumerate(speeds):
        inside = speed > 4 * min(speeds)
        told, side = f"{speed:.1f}" if speed < 100 else f"{speed:.0f}", "right" if inside else "left"
        words(axes, speed / 1.06 if inside else speed * 1.06, at, told, ha=side, fontsize=10,
              color="white" if inside else INK)  # fmt: skip
    for unit, speed in rivals.items():
        rows = [at for at, each in enumerate(units) if each == unit]
        axes.plot([speed] * 2, [min(rows) - 0.45, max(rows) + 0.45], "--", color=INK, linewidth=1.3)
        words(axes, speed * 1.08, (min(rows) + max(rows)) / 2, f"PyTorch, {unit}", ha="left", fontsize=9, color=GREY)
    axes.set_xlabel(f"TFLOP/s at {n} x {n}, {record.place if record else ''}", fontsize=10, color=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
