"""Progress as one line of text that is rewritten in place: it stays readable in a saved notebook, unlike a widget."""

import sys
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import TypeVar

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
