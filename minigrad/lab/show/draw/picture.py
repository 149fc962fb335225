"""Picture: a matplotlib figure with a finding as its title, followed by its numbers as text."""

import base64
import textwrap
import threading
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
import PIL.Image
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle

# Okabe and Ito's colours, told apart by colour-blind readers; a hatch, a dash or a word says the same again.
BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
LIGHT_BLUE, LIGHT_ORANGE, LIGHT_GREEN = "#CFE6F5", "#FBE2B0", "#C5E8DC"
INK, GREY, PALE, RUST = "#1a1a1a", "#6b6b6b", "#e9e9e9", "#9c3f00"  # rust: vermillion, dark enough for letters
PAPER = {"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"}  # under letters on a line
FONT = 11
DPI, SHOWN = 144, 96  # drawn finer than it is shown, for sharp letters
_drawing = threading.RLock()  # a slider may draw on another thread than a cell, and fonts are shared


class Words:
    """Lines of text that show themselves as they are."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


class Image:
    """The figure alone, as PNG; as text its title."""

    def __init__(self, figure: Figure, title: str):
        self.figure, self.title = figure, title

    def png(self) -> bytes:
        """The figure as PNG, the same bytes each time."""
        with _drawing:
            buffer = BytesIO()
            self.figure.savefig(buffer, format="png", dpi=DPI)
            few = PIL.Image.open(buffer).convert("RGB").quantize(method=PIL.Image.Quantize.FASTOCTREE)
        small = BytesIO()
        few.save(small, "png", optimize=True)  # a third of the size: notebooks are stored with their pictures
        return small.getvalue()

    def __repr__(self) -> str:
        return self.title

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        width, height = (int(inches * SHOWN) for inches in self.figure.get_size_inches())
        data = {"image/png": base64.b64encode(self.png()).decode(), "text/plain": self.title}
        return data, {"image/png": {"width": width, "height": height}}


class Picture:
    """A figure and its numbers. In a notebook it shows the figure, then the numbers; as text the title and numbers."""

    def __init__(self, figure: Figure, title: str, numbers: str):
        self.figure, self.title, self.numbers = figure, title, numbers

    @property
    def parts(self) -> tuple[Image, Words]:
        """What is shown: the image, and the words under it."""
        return Image(self.figure, self.title), Words(self.numbers)

    def _ipython_display_(self) -> None:
        for part in self.parts:
            display(part)

    def __repr__(self) -> str:
        return f"{self.title}\n{self.numbers}"


def canvas(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    """A white figure, in inches, with one set of axes in it without frame or ticks, y downwards."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08), facecolor="white")
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.invert_yaxis()
    lines = textwrap.fill(title, int(width * 10))
    figure.suptitle(lines, fontsize=FONT + 2, color=INK, x=0.01, ha="left")
    return figure, axes


def box(axes: Axes, x: float, y: float, width: float, height: float, fill: Any = "white", **style: Any) -> None:
    """A rectangle from its upper left corner. An `idle` one is hatched."""
    settled: dict[str, Any] = {"facecolor": fill, "edgecolor": INK, "linewidth": 1}
    if style.pop("idle", False):
        settled |= {"hatch": "////", "edgecolor": "#9a9a9a", "linewidth": 0.8}
    axes.add_patch(Rectangle((x, y), width, height, **(settled | style)))


def boxes(axes: Axes, x: Any, y: Any, width: float, height: float, fill: Any, **style: Any) -> None:
    """Many rectangles of one size from their upper left corners, drawn as one; fill may be a colour for each."""
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)])
    shapes = np.stack([x, y], -1)[:, None] + corners
    settled: dict[str, Any] = {"facecolors": fill, "edgecolors": INK, "linewidths": 0.8}
    axes.add_collection(PolyCollection(shapes, **(settled | style)), autolim=False)


def strokes(axes: Axes, ends: Any, colour: str) -> None:
    """Thin lines, each from one point to another."""
    axes.add_collection(LineCollection(ends, colors=colour, linewidths=0.7), autolim=False)


def words(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Text centred on a point."""
    settled: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": FONT, "color": INK}
    axes.text(x, y, text, **(settled | style))


def plural(number: int, noun: str, nouns: str = "") -> str:
    """1 block, 2 blocks."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def listed(items: Sequence[Any], last: str = "or") -> str:
    """1, 2 or 3."""
    *most, end = map(str, items)
    return f"{', '.join(most)} {last} {end}" if most else end
