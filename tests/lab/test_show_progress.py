"""The progress bar: what is done, the time, and images a second, in a notebook and on a terminal."""

import io
import sys
from types import SimpleNamespace

import IPython
import numpy as np
import pytest

import minigrad as mg
from minigrad.lab.show import output

BATCHES = [(np.zeros((8, 3)), np.zeros(8)), (np.zeros((8, 3)), np.zeros(8)), (np.zeros((4, 3)), np.zeros(4))]


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves: `clock[0]` is the time."""
    time = [0.0]
    monkeypatch.setattr(output, "monotonic", lambda: time[0])
    return time


@pytest.fixture
def terminal(monkeypatch):
    """The error stream, a terminal."""
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(output, "sys", SimpleNamespace(stderr=stream, modules=sys.modules))  # pytest has its own
    return stream


@pytest.fixture
def cell(monkeypatch):
    """The texts that the output of a cell has shown."""
    shown = []

    class Handle:
        def display(self, text):
            shown.append(repr(text))

        def update(self, text):
            shown.append(repr(text))

    monkeypatch.setattr(IPython, "get_ipython", lambda: "shell")
    monkeypatch.setattr(IPython.display, "DisplayHandle", Handle)
    return shown


def run(items, clock, seconds=0.5, label="train"):
    """The items that come out, each of which takes so many seconds."""
    got = []
    for item in mg.show.progress(items, label):
        clock[0] += seconds
        got.append(item)
    return got


def test_a_loop_over_batches_shows_images_a_second_in_a_notebook(cell, clock):
    assert run(BATCHES, clock) == BATCHES
    assert cell == [
        "",
        f"train [{'.' * 30}] 0/3, 0.0 s",
        f"train [{'#' * 10}{'.' * 20}] 1/3, 0.5 s, 16 images/s",
        f"train [{'#' * 20}{'.' * 10}] 2/3, 1.0 s, 16 images/s",
        f"train [{'#' * 30}] 3/3, 1.5 s, 13 images/s",
        f"train [{'#' * 30}] 3/3, 1.5 s, 13 images/s",
    ]


def test_on_a_terminal_one_line_is_rewritten_and_then_ends(terminal, clock):
    run(BATCHES, clock)
    lines = terminal.getvalue().split("\r")
    assert lines[1].startswith("train [....") and lines[-1] == f"train [{'#' * 30}] 3/3, 1.5 s, 13 images/s\x1b[K\n"
    assert all(line.endswith("\x1b[K") for line in lines[1:-1])


def test_where_nobody_looks_nothing_is_written(monkeypatch, clock, capsys):
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    run(BATCHES, clock)
    assert capsys.readouterr() == ("", "")


def test_items_that_are_no_batches_have_no_images(cell, clock):
    assert run(range(2), clock) == [0, 1] and "images" not in "".join(cell)
    assert run([], clock) == [] and cell[-1] == f"train [{'#' * 30}] 0/0, 0.0 s"
    run([(), ([1, 2], 3), ("word",)], clock)
    assert "images" not in "".join(cell) and cell[-1].endswith("3/3, 1.5 s")


def test_an_iterator_has_no_bar(cell, clock):
    run(iter(BATCHES), clock)
    assert cell[1:] == [
        "train 0, 0.0 s", "train 1, 0.5 s, 16 images/s", "train 2, 1.0 s, 16 images/s", "train 3, 1.5 s, 13 images/s",
        "train 3, 1.5 s, 13 images/s",
    ]  # fmt: skip
    for x, _ in mg.show.progress(mg.data.Loader(np.zeros((10, 2)), np.zeros(10), 4)):
        clock[0] += 1
        assert x.shape[1] == 2
    assert cell[-1] == f" [{'#' * 30}] 3/3, 3.0 s, 3 images/s"


def test_the_rate_is_that_of_the_last_seconds_and_small_batches_are_not_all_shown(cell, clock):
    seconds = [3.0] + [0.01] * 1000
    for _, pause in zip(mg.show.progress([BATCHES[0]] * 1001), seconds, strict=False):
        clock[0] += pause
    assert "8 images/s" not in cell[-1] and cell[-1].endswith("1001/1001, 13.0 s, 800 images/s"), "the first compiles"
    assert 90 < len(cell) < 110


def test_a_loop_that_ends_early_ends_its_line_and_its_batches(terminal, clock):
    closed = []

    def batches():
        try:
            yield from BATCHES
        finally:
            closed.append(True)

    with pytest.raises(ZeroDivisionError):
        for _ in mg.show.progress(batches()):
            1 / 0  # noqa: B018
    assert closed and terminal.getvalue().endswith("\x1b[K\n")
