"""A launch as a picture: the threads over their elements, the tiles that a block reads, and sliders over both."""

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minigrad.devices import get, why_not
from minigrad.display import WIDTH as COLUMNS
from minigrad.errors import require
from minigrad.kernels.extents import ceil_div
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.launch import Launch
from minigrad.lab import bench
from minigrad.lab.show.draw import bands
from minigrad.lab.show.draw.colours import BLUE, GREEN, INK, LIGHT_BLUE, LIGHT_GREEN, LIGHT_ORANGE, PALE, VERMILLION
from minigrad.lab.show.draw.grid import Axis, element_axes, facts, headline, idle_threads, rows_and_columns
from minigrad.lab.show.draw.picture import WIDTH, Picture, canvas, write
from minigrad.lab.show.draw.tiles import LARGE, TiledMatrix, block_numbers, draw, mark
from minigrad.lab.show.sliders import Slider
from minigrad.op import OPS

GAP = 0.7
HEIGHT = 6.2  # the largest, in inches
LABEL = 1.3  # inches for the label right of a matrix
NO_GPU = "absent: there is no GPU here, and sim says nothing about a GPU's speed"


def threads(kernel: Kernel | Launch, *sizes: int, **named: int) -> Picture:
    """The threads of a launch over their elements: `threads(mg.relu["forward"], 10, BLOCK=4)` or `threads(launch)`.

    Blocks are bands over a row of elements, or tiles over a matrix; threads without an element are hatched.
    """
    require("threads", kernel, Kernel | Launch, "a kernel and its sizes, or a launch")
    launch = kernel.launch(*sizes, **named) if isinstance(kernel, Kernel) else kernel
    along, title = element_axes(launch), headline(launch)
    if len(along) == 2 and launch.blocks:
        return _over_matrix(launch, title)
    figure, axes = canvas(WIDTH, 2.2 if not along else 2.5 if launch.blocks else 1, title)
    if not along:
        bands.cooperating(axes, launch)
    elif not launch.blocks:
        write(axes, 0.5, 0.5, "Nothing to do.")
    elif along[0].threads <= bands.SQUARES:
        bands.each_thread(axes, along[0])
    else:
        bands.each_block(axes, along[0])
    return Picture(figure, title, facts(launch))


def _over_matrix(launch: Launch, title: str) -> Picture:
    """Threads over a matrix, with the elements that one block reads where the kernel multiplies or transposes."""
    rows, columns = rows_and_columns(launch)
    at = _second_block(rows, columns)
    matrices = [TiledMatrix("threads", rows, columns)]  # the last one lies under the threads
    if (rows.size, columns.size) == ("m", "n") and "k" in launch.sizes:
        matrices = _product(rows, columns, launch.sizes["k"])
    elif launch.kernel.name.startswith("transpose"):
        x = TiledMatrix("x", rows, columns)
        matrices = [TiledMatrix("y", columns, rows, left=x.right + 2.6), x]
    figure, axes = _canvas(matrices, title)
    for matrix in matrices:
        draw(axes, matrix, PALE, threads=matrix is matrices[-1])
    block_numbers(axes, matrices[-1])
    note = _mark_reads(axes, matrices, at)
    mark(axes, matrices[-1], at, LIGHT_ORANGE, VERMILLION, threads=True)
    _thread_arrow(axes, matrices[-1], at)
    return Picture(figure, title, f"{note}\n{facts(launch)}")


def _second_block(rows: Axis, columns: Axis) -> tuple[int, int]:
    """The block to outline: row 1 and column 1, where they exist."""
    return min(1, rows.blocks - 1), min(1, columns.blocks - 1)


def _product(rows: Axis, columns: Axis, k: int, step: int = 0) -> list[TiledMatrix]:
    """a to the left of c and b above it: a tile of c lies where a strip of a meets a strip of b."""
    steps = Axis("", "k", k, rows.per_block, ceil_div(k, rows.per_block))
    a = TiledMatrix("a", rows, steps, keep=(0, step))
    b = TiledMatrix("b", steps, columns, left=a.right + GAP, keep=(step, 0))
    a = TiledMatrix("a", rows, steps, top=b.bottom + GAP, keep=(0, step))
    return [a, b, TiledMatrix("c", rows, columns, left=b.left, top=a.top)]


