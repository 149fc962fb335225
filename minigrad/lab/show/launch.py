"""Two-dimensional launches: threads over a matrix, what one block of them reads, and the steps of a tiled matmul."""

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes as Canvas
from matplotlib.figure import Figure

from minigrad.devices import get, why_not
from minigrad.display import WIDTH
from minigrad.errors import a
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch, ceil_div
from minigrad.lab import bench
from minigrad.lab.show.draw import bands
from minigrad.lab.show.draw.grid import Axis, facts, idle, owned, rows_and_columns, verdict
from minigrad.lab.show.draw.picture import (  # fmt: skip
    BLUE,
    GREEN,
    INK,
    LIGHT_BLUE,
    LIGHT_GREEN,
    LIGHT_ORANGE,
    PALE,
    VERMILLION,
    Picture,
    canvas,
    words,
)
from minigrad.lab.show.draw.tiles import Sheet, draw, mark, numbers
from minigrad.lab.show.widgets import Slider
from minigrad.op import OPS

GAP = 0.7
INCHES = 9.6, 6.2  # the widest and the highest
LABEL = 1.3  # inches for the label right of a matrix


def grid(launch: Launch) -> Picture:
    """Threads over a matrix, with what one block reads where the kernel multiplies or transposes."""
    rows, columns = rows_and_columns(launch)
    at = min(1, rows.blocks - 1), min(1, columns.blocks - 1)
    title = verdict(launch)
    if launch.blocks == 0:
        figure, axes = canvas(INCHES[0], 1, title)
        words(axes, 0.5, 0.5, "Nothing to do.")
        return Picture(figure, title, facts(launch))
    sheets = _sheets(launch, rows, columns, at)
    figure, axes = _canvas(sheets, title)
    for sheet in sheets:
        draw(axes, sheet, PALE, threads=sheet is sheets[-1])
    numbers(axes, sheets[-1])
    note = _reads(axes, sheets, launch, at)
    mark(axes, sheets[-1], at, LIGHT_ORANGE, VERMILLION, threads=True)
    _neighbours(axes, sheets[-1], at)
    return Picture(figure, title, f"{note}\n{facts(launch)}")


def _sheets(launch: Launch, rows: Axis, columns: Axis, at: tuple[int, int]) -> list[Sheet]:
    """What to draw, the matrix that the threads lie over last."""
    if _multiplies(launch):
        return multiplication(rows, columns, launch.sizes["k"])
    if launch.kernel.name.startswith("transpose"):
        whole = Sheet("x", rows, columns)
        return [Sheet("y", columns, rows, left=whole.right + 2.6), whole]
    return [Sheet("threads", rows, columns)]


def _multiplies(launch: Launch) -> bool:
    rows, columns = rows_and_columns(launch)
    return (rows.size, columns.size) == ("m", "n") and "k" in launch.sizes


def multiplication(rows: Axis, columns: Axis, k: int, step: int = 0) -> list[Sheet]:
    """a to the left of c and b above it: a tile of c stands where a strip of a meets a strip of b."""
    steps = Axis("", "k", k, rows.piece, ceil_div(k, rows.piece))
    a = Sheet("a", rows, steps, keep=(0, step))
    b = Sheet("b", steps, columns, left=a.right + GAP, keep=(step, 0))
    a = Sheet("a", rows, steps, top=b.bottom + GAP, keep=(0, step))
    return [a, b, Sheet("c", rows, columns, left=b.left, top=a.top)]


def _canvas(sheets: Sequence[Sheet], title: str) -> tuple[Figure, Canvas]:
    """Axes that hold the sheets and their labels, at one scale both ways."""
    wide, high = max(sheet.right for sheet in sheets), max(sheet.bottom for sheet in sheets)
    unit = min((INCHES[0] - LABEL) / (wide + 0.5), (INCHES[1] - 0.6) / (high + 0.5), 0.8)
    figure, axes = canvas(max(7.2, wide * unit + LABEL + 0.5), high * unit + 1, title)
    axes.set_aspect("equal", anchor="NW")
    axes.set_xlim(-0.5, wide + LABEL / unit)
    axes.set_ylim(high + 0.1, -0.5)
    for sheet in sheets:
        if any(other.left > sheet.right and other.top == sheet.top for other in sheets) and sheet.top > 0:
            words(axes, sheet.left, sheet.top - 0.15, sheet.label(), ha="left", va="bottom")
        else:
            words(
                axes,
                (sheet.right if sheet is sheets[-1] else sheet.edge) + 0.15,
                (sheet.top + sheet.bottom) / 2,
                sheet.label(),
                ha="left",
            )
    return figure, axes


