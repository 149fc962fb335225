"""The ladder of matrix multiplication in pictures: what a thread of each rung owns, and how fast it was on a GPU."""

import numpy as np
from matplotlib.axes import Axes as Canvas
from matplotlib.colors import ListedColormap
from matplotlib.ticker import FuncFormatter, NullLocator

from minigrad.bench.measurement import Measurement
from minigrad.bench.record import Record
from minigrad.bench.works import sizes
from minigrad.op import OPS
from minigrad.show.counts import SIDE, Counts, counted, on_tensor_cores, rungs, settings
from minigrad.show.curves import frame
from minigrad.show.picture import GREY, INK, LIGHT_BLUE, PALE, VERMILLION, Picture, canvas, plural, words
from minigrad.show.roofs import COLOURS
from minigrad.show.sliders import Slider
from minigrad.show.tables import table
from minigrad.show.timed import HEADERS, measured, newest, pytorch, rows_of, time_of


def rung(name: str = "tiled", n: int = 4096, record: Record | None = None, **values: int) -> Picture:
    """One rung: the elements of c that a block, a warp and a thread make, what they load for it, and how fast it was.

    Owners and loads are seen on `sim`, in the kernel itself; the owners on tensor cores follow from the layout of their
    instructions. The times are of the record, the newest that has any.
    Raises ValueError where there is no such rung.
    """
    record, values = record or newest(n), settings(name, n) | values
    counts = counted(name, **values)
    title = f"{name}: {_finding(counts)}"
    figure, axes = canvas(9.6, 2.8, title)
    axes.remove()
    left, right = figure.subplots(1, 2, width_ratios=(1, 2))
    _draw_owners(left, counts.owners if counts else on_tensor_cores(name), max(counts.tile) if counts else SIDE)
    _draw_step(right, name, n, record)
    return Picture(figure, title, "\n".join(_told(name, values, counts, n, record)))


def _finding(counts: Counts | None) -> str:
    if counts is None:
        return "128 elements of c a thread, on tensor cores, which only a GPU has"
    far, near = (loads / counts.multiplications for loads in (counts.global_loads, counts.shared_loads))
    loads = f"{far:.3g} global, {near:.3g} shared loads a multiplication"
    return f"{plural(counts.elements, 'element')} of c a thread; {loads}"


def _told(name: str, values: dict[str, int], counts: Counts | None, n: int, record: Record | None) -> list[str]:
    """The numbers of a rung, and where they are from."""
    told = [", ".join([f"matmul_{name}", *(f"{key}={value}" for key, value in values.items())])]
    if counts:
        per, (rows, columns) = counts.multiplications, counts.tile
        told += [
            f"  a block    {plural(counts.threads, 'thread')} for {rows} x {columns} elements of c,"
            f" {plural(counts.elements, 'element')} for each thread",
            f"  loads      {counts.global_loads / per:.4g} from global memory and {counts.shared_loads / per:.4g} from "
            "shared memory for each multiplication and addition",
            f"  FLOP/byte  {counts.intensity:.4g} for each byte that is fetched from global memory",
        ]
    place = f"Times: recorded on {record.place if record else 'no GPU yet'}."
    return [*told, f"  time       {time_of(name, n, record)}", f"Loads: counted on sim. {place}" if counts else place]


def rung_slider(n: int = 4096, record: Record | None = None) -> Slider:
    """A slider over the rungs of the ladder, above the picture of each."""
    draw = rung
    return Slider(lambda rung: draw(rung, n, record), {"rung": rungs()}, {"rung": "tiled"}).show()


def ladder(n: int = 4096, record: Record | None = None) -> Picture:
    """Every rung's speed for n x n matrices, from a record, the newest that has any; dashed: PyTorch's."""
    record = record or newest(n)
    found = measured(record, n)
    if not found or record is None:
        known = " and ".join(f"{s.inputs[0][0]}" for s in sizes(OPS["matmul"]) if s.backward and not s.variant)
        raise ValueError(
            f"no record has the rungs of matmul at {n} x {n}. On a GPU, minigrad bench --only matmul times them "
            f"at {known}."
        )
    fastest, slowest = (pick(found.values(), key=lambda m: m.flops_per_second) for pick in (max, min))
    times = fastest.flops_per_second / slowest.flops_per_second
    title = f"The ladder at {n} x {n}: from the foot to the top {times:.0f} times faster, on {record.place}"
    figure, axes = canvas(9.6, 4.6, title)
    _draw_ladder(axes, found, record)
    return Picture(figure, title, repr(table(rows_of(record, n), HEADERS)))