def _canvas(matrices: Sequence[TiledMatrix], title: str) -> tuple[Figure, Axes]:
    """Axes that hold the matrices and their labels, at one scale both ways."""
    wide, high = max(matrix.right for matrix in matrices), max(matrix.bottom for matrix in matrices)
    unit = min((WIDTH - LABEL) / (wide + 0.5), (HEIGHT - 0.6) / (high + 0.5), 0.8)
    figure, axes = canvas(max(7.2, wide * unit + LABEL + 0.5), high * unit + 1, title)
    axes.set(aspect="equal", anchor="NW", xlim=(-0.5, wide + LABEL / unit), ylim=(high + 0.1, -0.5))
    for matrix in matrices:
        if any(other.left > matrix.right and other.top == matrix.top for other in matrices) and matrix.top > 0:
            write(axes, matrix.left, matrix.top - 0.15, matrix.label(), ha="left", va="bottom", fontsize=LARGE)
        else:
            last = 1 if matrix is matrices[-1] else matrix.busy(matrix.down[-1], matrix.across[-1])[1]
            write(
                axes,
                matrix.right - 1 + last + 0.15,
                (matrix.top + matrix.bottom) / 2,
                matrix.label(),
                ha="left",
                fontsize=LARGE,
            )
    return figure, axes


def _mark_reads(axes: Axes, matrices: Sequence[TiledMatrix], at: tuple[int, int]) -> str:
    """Colour the elements that the outlined block reads; returns the key."""
    rows, columns = matrices[-1].rows, matrices[-1].columns
    x, y = (at[1], at[0]) if columns.name == "x" else at
    note = [
        f"Numbers at the edges: blockIdx.{columns.name} across, blockIdx.{rows.name} down. Hatched: idle threads.",
        f"Outlined in orange: block ({x}, {y}). Its arrow runs along threadIdx.x, from neighbor to neighbor.",
    ]
    if len(matrices) == 3:
        mark(axes, matrices[0], (at[0], None), LIGHT_BLUE, BLUE)
        mark(axes, matrices[1], (None, at[1]), LIGHT_GREEN, GREEN)
        note.append("It reads the blue rows of a and the green columns of b.")
    elif len(matrices) > 1:
        mark(axes, matrices[0], (at[1], at[0]), LIGHT_BLUE, BLUE)
        note.append("It reads its tile of x and writes the blue tile of y.")
    return "\n".join(note)


def _thread_arrow(axes: Axes, matrix: TiledMatrix, at: tuple[int, int]) -> None:
    """An arrow along threadIdx.x in the outlined block."""
    row = next(slot for slot in matrix.down if slot.block == at[0])
    column = next(slot for slot in matrix.across if slot.block == at[1])
    x, y = matrix.left + column.at + 0.12, matrix.top + row.at + 0.12
    ahead = (x + 0.6, y) if matrix.columns.name == "x" else (x, y + 0.6)
    axes.annotate("", ahead, (x, y), arrowprops={"arrowstyle": "->", "lw": 1.8, "color": VERMILLION})


def matmul(m: int, n: int, k: int, TILE: int = 16, step: int = 0) -> Picture:
    """c = a @ b in tiles: the reads of one block of `matmul_tiled` in one step, and the reads that tiles save in all.

    Raises ValueError for a step out of range, LaunchError for an illegal launch.
    """
    launch, steps = _tiled_launch(m, n, k, TILE)
    if step not in steps:
        raise ValueError(f"matmul: step={step}, and a {m} x {n} result over k={k} takes steps 0 to {steps[-1]}.")
    rows, columns = rows_and_columns(launch)
    at = _second_block(rows, columns)
    title = f"step = {step}: a tile of a times a tile of b is added to the tile of c"
    a, b, c = _product(rows, columns, k, step)
    figure, axes = _canvas([a, b, c], title)
    for matrix in (a, b, c):
        draw(axes, matrix, "white")
    mark(axes, a, (at[0], None), PALE, INK)
    mark(axes, b, (None, at[1]), PALE, INK)
    mark(axes, a, (at[0], step), LIGHT_BLUE, BLUE)
    mark(axes, b, (step, at[1]), LIGHT_GREEN, GREEN)
    mark(axes, c, at, LIGHT_ORANGE, VERMILLION)
    return Picture(figure, title, _count_reads(launch, step, at))


