"""Text output of a cell: a progress bar on one line, and the message of an error that the page explains.

The bar is text that is rewritten in place: unlike a widget it stays readable in a saved notebook.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

from minigrad.display import Text, folded

T = TypeVar("T")
WIDTH = 30


def progress(items: Sequence[T], label: str = "") -> Iterator[T]:
    """Iterate over `items` and show the number done and the time so far."""
    show, start, total = _writer(), monotonic(), len(items)
    show(_bar(label, 0, total, 0.0))
    for done, item in enumerate(items, 1):
        yield item
        show(_bar(label, done, total, monotonic() - start))


def _bar(label: str, done: int, total: int, seconds: float) -> Text:
    filled = WIDTH * done // total if total else WIDTH
    return Text(f"{label} [{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total}, {seconds:.1f} s")


def _writer() -> Callable[[Text], None]:
    """A function that rewrites a line: in the cell's output, on a terminal, or nothing where neither is there."""
    if "IPython" in sys.modules:  # a notebook has loaded it; the command line need not have it
        from IPython import get_ipython
        from IPython.display import DisplayHandle

        if get_ipython() is not None:
            handle = DisplayHandle()
            handle.display(Text())
            return handle.update
    if sys.stderr.isatty():
        return lambda line: print(f"\r{line}", end="", file=sys.stderr, flush=True)
    return lambda line: None


@contextmanager
def mistake() -> Iterator[None]:
    """`with mg.show.mistake():` prints the error that its body raises, and the page goes on.

    Lines are folded between words; a page would break a long one within a word.
    """
    try:
        yield
    except Exception as error:
        print(folded(f"{type(error).__name__}: {error}"))
