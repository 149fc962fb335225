"""Picture: a matplotlib figure with a finding as its title, followed by its numbers as text."""

import base64
import threading
from collections.abc import Sequence
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageChops
from IPython.display import display
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.textpath import text_to_path

from minigrad.display import Text, plain
from minigrad.lab.show.draw.colours import EDGE, FONT, INK

DPI, SCREEN_DPI = 144, 96  # drawn finer than it is shown, for sharp text
WIDTH = 9.6  # inches, of most pictures
TITLE, POINTS = FONT + 2, 72  # the size of a title in points, of which an inch has 72
GRAYS = 64  # levels of a picture without colours
HATCH = {"hatch": "////", "edgecolor": EDGE, "linewidth": 0.8}
_drawing = threading.RLock()  # a slider may draw on another thread than a cell, and fonts are shared


class Image:
    """The figure alone, as PNG; as text its title."""

    def __init__(self, figure: Figure, title: str):
        self.figure, self.title = figure, title

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on a page, in pixels."""
        width, height = (int(inches * SCREEN_DPI) for inches in self.figure.get_size_inches())
        return width, height

    def png(self) -> bytes:
        """The figure as PNG, the same bytes each time."""
        with _drawing, rc_context({"savefig.bbox": "standard"}):
            buffer = BytesIO()
            self.figure.savefig(buffer, format="rgba", dpi=DPI)
            width, height = (int(inches * DPI) for inches in self.figure.get_size_inches())
            few = _few_colours(PIL.Image.frombytes("RGBA", (width, height), buffer.getvalue()).convert("RGB"))
        small = BytesIO()
        few.save(small, "png", optimize=True)  # a third of the size: notebooks are stored with their pictures
        return small.getvalue()

    def __repr__(self) -> str:
        return self.title

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        width, height = self.size
        data = {"image/png": base64.b64encode(self.png()).decode(), "text/plain": self.title}
        return data, {"image/png": {"width": width, "height": height}}


def _few_colours(image: PIL.Image.Image) -> PIL.Image.Image:
    """The image in at most 256 colours; one that is gray throughout, as a photograph, in GRAYS levels, all even."""
    red, green, blue = image.split()
    if any(PIL.ImageChops.difference(red, other).getbbox() for other in (green, blue)):
        return image.quantize(method=PIL.Image.Quantize.FASTOCTREE)
    return red.point([round(round(v * (GRAYS - 1) / 255) * 255 / (GRAYS - 1)) for v in range(256)])


class Picture:
    """A figure and its numbers. In a notebook it shows the figure, then the numbers; as text the title and numbers."""

    def __init__(self, figure: Figure, title: str, numbers: str):
        self.figure, self.title, self.numbers = figure, title, numbers

    @property
    def parts(self) -> tuple[Image, Text]:
        return Image(self.figure, self.title), Text(self.numbers)

    def _ipython_display_(self) -> None:
        for part in self.parts:
            display(part)

    def html(self, width: int, height: int) -> str:
        """The figure in this size, in pixels, and the numbers."""
        png = f"data:image/png;base64,{base64.b64encode(self.parts[0].png()).decode()}"
        image = f'<img src="{png}" alt="{escape(self.title)}" width="{width}" height="{height}">'
        return image + (plain(self.numbers) if self.numbers else "")

    def _repr_html_(self) -> str:
        return self.html(*self.parts[0].size)

    def __repr__(self) -> str:
        return f"{self.title}\n{self.numbers}"


def blank_figure(width: float, height: float, title: str) -> Figure:
    """A white figure, in inches, with its title; each further line of the title makes it taller."""
    lines = wrapped(title, 0.98 * width)
    height += (len(lines) - 1) * TITLE * 1.25 / POINTS
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.08), facecolor="white")
    figure.suptitle("\n".join(lines), fontsize=TITLE, color=INK, x=0.01, ha="left", parse_math=False)
    return figure


def wrapped(title: str, width: float) -> list[str]:
    """The title in lines of at most `width` inches, as its font measures them; a longer word is cut."""
    lines = [""]
    for word in title.split():
        if lines[-1] and _inches(f"{lines[-1]} {word}") > width:
            lines.append("")
        elif lines[-1]:
            word = f" {word}"
        while lines[-1] == "" and _inches(word) > width:
            most = next(n for n in range(len(word) - 1, 0, -1) if n == 1 or _inches(word[:n]) <= width)
            lines[-1:], word = [word[:most], ""], word[most:]
        lines[-1] += word
    return lines


def _inches(text: str) -> float:
    """The width of a title in one line."""
    with _drawing:
        return float(text_to_path.get_text_width_height_descent(text, FontProperties(size=TITLE), False)[0]) / POINTS


def canvas(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    """A figure, in inches, with one set of axes in it without frame or ticks, y downwards."""
    figure = blank_figure(width, height, title)
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.invert_yaxis()
    return figure, axes


def box(axes: Axes, x: float, y: float, width: float, height: float, fill: Any = "white", **style: Any) -> None:
    """A rectangle from its upper left corner. An `idle` one is hatched."""
    defaults: dict[str, Any] = {"facecolor": fill, "edgecolor": INK, "linewidth": 1}
    if style.pop("idle", False):
        defaults |= HATCH
    axes.add_patch(Rectangle((x, y), width, height, **(defaults | style)))


def boxes(axes: Axes, x: Any, y: Any, width: float, height: float, fill: Any, **style: Any) -> None:
    """Many rectangles of one size from their upper left corners, as one collection; fill: one colour, or one each."""
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)])
    shapes = np.stack(np.broadcast_arrays(x, y), -1)[:, None] + corners
    defaults: dict[str, Any] = {"facecolors": fill, "edgecolors": INK, "linewidths": 0.8}
    axes.add_collection(PolyCollection(shapes, **(defaults | style)), autolim=False)


def write(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Text centred on a point."""
    defaults: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": FONT, "color": INK}
    axes.text(x, y, text, **(defaults | style))


def rounded(value: Any) -> str:
    """Three digits of a number."""
    return f"{float(value):.3g}"


def joined(items: Sequence[Any], last: str = "or") -> str:
    """1, 2 or 3."""
    *first, end = map(str, items)
    return f"{', '.join(first)} {last} {end}" if first else end
