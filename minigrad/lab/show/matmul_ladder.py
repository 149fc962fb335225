"""The ladder of matmul kernels: the elements and loads of each, counted by the microscope, and its recorded speed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from minigrad.create import ones
from minigrad.display import Table, plural, table
from minigrad.lab.bench.measure import Measurement
from minigrad.lab.bench.record import Record, records
from minigrad.lab.bench.workloads import sizes
from minigrad.lab.show.accesses import split_by_element
from minigrad.lab.show.draw.axes import frame, plain_ticks
from minigrad.lab.show.draw.colours import GREY, INK, LIGHT_BLUE, PALE, UNIT, VERMILLION
from minigrad.lab.show.draw.picture import WIDTH, Picture, blank_figure, box, canvas, write
from minigrad.lab.show.sliders import Slider
from minigrad.microscope import Inspection, watching
from minigrad.op import OPS
from minigrad.ops.matmul.kernels import OF_BFLOAT16, OFF_LADDER, TENSOR_CORES

SIDE, DEPTH = 128, 16  # counted: c is SIDE x SIDE, and DEPTH terms of each of its sums;
WIDE, DEEP = 2 * SIDE, 4 * DEPTH  # on tensor cores SIDE x WIDE, and DEEP terms
NEAR = 96  # columns of c that show the elements of a thread on tensor cores
SPECKS = 40  # rows and columns of c that show elements of a thread of which no two are neighbors
COUNT_HEADERS = ("rung", "a block makes", "a thread", "global loads", "shared loads", "wavefronts", "FLOP/byte")
SPEED_HEADERS = ("rung", "arithmetic", "us", "TFLOP/s", "of peak", "x PyTorch")


def rungs() -> list[str]:
    """The kernels of the ladder, from the bottom to the top."""
    return [name for name in OPS["matmul"].kernels if name not in ("forward", *OFF_LADDER) and "backward" not in name]


def settings(name: str, n: int) -> dict[str, int]:
    """The tunables of a rung for n x n matrices. Raises ValueError for an unknown rung."""
    if name not in rungs():
        raise ValueError(f"the ladder has no rung {name!r}; it has {', '.join(rungs())}.")
    return dict(OPS["matmul"].kernels[name].launch(n, n, n).values)


@dataclass(frozen=True)
class RungCounts:
    """The work of block 0, per multiplication and addition. A load or a multiplication is one instruction of a warp.

    The instruction of a tensor core counts for as many multiplications as a warp without it would need.
    """

    threads: int
    owners: np.ndarray  # of each element of c: 3 for thread 0, 2 for the others of its warp, 1 for its block, else 0
    global_loads: float
    shared_loads: float
    sectors: float  # of the global loads
    wavefronts: float  # of the shared loads

    @property
    def elements(self) -> int:
        """Elements of c that thread 0 computes."""
        return int((self.owners == 3).sum())

    @property
    def intensity(self) -> float:
        """FLOPs per byte that loads from global memory ask for, before the caches: in sectors of 32 bytes."""
        return 2 * 32 / (32 * self.sectors)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of c that the block computes."""
        return needed(self.owners, 1)


def needed(owners: np.ndarray, rank: int) -> tuple[int, int]:
    """The rows and the columns of c in which the first thread (3), its warp (2) or its block (1) has elements.

    For each term of the sum it needs as many numbers of a, and of b.
    """
    own = owners >= rank
    return int(own.any(1).sum()), int(own.any(0).sum())


def by_wgmma(name: str) -> np.ndarray:
    """The owners, as in `RungCounts`, of a rung of wgmma, by the register layout of this instruction.

    A warp accumulates 16 x 256 elements, and each lane holds pairs in two rows. Those of bfloat16 are exchanged between
    lanes before they are stored.
    """
    row, column = np.mgrid[:SIDE, :WIDE]  # a block of these rungs
    period, run = (32, 8) if name in OF_BFLOAT16 else (8, 2)
    return 1 + (row < 16) * (1 + ((row % 8 == 0) & (column % period < run)))