def _draw_owners(axes: Canvas, owners: np.ndarray, tile: int) -> None:
    """c, with the elements of block 0, of its first warp and of its first thread."""
    axes.set_xticks([])
    axes.set_yticks([])
    colours = ListedColormap(["white", PALE, LIGHT_BLUE, VERMILLION])
    side = min(2 * tile, SIDE)  # a small block would be lost in all of c
    axes.imshow(owners[:side, :side], cmap=colours, vmin=0, vmax=3, interpolation="nearest")
    note = f"{side} x {side} elements of c. Grey: a block,\nblue: its first warp, red: its first thread"
    axes.set_xlabel(note, fontsize=10, color=INK)


def _draw_step(axes: Canvas, name: str, n: int, record: Record | None) -> None:
    """The speed of a rung, beside the rung below, PyTorch's and what the chip could do at most."""
    frame(axes, "", "")
    axes.grid(visible=False)
    found = measured(record, n)
    if record is None or name not in found:
        words(axes, 0.5, 0.5, "not timed: there is no record")
        return
    names, unit = list(found), found[name].unit
    climbed = names[: names.index(name) + 1][-2:]
    bars = [(each, found[each].flops_per_second, COLOURS[found[each].unit]) for each in climbed]
    if (rival := pytorch(record, n).get(unit)) is not None:
        bars.append(("PyTorch", rival, GREY))
    if record.chip and (peak := record.chip.peak(unit)) is not None:
        bars.append((f"{unit}, at most", peak, PALE))
    for at, (_, speed, colour) in enumerate(bars):
        axes.barh([at], [speed / 1e12], 0.72, color=colour, alpha=0.4 if len(climbed) == 2 and not at else 1)
        words(axes, speed / 1e12, at, f"  {_short(speed / 1e12)}", ha="left", fontsize=10, color=INK)
    axes.set_yticks(range(len(bars)), [label for label, *_ in bars])
    axes.set_xlim(0, 1.12 * max(speed for _, speed, _ in bars) / 1e12)
    axes.set_xlabel(f"TFLOP/s at {n} x {n}, {record.place}", fontsize=10, color=INK)


def _short(speed: float) -> str:
    return f"{speed:.1f}" if speed < 100 else f"{speed:.0f}"


def _draw_ladder(axes: Canvas, found: dict[str, Measurement], record: Record | None) -> None:
    """A bar for each rung that was measured, the first at the foot."""
    frame(axes, "", "")
    speeds = [m.flops_per_second / 1e12 for m in found.values()]
    axes.grid(visible=False)
    axes.barh(range(len(found)), speeds, 0.72, color=[COLOURS[m.unit] for m in found.values()])
    axes.set_yticks(range(len(found)), list(found))
    n = next(iter(found.values())).title.split(" of ")[1].split(" x ")[0]
    units = [m.unit for m in found.values()]
    rivals = {unit: speed / 1e12 for unit, speed in pytorch(record, int(n)).items() if unit in units}
    axes.set_xscale("log")
    axes.set_xlim(min(speeds) / 1.6, max([*speeds, *rivals.values()]) * 4)
    axes.set_ylim(-0.6, len(found) - 0.1)
    for at, speed in enumerate(speeds):
        inside = speed > 4 * min(speeds)
        side = "right" if inside else "left"
        words(axes, speed / 1.06 if inside else speed * 1.06, at, _short(speed), ha=side, fontsize=10,
              color="white" if inside else INK)  # fmt: skip
    for unit, speed in rivals.items():
        rows = [at for at, each in enumerate(units) if each == unit]
        axes.plot([speed] * 2, [min(rows) - 0.45, max(rows) + 0.45], "--", color=INK, linewidth=1.3)
        words(axes, speed * 1.08, (min(rows) + max(rows)) / 2, f"PyTorch, {unit}", ha="left", fontsize=9, color=GREY)
    axes.set_xlabel(f"TFLOP/s at {n} x {n}, {record.place if record else ''}", fontsize=10, color=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
