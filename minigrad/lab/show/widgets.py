"""Progress as one line of text that is rewritten in place: it stays readable in a saved notebook, unlike a widget."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display
from ipywidgets import Layout, SelectionSlider, VBox

from minigrad.display import folded
from minigrad.errors import a
from minigrad.lab.show.draw.picture import Picture, Words, listed

T = TypeVar("T")
WIDTH = 30


class Line:
    """A line of text that shows itself without quotes."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def progress(items: Sequence[T], label: str = "") -> Iterator[T]:
    """Go through `items` and show how many are done and the time so far."""
    show, start, total = _writer(), monotonic(), len(items)
    show(_bar(label, 0, total, 0.0))
    for done, item in enumerate(items, 1):
        yield item
        show(_bar(label, done, total, monotonic() - start))


def _bar(label: str, done: int, total: int, seconds: float) -> Line:
    filled = WIDTH * done // total if total else WIDTH
    return Line(f"{label} [{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total}, {seconds:.1f} s")


def _writer() -> Callable[[Line], None]:
    """How to rewrite a line here: in the cell's output, on a terminal, or not at all where nobody looks."""
    if "IPython" in sys.modules:  # a notebook has loaded it; the command line need not have it
        from IPython import get_ipython
        from IPython.display import DisplayHandle

        if get_ipython() is not None:
            handle = DisplayHandle()
            handle.display(Line(""))
            return handle.update
    if sys.stderr.isatty():
        return lambda line: print(f"\r{line}", end="", file=sys.stderr, flush=True)
    return lambda line: None


@contextmanager
def mistake() -> Iterator[None]:
    """`with mg.show.mistake():` prints the error that the lines below it raise, and the page goes on.

    The lines are cut between words; a page would cut a long one within a word.
    """
    try:
        yield
    except Exception as error:
        print(folded(f"{type(error).__name__}: {error}"))


class Frame:
    """Two outputs below each other, an image and its numbers, which can be replaced later from any thread."""

    def __init__(self) -> None:
        self.handles = DisplayHandle(), DisplayHandle()

    def display(self, shown: Any) -> None:
        """Show it for the first time."""
        for handle, part in zip(self.handles, _parts(shown), strict=True):
            handle.display(part)

    def update(self, shown: Any) -> None:
        """Show it in place of what was there."""
        for handle, part in zip(self.handles, _parts(shown), strict=True):
            handle.update(part)


def _parts(shown: Any) -> tuple[Any, Any]:
    return shown.parts if isinstance(shown, Picture) else (shown, Words(""))


class Slider:
    """Sliders, one for each name, and what `draw(name=value, ...)` makes of their values.

    It shows itself in the cell that makes it, and in any later cell that ends with it. `.value` is the position of the
    first slider, `.values` of all; setting `.value`, or `.move(BLOCK=64)`, redraws, from any cell.
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
        self.frame = Frame()
        self._turn = threading.RLock()  # JupyterLab may call back on another thread while a cell runs
        self._cell = 0
        for slider in self.sliders.values():
            slider.observe(self._redraw, "value")

    @property
    def values(self) -> dict[str, Any]:
        """Where each slider stands."""
        return {name: slider.value for name, slider in self.sliders.items()}

    @property
    def value(self) -> Any:
        """Where the first slider stands."""
        return next(iter(self.values.values()))

    @value.setter
    def value(self, wanted: Any) -> None:
        self.move(**{next(iter(self.sliders)): wanted})

    def move(self, **wanted: Any) -> None:
        """Set sliders by name; the picture follows. Raises ValueError where a slider has no such name or value."""
        for name, value in wanted.items():
            if name not in self.sliders:
                raise ValueError(f"no slider is called {name!r}; there is {listed(list(self.sliders))}.")
            if value not in self.sliders[name].options:
                raise ValueError(f"{name}={value!r} is not on the slider; choose {listed(self.sliders[name].options)}.")
            self.sliders[name].value = value

    def _redraw(self, change: Any) -> None:
        with self._turn:  # the values of now, not those of the change: the last one to draw is up to date
            try:
                self.frame.update(self.draw(**self.values))
            except Exception as error:  # JupyterLab hides what a callback raises: say it where the picture was
                self.frame.update(Words(f"{type(error).__name__}: {error}"))
                raise

    def show(self) -> "Slider":
        """Show the sliders, and the picture under them; in plain Python, where there is no notebook, nothing."""
        self._cell = _cell()
        if self._cell:
            bundle = VBox(list(self.sliders.values()))._repr_mimebundle_() or {}
            display({**bundle, "text/plain": repr(self)}, raw=True)
            with self._turn:
                self.frame.display(self.draw(**self.values))
        return self

    def _ipython_display_(self) -> None:
        if self._cell != _cell():  # it has been shown when it was made
            self.show()

    def __repr__(self) -> str:
        parts = (f"{name} in {_few(slider.options)}" for name, slider in self.sliders.items())
        return f"Slider: {'; '.join(parts)}. Run the cell to move it."


def _few(options: Sequence[Any]) -> str:
    """Many options by the first two and the last."""
    return listed(options) if len(options) <= 9 else f"{options[0]}, {options[1]}, … {options[-1]}"


def _cell() -> int:
    """The number of the cell that is running; 0 outside of a notebook."""
    shell = get_ipython()
    return shell.execution_count if shell else 0


def slider(draw: Callable[..., Any], start: Any = None, **choices: Sequence[Any]) -> Slider:
    """A slider for each name, with what `draw` returns below: `slider(lambda n: mg.show.threads(k, n), n=(10, 100))`.

    draw is called with the values by name. Raises ValueError where there is nothing to choose from.
    """
    a("slider", draw, Callable, "a function that draws, and values by name")
    for name, values in choices.items():
        a(f"slider: {name}", values, Sequence | np.ndarray, "a list of values")
    if not choices or not all(len(values) for values in choices.values()):
        raise ValueError("slider needs values to choose from, by name: slider(draw, n=(10, 100, 1000)).")
    first = next(iter(choices))
    if start is not None and start not in choices[first]:
        raise ValueError(f"slider: start={start!r:.60} is not on it; choose {listed(list(choices[first]))}.")
    return Slider(draw, choices, {} if start is None else {first: start}).show()
