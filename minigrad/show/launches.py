"""A launch to look at: which thread has which element, and what another block size changes."""

from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Any

from minigrad import bench
from minigrad.devices import get, why_not
from minigrad.kernel import Kernel
from minigrad.launch import Launch
from minigrad.prose import WIDTH
from minigrad.require import a
from minigrad.show import bands, matrices
from minigrad.show.grid import facts, owned
from minigrad.show.picture import Picture
from minigrad.show.sliders import Slider

SILENT = "absent: there is no GPU here, and sim says nothing about a GPU's speed"


def threads(kernel: Kernel | Launch, *sizes: int, **named: int) -> Picture:
    """Which thread has which element: `threads(mg.relu["forward"], 10, BLOCK=4)`, or of a launch, `threads(launch)`.

    Blocks are bands over a row of elements, or tiles over a matrix; threads without an element are hatched.
    """
    a("threads", kernel, Kernel | Launch, "a kernel and its sizes, or a launch")
    launch = kernel.launch(*sizes, **named) if isinstance(kernel, Kernel) else kernel
    axes = owned(launch)
    if len(axes) == 2:
        return matrices.grid(launch)
    figure, title = bands.bands(launch) if axes else bands.shared(launch)
    return Picture(figure, title, facts(launch))


def block_slider(
    kernel: Kernel,
    *sizes: int | Sequence[int],
    time: Callable[[int], Any] | bench.Sweep | None = None,
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


def measured(time: Callable[[int], Any] | bench.Sweep | None, value: int) -> str:
    """The time for one block size, and whether it is live, recorded or absent."""
    if time is None:
        return "absent: none was asked for"
    if isinstance(time, bench.Sweep):
        return time.at(value) or SILENT
    if why_not("cuda"):
        return SILENT
    device: Any = get("cuda")
    return f"{bench.time(lambda: time(value))} live on {device.label}"
