"""Sliders above a picture that follows them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from IPython.core.formatters import format_display_data
from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display
from ipywidgets import Layout, SelectionSlider, VBox

from minigrad.display import LINE, Text, plain
from minigrad.errors import require
from minigrad.lab.show.draw.picture import SCREEN_DPI, Picture, joined

WIDTH, HEIGHT = 830, 660  # pixels of the outputs of a cell in JupyterLab, in a window of 1280 x 800
LEAST = 0.5  # of the size of a picture, where there are too many numbers for the window
SLIDER, GAP, LETTER = 32, 16, 7.9  # pixels: a slider, a distance, and a character of the numbers
# JupyterLab itself says on the page that its kernel is busy, so the picture turns grey without the kernel's help.
STYLE = """<style>
.jp-NotebookPanel:has(.jp-Notebook-ExecutionIndicator[data-status="busy"]) .minigrad-slider {
  opacity: 0.35; filter: grayscale(1); cursor: progress; transition: opacity 0s 0.1s, filter 0s 0.1s;
}
</style>"""
PAGE = '<div class="minigrad-slider" style="display:flex;flex-wrap:wrap;align-items:flex-start;column-gap:16px">'


class Page:
    """A slider's picture with its numbers, or anything that a cell displays, as one output: all of it changes at once.

    The picture is as large as a window of 1280 x 800 allows, with sliders above it, and numbers below or right of it.
    """

    def __init__(self, shown: Any, sliders: int):
        self.shown, self.room = shown, HEIGHT - sliders * SLIDER

    def size(self) -> tuple[int, int]:
        """Width and height of the picture in pixels."""
        width, height = (inches * SCREEN_DPI for inches in self.shown.figure.get_size_inches())
        below, beside = self._numbers()
        scale = max(
            min(LEAST, WIDTH / width),
            min(1, WIDTH / width, (self.room - below) / height),
            min(1, (WIDTH - beside) / width, self.room / height),
        )
        return int(scale * width), int(scale * height)

    def height(self) -> int:
        """The height of the picture with its numbers in pixels, in a window of 1280 x 800."""
        width, height = self.size()
        below, beside = self._numbers()
        return round(max(height, below) if width + beside <= WIDTH else height + below)

    def _numbers(self) -> tuple[float, float]:
        """The room that the numbers take below the picture, and right of it."""
        lines = self.shown.numbers.splitlines()
        return len(lines) * LINE, GAP + max(map(len, lines), default=0) * LETTER

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if isinstance(self.shown, Picture):
            html = self.shown.html(*self.size())
            data: dict[str, Any] = {"text/plain": repr(self.shown)}
        else:
            data, metadata = format_display_data(self.shown)
            if set(data) > {"text/plain"} and "text/html" not in data:  # such as a figure of the reader's own
                return data, metadata
            html = data.get("text/html", plain(repr(self.shown)))
            html = f'<div style="flex:1;min-width:0">{html}</div>'
        return {**data, "text/html": f"{STYLE}{PAGE}{html}</div>"}, {}

    def __repr__(self) -> str:
        return repr(self.shown)


class Slider:
    """Sliders, one for each name, and the picture that `draw(name=value, ...)` returns for their values.

    It is displayed by the cell that creates it, and by any later cell that ends with it. `.value` is the value of the
    first slider, `.values` those of all; setting `.value`, or `.move(BLOCK=64)`, redraws, from any cell.
    """

    def __init__(self, draw: Callable[..., Any], choices: Mapping[str, Sequence[Any]], start: Mapping[str, Any]):
        self.draw = draw
        self.sliders = {
            name: SelectionSlider(
                options=list(options),
                value=start.get(name, options[0]),
                description=name,
                continuous_update=False,
                layout=Layout(width="440px"),
                style={"description_width": "initial"},
            )
            for name, options in choices.items()
        }
        self._output = DisplayHandle()
        self._lock = threading.RLock()  # JupyterLab may call back on another thread while a cell runs
        self._cell = 0
        for slider in self.sliders.values():
            slider.observe(self._redraw, "value")

    @property
    def values(self) -> dict[str, Any]:
        return {name: slider.value for name, slider in self.sliders.items()}

    @property
    def value(self) -> Any:
        return next(iter(self.values.values()))

    @value.setter
    def value(self, wanted: Any) -> None:
        self.move(**{next(iter(self.sliders)): wanted})

    def move(self, **wanted: Any) -> None:
        """Set sliders by name; the picture follows. Raises ValueError for an unknown name or value."""
        for name, value in wanted.items():
            if name not in self.sliders:
                raise ValueError(f"no slider is called {name!r}; there is {joined(list(self.sliders))}.")
            if value not in self.sliders[name].options:
                raise ValueError(f"{name}={value!r} is not on the slider; choose {joined(self.sliders[name].options)}.")
            self.sliders[name].value = value

    def _redraw(self, change: Any) -> None:
        with self._lock:  # the current values, not those of the change: the last one to draw is up to date
            try:
                self._display(self.draw(**self.values), "update")
            except Exception as error:  # JupyterLab hides errors of a callback: show them in place of the picture
                self._display(Text(f"{type(error).__name__}: {error}"), "update")
                raise

    def _display(self, shown: Any, method: str) -> None:
        """Display or update the output, in one message, from any thread."""
        getattr(self._output, method)(Page(shown, len(self.sliders)))

    def show(self) -> "Slider":
        """Show the sliders, and the picture under them; outside of a notebook, nothing."""
        self._cell = _cell()
        if self._cell:
            bundle = VBox(list(self.sliders.values()))._repr_mimebundle_() or {}
            display({**bundle, "text/plain": repr(self)}, raw=True)
            with self._lock:
                self._display(self.draw(**self.values), "display")
        return self

    def _ipython_display_(self) -> None:
        if self._cell != _cell():  # the cell that created it has shown it
            self.show()

    def __repr__(self) -> str:
        parts = []
        for name, options in ((name, slider.options) for name, slider in self.sliders.items()):
            few = joined(options) if len(options) <= 9 else f"{options[0]}, {options[1]}, … {options[-1]}"
            parts.append(f"{name} in {few}")
        return f"Slider: {'; '.join(parts)}. Run the cell to move it."


def _cell() -> int:
    """The number of the cell that is running; 0 outside of a notebook."""
    shell = get_ipython()
    return shell.execution_count if shell else 0


def slider(draw: Callable[..., Any], start: Any = None, **choices: Sequence[Any]) -> Slider:
    """A slider for each name, and `draw(**values)` below: `slider(lambda n: mg.show.threads(k, n), n=(10, 100))`.

    start: the value of the first slider. Raises ValueError where a slider has no values.
    """
    require("slider", draw, Callable, "a function that draws, and values by name")
    for name, values in choices.items():
        require(f"slider: {name}", values, Sequence | np.ndarray, "a list of values")
    if not choices or not all(len(values) for values in choices.values()):
        raise ValueError("slider needs values to choose from, by name: slider(draw, n=(10, 100, 1000)).")
    first = next(iter(choices))
    if start is not None and start not in choices[first]:
        raise ValueError(f"slider: start={start!r:.60} is not on it; choose {joined(list(choices[first]))}.")
    return Slider(draw, choices, {} if start is None else {first: start}).show()