def _reads(axes: Canvas, sheets: Sequence[Sheet], launch: Launch, at: tuple[int, int]) -> str:
    """Colour what the outlined block reads, and say so."""
    rows, columns = rows_and_columns(launch)
    x, y = (at[1], at[0]) if columns.name == "x" else at
    note = [
        f"Numbers at the edges: blockIdx.{columns.name} across, blockIdx.{rows.name} down. Hatched: idle threads.",
        f"Outlined in orange: block ({x}, {y}). Its arrow runs along threadIdx.x, from neighbour to neighbour.",
    ]
    if _multiplies(launch):
        mark(axes, sheets[0], (at[0], None), LIGHT_BLUE, BLUE)
        mark(axes, sheets[1], (None, at[1]), LIGHT_GREEN, GREEN)
        note.append("It reads the blue rows of a and the green columns of b.")
    elif len(sheets) > 1:
        mark(axes, sheets[0], (at[1], at[0]), LIGHT_BLUE, BLUE)
        note.append("It reads its tile of x and writes the blue tile of y.")
    return "\n".join(note)


def _neighbours(axes: Canvas, sheet: Sheet, at: tuple[int, int]) -> None:
    """An arrow along threadIdx.x in the outlined block."""
    row = next(slot for slot in sheet.down if slot.block == at[0])
    column = next(slot for slot in sheet.across if slot.block == at[1])
    x, y = sheet.left + column.at + 0.12, sheet.top + row.at + 0.12
    ahead = (x + 0.6, y) if sheet.columns.name == "x" else (x, y + 0.6)
    axes.annotate("", ahead, (x, y), arrowprops={"arrowstyle": "->", "lw": 1.8, "color": VERMILLION})


def matmul(m: int, n: int, k: int, TILE: int = 16, step: int = 0) -> Picture:
    """c = a @ b in tiles: what one block of `matmul_tiled` reads in one step, and how much the tiles save in all.

    Raises ValueError where there is no such step, LaunchError where there is no such launch.
    """
    launch, steps = _stepped(m, n, k, TILE)
    if step not in steps:
        raise ValueError(f"matmul: step={step}, and a {m} x {n} result over k={k} takes steps 0 to {steps[-1]}.")
    rows, columns = rows_and_columns(launch)
    at = min(1, rows.blocks - 1), min(1, columns.blocks - 1)
    title = f"step = {step}: a tile of a times a tile of b is added to the tile of c"
    a, b, c = multiplication(rows, columns, k, step)
    figure, axes = _canvas([a, b, c], title)
    for sheet in (a, b, c):
        draw(axes, sheet, "white")
    mark(axes, a, (at[0], None), PALE, INK)
    mark(axes, b, (None, at[1]), PALE, INK)
    mark(axes, a, (at[0], step), LIGHT_BLUE, BLUE)
    mark(axes, b, (step, at[1]), LIGHT_GREEN, GREEN)
    mark(axes, c, at, LIGHT_ORANGE, VERMILLION)
    return Picture(figure, title, _reads_in_all(launch, step, at))


def _stepped(m: int, n: int, k: int, TILE: int) -> tuple[Launch, range]:
    """The launch of `matmul_tiled` and its steps; refuses what takes none."""
    launch = OPS["matmul"].kernels["tiled"].launch(m, n, k, TILE=TILE)
    if 0 in (m, n, k):
        raise ValueError(f"matmul: a {m} x {n} result over k={k} takes no steps; give extents of at least 1.")
    return launch, range(ceil_div(k, TILE))