@lru_cache
def counted(name: str, **values: int) -> RungCounts | None:
    """The counts of a rung, inspected on `sim`; None for wgmma, which only a GPU has."""
    if "wgmma" in name:
        return None
    depth = DEEP if name in TENSOR_CORES else DEPTH
    short, long = _inspected(name, depth, values), _inspected(name, 2 * depth, values)
    owner = owners(short)
    multiplications = np.count_nonzero(owner) * depth / 32
    counts = ((more - less) / multiplications for more, less in zip(_loads(long), _loads(short), strict=True))
    return RungCounts(int(np.prod(short.block)), owner, *counts)  # of the loop alone


def _inspected(name: str, depth: int, values: dict[str, int]) -> Inspection:
    """Block 0 of a rung, with sums of `depth` terms."""
    shapes = (SIDE, depth), (depth, WIDE if name in TENSOR_CORES else SIDE)
    dtype = "bfloat16" if name in OF_BFLOAT16 else "float32"
    with watching(blocks=1) as report:
        OPS["matmul"].using(name, **values)(*(ones(*shape, device="sim", dtype=dtype) for shape in shapes))
    return report.launches[0]


def _loads(report: Inspection) -> tuple[int, int, int, int]:
    """Loads from global and from shared memory, sectors of the former, wavefronts of the latter."""
    far, near = ([x for x in report.lines if (x.space, x.kind) == (s, "read")] for s in ("global", "shared"))
    loads = sum(x.requests for x in far), sum(x.requests for x in near)
    return *loads, sum(x.sectors for x in far), sum(x.wavefronts for x in near)


def owners(report: Inspection) -> np.ndarray:
    """The writer of each element of c: as in `RungCounts`."""
    c, stores = report.variables["c"], report.traffic[report.traffic["variable"] == "c"]
    owner = np.zeros(c.size, np.uint8)
    for rank, own in enumerate((stores["thread"] >= 0, stores["thread"] < 32, stores["thread"] == 0), 1):
        owner[split_by_element(stores[own], c.itemsize)["element"]] = rank
    return owner.reshape(c.shape)


def loads(n: int = 4096) -> Table:
    """The loads of each float32 rung per multiplication and addition, for n x n matrices; counted on `sim`.

    Loads are instructions of a warp for each of its multiplications. A wavefront is a pass over shared memory: a
    multiprocessor makes one per clock and can multiply for four warps, so more than 1/4 leaves multipliers idle.
    """
    rows = []
    for name in (name for name in rungs() if name not in TENSOR_CORES):
        if counts := counted(name, **settings(name, n)):
            down, across = counts.tile
            each = counts.global_loads, counts.shared_loads, counts.wavefronts, counts.intensity
            rows.append((name, f"{down} x {across}", str(counts.elements), *(f"{x:.4g}" for x in each)))
    return table(rows, COUNT_HEADERS)


def newest(n: int) -> Record | None:
    """The newest record that has several rungs at n x n."""
    return next((record for record in records() if len(measured(record, n)) > 1), None)


def measured(record: Record | None, n: int) -> dict[str, Measurement]:
    """The measurement of each rung, by the kernel that was launched; one with a rival is preferred."""
    by_kernel = {m.kernels: m for m in sorted(products(record, n), key=lambda m: len(m.rivals))}
    return {name: by_kernel[key] for name in rungs() if (key := (f"matmul_{name}",)) in by_kernel}


def products(record: Record | None, n: int) -> list[Measurement]:
    """Every product of n x n matrices, by any kernels."""
    shapes, all_ = f" of {n} x {n}, {n} x {n}", record.measurements.values() if record else ()
    return [m for m in all_ if shapes in m.title and m.title.startswith("matmul") and "backward" not in m.title]


