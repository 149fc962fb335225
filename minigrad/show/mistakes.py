"""A mistake made on purpose, and what minigrad says to it."""

from collections.abc import Iterator
from contextlib import contextmanager

from minigrad.prose import folded


@contextmanager
def mistake() -> Iterator[None]:
    """`with mg.show.mistake():` prints the error that the lines below it raise, and the page goes on.

    The lines are cut between words; a page would cut a long one within a word.
    """
    try:
        yield
    except Exception as error:
        print(folded(f"{type(error).__name__}: {error}"))