def _tiled_launch(m: int, n: int, k: int, TILE: int) -> tuple[Launch, range]:
    """The launch of `matmul_tiled` and its steps. Raises ValueError where there are none."""
    launch = OPS["matmul"].kernels["tiled"].launch(m, n, k, TILE=TILE)
    if 0 in (m, n, k):
        raise ValueError(f"matmul: a {m} x {n} result over k={k} takes no steps; give extents of at least 1.")
    return launch, range(ceil_div(k, TILE))


def _count_reads(launch: Launch, step: int, at: tuple[int, int]) -> str:
    m, n, k, tile = *(launch.sizes[key] for key in "mnk"), launch.values["TILE"]
    naive, tiled = 2 * m * n * k, m * k * ceil_div(n, tile) + k * n * ceil_div(m, tile)
    first, last = step * tile, min((step + 1) * tile, k) - 1
    return (
        f"block ({at[1]}, {at[0]}) makes the orange tile of c. Gray: what it reads in all; blue and green: now.\n"
        f"step = {step}: columns {first} to {last} of a, rows {first} to {last} of b\n"
        f"reads from global memory without tiles: 2 x {m} x {n} x {k} = {naive}\n"
        f"reads with tiles of {tile} x {tile}: {tiled}, {naive / tiled:.1f} times fewer\n"
        f"idle threads: {idle_threads(launch)} of {launch.threads}"
    )


def step_slider(m: int, n: int, k: int, TILE: int = 16) -> Slider:
    """A slider over the steps of a tiled matrix multiplication, above the picture of each."""
    choices = {"step": _tiled_launch(m, n, k, TILE)[1]}
    return Slider(lambda step: matmul(m, n, k, TILE, step), choices, {}).show()


def block_slider(
    kernel: Kernel,
    *sizes: int | Sequence[int],
    time: Callable[[int], Any] | bench.TunableSweep | None = None,
    **named: int | Sequence[int],
) -> Slider:
    """A slider over the kernel's legal block sizes above the picture of its threads: `block_slider(k, 1000)`.

    A size with several values, n=(100, 1000), gets a slider of its own. time launches the kernel with a block size,
    `time=lambda BLOCK: op.using(BLOCK=BLOCK)(x)`, and is timed where there is a GPU; or it is a sweep of `mg.bench`.
    """
    require("block_slider", kernel, Kernel, "a kernel, e.g. mg.relu['forward'], and its sizes")
    if not kernel.tunables or len(sizes) > len(kernel.sizes):
        takes = f"{kernel.name} takes {', '.join([*kernel.sizes, *kernel.tunables]) or 'no sizes'}"
        raise ValueError(f"block_slider needs a kernel with a block size to choose, and its sizes: {takes}.")
    extents = dict(zip(kernel.sizes, sizes, strict=False)) | named
    tunable, start = next(iter(kernel.values.items()))
    several = {key: list(value) for key, value in extents.items() if isinstance(value, Sequence)}
    fixed: dict[str, int] = {key: value for key, value in extents.items() if not isinstance(value, Sequence)}
    choices = {tunable: sorted({start, *kernel.tunables[tunable]}), **several}
    kernel.launch(**fixed, **{key: values[0] for key, values in several.items()})  # an illegal launch raises now

    def picture(**values: int) -> Picture:
        shown = threads(kernel, **fixed, **values)
        line = fill(f"  time   {_timing(time, values[tunable])}", COLUMNS, subsequent_indent=" " * 9)
        return Picture(shown.figure, shown.title, f"{shown.numbers}\n{line}")

    return Slider(picture, choices, {tunable: start}).show()


def _timing(time: Callable[[int], Any] | bench.TunableSweep | None, value: int) -> str:
    """The time for one block size, and its origin: live, recorded or absent."""
    if time is None:
        return "absent: none was asked for"
    if isinstance(time, bench.TunableSweep):
        return time.at(value) or NO_GPU
    if why_not("cuda"):
        return NO_GPU
    device: Any = get("cuda")
    return f"{bench.time(lambda: time(value))} live on {device.label}"