def pytorch(record: Record | None, n: int) -> dict[str, float]:
    """PyTorch's FLOP/s by arithmetic unit; also from measurements of kernels that are no rung."""
    return {m.unit: m.flops / m.rivals["torch"].seconds for m in products(record, n) if "torch" in m.rivals}


def rows_of(record: Record | None, n: int) -> list[tuple[str, ...]]:
    rivals, rows = pytorch(record, n), list[tuple[str, ...]]()
    for name, m in measured(record, n).items():
        peak, speed = record.chip.peak(m.unit) if record and record.chip else None, m.flops_per_second
        share = f"{100 * speed / peak:.0f} %" if peak else ""
        against = f"{speed / rivals[m.unit]:.2f}" if m.unit in rivals else ""
        rows.append((name, m.unit, f"{m.timing.seconds * 1e6:.1f}", f"{speed / 1e12:.2f}", share, against))
    return rows


def time_of(name: str, n: int, record: Record | None) -> str:
    """The time of a rung, and its speed relative to the rung below."""
    found, below = measured(record, n), ""
    for (own, _, took, speed, share, _), m in zip(rows_of(record, n), found.values(), strict=True):
        if own == name:
            text = f"{took} us for {n} x {n}, {speed} TFLOP/s" + f", {share} of peak" * bool(share)
            faster = found[below].timing.seconds / m.timing.seconds if below else 0
            return f"{text}, {faster:.2f} x as fast as {below}" if below else text
        below = own
    return f"not timed, {n} x {n}"


def rung(name: str = "tiled", n: int = 4096, record: Record | None = None, **values: int) -> Picture:
    """One rung: the elements of c that a block, a warp and a thread compute, their loads, and the recorded speed.

    Owners and loads are counted on `sim`, in the kernel itself; the owners with wgmma follow from the layout of this
    instruction. The times are those of the record, by default the newest that has any; other values than its own
    have none.
    Raises ValueError for an unknown rung.
    """
    record, usual = record or newest(n), settings(name, n)
    values = usual | values
    record = record if values == usual else None  # the record has the times of those alone
    counts, finding = counted(name, **values), "128 elements of c a thread, by wgmma, which only a GPU has"
    if counts:
        loads = f"{counts.global_loads:.3g} global, {counts.shared_loads:.3g} shared loads a multiplication"
        finding = f"{plural(counts.elements, 'element')} of c a thread; {loads}"
    title = f"{name}: {finding}"
    owners = counts.owners if counts else by_wgmma(name)
    figure = blank_figure(WIDTH, 3.8, title)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1))
    _draw_owners(left, owners, corner(name, owners))
    _draw_step(right, name, n, record)
    return Picture(figure, title, _numbers(name, values, counts, owners, n, record))


