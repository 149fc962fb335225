"""The picture of the chip: it fits on the page for any GPU, and its figures are those of the chip and its levels."""

from dataclasses import replace
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from show_pictures import H200, fits

import minigrad as mg
from minigrad import bench
from minigrad.devices.cuda.chip import Chip
from minigrad.lab.bench import record as dated
from minigrad.lab.bench.record import Level

LEVELS = {
    "shared memory": Level(3.26e13, 1.5e-8), "L1": Level(3.1e13, 2.1e-8), "L2": Level(9.24e12, 1.45e-7),
    "global memory": Level(4.6e12, 3.5e-7), "host": Level(5.5e10, None),
}  # fmt: skip
T4 = Chip("Tesla T4", (7, 5), 40, 1.59e9, 3.2e11, 4194304, 65536, 65536, 0, 1024, 16, 15 * 2**30)
CHIPS = {
    "H200": replace(H200, memory=140 * 2**30), "T4": T4, "from an older record": H200,
    "unknown": replace(H200, compute=(99, 0), sms=1), "large": replace(H200, sms=600),
}  # fmt: skip


def drawn(chip):
    return mg.show.chip(bench.Levels(chip.name, "2026-01-02", chip, LEVELS))


@pytest.mark.parametrize("chip", CHIPS.values(), ids=CHIPS)
def test_the_chip_fits_on_the_page(chip):
    picture = drawn(chip)
    fits(picture)
    width, height = picture.figure.get_size_inches()
    assert width == 9.6 and height * 96 <= 600, "a picture, its numbers and a line of text fit on a screen"
    renderer = FigureCanvasAgg(picture.figure).get_renderer()
    places = [text.get_window_extent(renderer) for text in picture.figure.axes[0].texts if text.get_text()]
    assert not any(a.overlaps(b) for a, b in combinations(places, 2)), "a text lies on another one"


def test_its_figures_are_those_of_the_chip():
    picture = drawn(CHIPS["H200"])
    assert "132 multiprocessors" in picture.title
    texts = {text.get_text() for text in picture.figure.axes[0].texts}
    assert {"128 cores", "33,000 GB/s, 15 ns", "9,200 GB/s, 145 ns", "4,600 GB/s, 350 ns", "55 GB/s"} <= texts
    rows = {line[:13].strip(): line[13:].split() for line in picture.numbers.splitlines()}
    assert rows["registers"][:7] == ["64", "K", "x", "4", "bytes", "=", "256"]
    assert rows["registers"][-2:] == ["400,000", "GB/s"]  # 132 x 128 cores x 12 bytes x 1.98 GHz
    assert rows["L2"] == ["60", "MB", "9,200", "GB/s", "145", "ns"]
    assert rows["global memory"][:2] == ["140", "GB"] and rows["host"] == ["55", "GB/s"]
    assert "128 cores, at most 32 blocks and 2048 threads = 64 warps" in picture.numbers
    assert "up to 228 KB in each, a block at most 227 KB" in picture.numbers


def test_each_multiprocessor_is_drawn_once():
    for chip in CHIPS.values():
        squares = [len(c.get_paths()) for c in drawn(chip).figure.axes[0].collections]
        assert squares.count(chip.sms) == 1 and squares.count(32) == 6  # the others are the threads of warps


def test_what_is_not_known_is_left_out():
    unknown, older = (drawn(CHIPS[name]).numbers for name in ("unknown", "from an older record"))
    assert "cores" not in unknown
    assert next(line for line in unknown.splitlines() if line.startswith("registers")).endswith("multiprocessor")
    assert next(line for line in older.splitlines() if line.startswith("global memory")).split()[2:4] == [
        "4,600",
        "GB/s",
    ]


def test_without_a_gpu_it_is_that_of_the_newest_record(monkeypatch, tmp_path):
    monkeypatch.setattr("minigrad.lab.show.processor.why_not", lambda name: "no GPU")
    found = bench.recorded_levels()
    assert (
        mg.show.chip().numbers == mg.show.chip(found).numbers
        and f"{found.device}, {found.date}" in mg.show.chip().numbers
    )
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    with pytest.raises(ValueError, match=r"no record has the levels of memory\. On a GPU: minigrad bench --levels"):
        mg.show.chip()
