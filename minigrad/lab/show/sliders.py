"""Sliders above a picture that follows them."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display
from ipywidgets import Layout, SelectionSlider, VBox

from minigrad.display import Text
from minigrad.errors import require
from minigrad.lab.show.draw.picture import Picture, joined


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
        self._outputs = DisplayHandle(), DisplayHandle()  # the image, and its numbers below
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
        """Display or update both outputs, from any thread."""
        parts = shown.parts if isinstance(shown, Picture) else (shown, Text())
        for handle, part in zip(self._outputs, parts, strict=True):
            getattr(handle, method)(part)

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