def _reads_in_all(launch: Launch, step: int, at: tuple[int, int]) -> str:
    m, n, k, tile = *(launch.sizes[key] for key in "mnk"), launch.values["TILE"]
    naive, tiled = 2 * m * n * k, m * k * ceil_div(n, tile) + k * n * ceil_div(m, tile)
    first, last = step * tile, min((step + 1) * tile, k) - 1
    return "\n".join(
        [
            f"block ({at[1]}, {at[0]}) makes the orange tile of c. Grey: what it reads in all; blue and green: now.",
            f"step = {step}: columns {first} to {last} of a, rows {first} to {last} of b",
            f"reads from global memory without tiles: 2 x {m} x {n} x {k} = {naive}",
            f"reads with tiles of {tile} x {tile}: {tiled}, {naive / tiled:.1f} times fewer",
            f"idle threads: {idle(launch)} of {launch.threads}",
        ]
    )


def step_slider(m: int, n: int, k: int, TILE: int = 16) -> Slider:
    """A slider over the steps of a tiled matrix multiplication, above the picture of each."""
    _, steps = _stepped(m, n, k, TILE)
    return Slider(lambda step: matmul(m, n, k, TILE, step), {"step": steps}, {}).show()


SILENT = "absent: there is no GPU here, and sim says nothing about a GPU's speed"


def threads(kernel: Kernel | Launch, *sizes: int, **named: int) -> Picture:
    """Which thread has which element: `threads(mg.relu["forward"], 10, BLOCK=4)`, or of a launch, `threads(launch)`.

    Blocks are bands over a row of elements, or tiles over a matrix; threads without an element are hatched.
    """
    a("threads", kernel, Kernel | Launch, "a kernel and its sizes, or a launch")
    launch = kernel.launch(*sizes, **named) if isinstance(kernel, Kernel) else kernel
    axes = owned(launch)
    if len(axes) == 2:
        return grid(launch)
    figure, title = bands.bands(launch) if axes else bands.shared(launch)
    return Picture(figure, title, facts(launch))


def block_slider(
    kernel: Kernel,
    *sizes: int | Sequence[int],
    time: Callable[[int], Any] | bench.TunableSweep | None = None,
    **named: int | Sequence[int],
) -> Slider:
    """A slider over the kernel's legal block sizes above the picture of its threads: `block_slider(k, 1000)`.

    A size given as several, n=(100, 1000), gets a slider of its own. time is what launches the kernel for a block size,
    `time=lambda BLOCK: op.using(BLOCK=BLOCK)(x)`, timed on the GPU where there is one; or a sweep of `mg.bench`.
    """
    a("block_slider", kernel, Kernel, "a kernel, e.g. mg.relu['forward'], and its sizes")
    if not kernel.tunables or len(sizes) > len(kernel.sizes):
        raise ValueError(f"block_slider needs a kernel with a block size to choose, and its sizes: {_takes(kernel)}.")
    given = dict(zip(kernel.sizes, sizes, strict=False)) | named
    tunable, start = next(iter(kernel.values.items()))
    several = {key: list(value) for key, value in given.items() if isinstance(value, Sequence)}
    fixed: dict[str, int] = {key: value for key, value in given.items() if not isinstance(value, Sequence)}
    choices = {tunable: sorted({start, *kernel.tunables[tunable]}), **several}
    kernel.launch(**fixed, **{key: values[0] for key, values in several.items()})  # refuse now what cannot be drawn

    def draw(**values: int) -> Picture:
        picture = threads(kernel, **fixed, **values)
        told = fill(f"  time   {measured(time, values[tunable])}", WIDTH, subsequent_indent=" " * 9)
        return Picture(picture.figure, picture.title, f"{picture.numbers}\n{told}")

    return Slider(draw, choices, {tunable: start}).show()


def _takes(kernel: Kernel) -> str:
    return f"{kernel.name} takes {', '.join([*kernel.sizes, *kernel.tunables]) or 'no sizes'}"


def measured(time: Callable[[int], Any] | bench.TunableSweep | None, value: int) -> str:
    """The time for one block size, and whether it is live, recorded or absent."""
    if time is None:
        return "absent: none was asked for"
    if isinstance(time, bench.TunableSweep):
        return time.at(value) or SILENT
    if why_not("cuda"):
        return SILENT
    device: Any = get("cuda")
    return f"{bench.time(lambda: time(value))} live on {device.label}"
