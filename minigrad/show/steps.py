"""The memory of a training step, drawn over its launches."""

from collections.abc import Callable
from typing import Any

from matplotlib.ticker import FuncFormatter, MaxNLocator

from minigrad.show.curves import frame
from minigrad.show.picture import BLUE, FONT, INK, LIGHT_BLUE, LIGHT_ORANGE, Picture, canvas
from minigrad.tensor import Tensor
from minigrad.timeline import timeline


def memory(step: Callable[..., Any], *inputs: Tensor) -> Picture:
    """The bytes in use after each launch of step(*inputs), on `sim`: forward they rise, backward they fall."""
    found = timeline(step, *inputs)
    if not found.kernels:
        raise ValueError("show.memory: the step launched no kernel.")
    top = found.live.index(found.peak) + 1
    title = f"A step of {len(found.kernels)} launches holds at most {found.peak:,} bytes, after launch {top}"
    figure, axes = canvas(8, 3.6, title)
    frame(axes, "launch", "bytes in use")
    marked = [i for i, name in enumerate(found.kernels) if "backward" in name] or [-1]
    back = [marked[0] <= i <= marked[-1] for i in range(len(found.kernels))]  # between them are sums of gradients
    colours = [LIGHT_ORANGE if is_back else LIGHT_BLUE for is_back in back]
    hatches = ["//" if is_back else "" for is_back in back]
    axes.bar(
        range(1, len(found.live) + 1), found.live, 1.0, color=colours, hatch=hatches, edgecolor=BLUE, linewidth=0.5
    )
    axes.annotate(found.kernels[top - 1], (top, found.peak), (0, 4), textcoords="offset points", ha="center",
                  fontsize=FONT - 2, color=INK)  # fmt: skip
    axes.set_ylim(0, found.peak * 1.15)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return Picture(figure, title, f"hatched: the way back\n{found!r}")