def corner(name: str, owners: np.ndarray) -> np.ndarray:
    """The first part of c, in which a small block, or the elements of a thread, can be seen."""
    if name in TENSOR_CORES:
        return owners[: 5 * needed(owners, 2)[0] // 4, :NEAR]
    own = owners == 3
    if own.sum() > 1 and not (own[1:] & own[:-1]).any() and not (own[:, 1:] & own[:, :-1]).any():
        return owners[:SPECKS, :SPECKS]
    down, across = needed(owners, 1)
    return owners[: 2 * down, : 2 * across]


def _numbers(
    name: str, values: dict[str, int], counts: RungCounts | None, owners: np.ndarray, n: int, record: Record | None
) -> str:
    lines = [", ".join([f"matmul_{name}", *(f"{key}={value}" for key, value in values.items())])]
    for who, rank in (("thread", 3), ("warp", 2)):
        rows, columns = needed(owners, rank)
        elements = int((owners >= rank).sum())
        lines.append(
            f"  a {who:6s}   {plural(elements, 'element')} of c: each term of the sum takes"
            f" {plural(rows, 'number')} of a and {columns} of b, {rows + columns} for {elements}"
        )
    if counts:
        rows, columns = counts.tile
        lines += [
            f"  a block    {plural(counts.threads, 'thread')} for {rows} x {columns} elements of c",
            f"  loads      {counts.global_loads:.4g} from global memory and {counts.shared_loads:.4g} from "
            "shared memory for each multiplication and addition",
            f"  FLOP/byte  {counts.intensity:.4g} for each byte that loads from global memory ask for, before caches",
        ]
    lines.append(f"  time       {time_of(name, n, record)}")
    origin = f"Times: recorded on {record.place}." if record else "Times: none recorded for these values."
    return "\n".join([*lines, f"Loads: counted on sim. {origin}" if counts else origin])


def rung_slider(n: int = 4096, record: Record | None = None) -> Slider:
    """A slider over the rungs of the ladder, above the picture of each."""
    return Slider(lambda **values: rung(values["rung"], n, record), {"rung": rungs()}, {"rung": "tiled"}).show()


def ladder(n: int = 4096, record: Record | None = None, only: Sequence[str] = ()) -> Picture:
    """Every rung's speed for n x n matrices, from a record, by default the newest that has any; dashed: PyTorch's.

    only: the rungs to show, by default all.
    """
    record = record or newest(n)
    found = {name: m for name, m in measured(record, n).items() if not only or name in only}
    if not found or record is None:
        known = " and ".join(f"{s.inputs[0][0]}" for s in sizes(OPS["matmul"]) if s.backward and not s.variant)
        way_out = f"On a GPU, minigrad bench --only matmul times them at {known}."
        raise ValueError(f"no record has the rungs of matmul at {n} x {n}. {way_out}")
    speeds = [m.flops_per_second for m in found.values()]
    times = max(speeds) / min(speeds)
    way = f"from {next(iter(found))} to {[*found][-1]}" if only else "from the foot to the top"
    title = f"The ladder at {n} x {n}: {way} {times:.0f} times faster, on {record.place}"
    figure, axes = canvas(WIDTH, 1.3 + 0.3 * len(found), title)
    _draw_ladder(axes, n, found, record)
    return Picture(figure, title, repr(table([row for row in rows_of(record, n) if row[0] in found], SPEED_HEADERS)))


def _draw_owners(axes: Axes, owners: np.ndarray, shown: np.ndarray) -> None:
    """c or the first part of it, with the elements of block 0, of its first warp and of its first thread.

    Left of it are the rows of a that they need, above it the columns of b.
    """
    axes.set_axis_off()
    axes.set_aspect("equal")
    colours = ListedColormap(["white", PALE, LIGHT_BLUE, VERMILLION])
    high, wide = shown.shape
    side = max(high, wide)
    gap, deep = 0.06 * side, 0.18 * side
    for picture, left, top, width, height in (
        (shown, 0, 0, wide, high),
        (shown.max(1, keepdims=True), -gap - deep, 0, deep, high),
        (shown.max(0, keepdims=True), 0, -gap - deep, wide, deep),
    ):
        extent = (left, left + width, top + height, top)
        axes.imshow(picture, cmap=colours, vmin=0, vmax=3, interpolation="nearest", extent=extent)
        box(axes, left, top, width, height, "none", linewidth=0.8)
    axes.set(xlim=(-0.32 * side, 1.02 * side), ylim=(high + 0.42 * side, -gap - deep - 1))
    write(axes, -gap - deep / 2, -1.3 * gap, "a", fontsize=10)
    write(axes, -1.3 * gap, -gap - deep / 2, "b", fontsize=10)
    note = f"{_extent(owners, shown)}\nleft: the rows of a, above: the columns of b"
    write(axes, side / 2 - deep / 2, high + 0.15 * side, note, fontsize=10)
    _draw_keys(axes, side, high + 0.31 * side)


def _extent(owners: np.ndarray, shown: np.ndarray) -> str:
    """The part of c that is shown, in words."""
    part, whole = (" x ".join(map(str, each.shape)) for each in (shown, owners))
    size = part if part == whole else f"the first {part} of {whole}"
    return f"c, {size} elements" + "; white: other blocks" * bool((shown == 0).any())


def _draw_keys(axes: Axes, side: float, top: float) -> None:
    """The color of each owner and its name, below a picture that is `side` wide."""
    keys = (-0.32, "a block", PALE), (0.08, "its first warp", LIGHT_BLUE), (0.68, "its first thread", VERMILLION)
    for at, label, colour in keys:
        x = at * side
        box(axes, x, top, 0.05 * side, 0.05 * side, colour, linewidth=0.6)
        write(axes, x + 0.07 * side, top + 0.025 * side, label, ha="left", fontsize=10)


def _draw_step(axes: Axes, name: str, n: int, record: Record | None) -> None:
    """Bars of speed: the rung, the one below it, PyTorch, and the peak of the chip."""
    frame(axes, "", "")
    axes.invert_yaxis()
    axes.grid(visible=False)
    found = measured(record, n)
    if record is None or name not in found:
        axes.set_axis_off()
        write(axes, 0.5, 0.5, "no time recorded for these values")
        return
    names, unit = list(found), found[name].unit
    steps = names[: names.index(name) + 1][-2:]
    bars = [(each, found[each].flops_per_second, UNIT[found[each].unit]) for each in steps]
    bars += [("PyTorch", speed, GREY) for each, speed in pytorch(record, n).items() if each == unit]
    if record.chip and (peak := record.chip.peak(unit)) is not None:
        bars.append((f"{unit}, at most", peak, PALE))
    for at, (_, speed, colour) in enumerate(bars):
        axes.barh([at], [speed / 1e12], 0.72, color=colour, alpha=0.4 if len(steps) == 2 and not at else 1)
        write(axes, speed / 1e12, at, f"  {_short(speed / 1e12)}", ha="left", fontsize=10)
    axes.set_yticks(range(len(bars)), [label for label, *_ in bars])
    axes.set_xlim(0, 1.12 * max(speed for _, speed, _ in bars) / 1e12)
    axes.set_xlabel(f"TFLOP/s at {n} x {n}, {record.place}", fontsize=10, color=INK)


def _short(speed: float) -> str:
    return f"{speed:.1f}" if speed < 100 else f"{speed:.0f}"


def _draw_ladder(axes: Axes, n: int, found: dict[str, Measurement], record: Record) -> None:
    """A bar for each rung that was measured, the first at the bottom."""
    frame(axes, "", "")
    axes.grid(visible=False)
    speeds, units = [m.flops_per_second / 1e12 for m in found.values()], [m.unit for m in found.values()]
    axes.barh(range(len(found)), speeds, 0.72, color=[UNIT[unit] for unit in units])
    axes.set_yticks(range(len(found)), list(found))
    rivals = {unit: speed / 1e12 for unit, speed in pytorch(record, n).items() if unit in units}
    right = max([*speeds, *rivals.values()]) * 4
    left = min(speeds) / (4 if max(speeds) < 20 * min(speeds) else 1.6)  # short bars have no room for a number
    axes.set(xscale="log", xlim=(left, right), ylim=(-0.6, len(found) - 0.1))
    for at, speed in enumerate(speeds):
        x, side, colour = (speed / 1.06, "right", "white") if speed > 3.9 * left else (speed * 1.06, "left", INK)
        write(axes, x, at, _short(speed), ha=side, fontsize=10, color=colour)
    for unit, speed in rivals.items():
        rows = [at for at, each in enumerate(units) if each == unit]
        axes.plot([speed] * 2, [min(rows) - 0.45, max(rows) + 0.45], "--", color=INK, linewidth=1.3)
        write(
            axes,
            speed * 1.08,
            (min(rows) + max(rows)) / 2,
            f"PyTorch, {unit.replace('3xtf32', 'float32')}",
            ha="left",
            fontsize=9,
            color=GREY,
        )
    axes.set_xlabel(f"TFLOP/s at {n} x {n}, {record.place}", fontsize=10, color=INK)
    plain_ticks(axes.xaxis)
