"""Text output of a cell: a progress bar on one line, and the message of an error that the page explains.

The bar is text that is rewritten in place: unlike a widget it stays readable in a saved notebook.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

from minigrad.display import Text, folded

T = TypeVar("T")
WIDTH = 30
PAUSE = 0.1  # seconds from one update to the next, at least: a page or a terminal takes longer than a small batch
RECENT = 5.0  # seconds over which images a second are counted
BACK, REST = "\r", "\x1b[K"  # on a terminal: to the beginning of the line, and the rest of it is erased


def progress(items: Iterable[T], label: str = "") -> Iterator[T]:
    """Iterate over `items` and show the number done and the time so far.

    `for x, y in mg.show.progress(loader)`: of batches, tuples that begin with images, it also shows the images a second
    in the last 5 seconds, by the clock of the host. In a notebook the bar is an output of the cell; on a terminal it is
    a line of the error stream; elsewhere nothing is shown. Items without a length have no bar.
    """
    total = len(items) if isinstance(items, Sized) else None
    with _line() as show:
        bar = Bar(label, total)
        show(bar.text())
        shown = monotonic()
        for item in items:
            yield item
            bar.count(item)
            if monotonic() - shown >= PAUSE:
                show(bar.text())
                shown = monotonic()
        show(bar.text())


class Bar:
    """The state of a loop as a line of text: what is done, of how many, the time, and images a second."""

    def __init__(self, label: str, total: int | None):
        self.label, self.total, self.done, self.images = label, total, 0, 0
        self._start = monotonic()
        self._recent = deque([(self._start, 0)])  # times, and the images until then

    def count(self, item: Any) -> None:
        """One more item is done; of a batch, its images are."""
        self.done += 1
        shape = getattr(item[0], "shape", ()) if isinstance(item, tuple | list) and item else ()
        self.images += shape[0] if shape else 0
        self._recent.append((now := monotonic(), self.images))
        while len(self._recent) > 2 and now - self._recent[0][0] > RECENT:
            self._recent.popleft()

    def text(self) -> Text:
        """`label [####....] 3/8, 1.2 s, 850 images/s`."""
        (before, images), (now, _) = self._recent[0], self._recent[-1]
        filled = WIDTH * self.done // self.total if self.total else WIDTH
        bar = "" if self.total is None else f"[{'#' * filled}{'.' * (WIDTH - filled)}] "
        of = "" if self.total is None else f"/{self.total}"
        rate = f", {(self.images - images) / (now - before):,.0f} images/s" if self.images and now > before else ""
        return Text(f"{self.label} {bar}{self.done}{of}, {now - self._start:.1f} s{rate}")


@contextmanager
def _line() -> Iterator[Callable[[Text], None]]:
    """A function that rewrites a line: in the cell's output, on a terminal, or nothing where neither is there."""
    if "IPython" in sys.modules:  # a notebook has loaded it; the command line need not have it
        from IPython import get_ipython
        from IPython.display import DisplayHandle

        if get_ipython() is not None:
            handle = DisplayHandle()
            handle.display(Text())
            yield handle.update
            return
    if not sys.stderr.isatty():
        yield lambda line: None
        return
    try:
        yield lambda line: print(f"{BACK}{line}{REST}", end="", file=sys.stderr, flush=True)
    finally:  # what is printed next begins a line of its own
        print(file=sys.stderr)


@contextmanager
def mistake() -> Iterator[None]:
    """`with mg.show.mistake():` prints the error that its body raises, and the page goes on.

    Lines are folded between words; a page would break a long one within a word.
    """
    try:
        yield
    except Exception as error:
        print(folded(f"{type(error).__name__}: {error}"))
