"""Pictures: their numbers against a count by hand, the same each time, and nothing clipped."""

import base64
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from show_pictures import H200, fits, searched

import minigrad as mg
from minigrad import bench
from minigrad.kernels.kernel import Kernel
from minigrad.lab.show.draw import grid
from minigrad.lab.show.draw.picture import Picture, blank_figure, wrapped

RELU, TRANSPOSE = mg.relu["forward"].using(BLOCK=256), mg.transpose["tiled"]
TILED, NAIVE = (mg.matmul[name].using(TILE=16) for name in ("tiled", "naive"))
LOSSES = [2.5, 0.9, 0.6, 0.02]

MADE = bench.Record("NVIDIA H200", "some day", "minigrad bench", {}, H200, 4e12)
for name, us, flops, nbytes in (("relu", 200, 67e6, 537e6), ("matmul tiled", 250, 2.1e9, 12.6e6), ("exp", 1e3, 0, 1e9)):
    TIMING = bench.Timing(us * 1e-6, us * 1e-6, us * 1e-6, 20)
    MADE.measurements[name] = bench.Measurement(f"{name} of 8", (f"{name}_forward",), TIMING, int(flops), int(nbytes))


@cache
def digits():
    """Images, labels, and predictions of which every 30th is wrong; scikit-learn is imported when they are needed."""
    test = mg.data.digits().test
    wrong = np.where(np.arange(len(test.labels)) % 30 == 3, (test.labels + 1) % 10, test.labels)
    return test.images, test.labels, wrong


PICTURES = {
    "one by one": lambda: mg.show.threads(RELU, 10, BLOCK=4),
    "bands": lambda: mg.show.threads(RELU, 1000),
    "one element": lambda: mg.show.threads(RELU, 1, BLOCK=1024),
    "ragged": lambda: mg.show.threads(RELU, 1025, BLOCK=32),
    "huge": lambda: mg.show.threads(RELU, 2**31 - 1, BLOCK=1024),
    "nothing": lambda: mg.show.threads(RELU, 0),
    "shared work": lambda: mg.show.threads(mg.sum["warp"], 10, 1000),
    "tiles": lambda: mg.show.threads(TILED, 5, 7, 3, TILE=4),
    "rows along x": lambda: mg.show.threads(NAIVE, 40, 30, 20, TILE=8),
    "many tiles": lambda: mg.show.threads(TILED, 1000, 700, 500),
    "no tiles": lambda: mg.show.threads(TILED, 0, 3, 3),
    "gradient": lambda: mg.show.threads(mg.matmul["backward_b"], 40, 30, 20),
    "transpose": lambda: mg.show.threads(TRANSPOSE, 10, 2000, TILE=8),
    "step": lambda: mg.show.matmul(10, 12, 14, TILE=4, step=3),
    "long way": lambda: mg.show.matmul(1000, 1000, 1000, step=31),
    "column by row": lambda: mg.show.broadcast((3, 1), (4,)),
    "three axes": lambda: mg.show.broadcast((2, 3, 4), (3, 1)),
    "numbers": lambda: mg.show.broadcast((), ()),
    "long axis": lambda: mg.show.broadcast((64, 10), 10),
    "row by row": lambda: mg.show.row_major(3, 8),
    "one column": lambda: mg.show.row_major(6, 1, 4, 0),
    "one row": lambda: mg.show.row_major(1, 48, 0, 47),
    "images": lambda: mg.show.images(*digits()),
    "images alone": lambda: mg.show.images(digits()[0].reshape(-1, 8, 8), count=7),
    "colors": lambda: mg.show.images(255 * mg.data.shapes(3, channels=3).images, np.array(["disc", "bar", "ring"])),
    "mistakes": lambda: mg.show.wrong_predictions(*digits(), count=11),
    "no mistakes": lambda: mg.show.wrong_predictions(*digits()[:2], digits()[1]),
    "confusion": lambda: mg.show.confusion(*digits()[1:]),
    "loss": lambda: mg.show.loss_curve(LOSSES),
    "losses": lambda: mg.show.loss_curve({"numpy": LOSSES, "cuda": LOSSES, "sim": [2, 1.5]}, unit="epoch"),
    "step time": lambda: mg.show.step_time(mg.bench.recorded_step("SGD")),
    "one loss": lambda: mg.show.loss_curve([3.0]),
    "tuning": lambda: mg.show.tuning(searched(mg.sum, (2**20,)), BLOCK=64),
    "tuning a tile": lambda: mg.show.tuning(searched(mg.matmul, (1024, 1024), (1024, 1024))),
    "tuning in the dark": lambda: mg.show.tuning(searched(mg.relu, (100,), known=False), BLOCK=1024),
    "roofline": lambda: mg.show.roofline(MADE),
    "roofline of one": lambda: mg.show.roofline(MADE, only=["matmul"]),
    "nan": lambda: mg.show.loss_curve({"numpy": [1.0, float("nan"), 1.0]}),
}


@cache
def drawn(name: str) -> Picture:
    return PICTURES[name]()


@pytest.mark.parametrize("inches", [1, 3, 8, 9.6])
def test_a_title_is_wrapped_by_its_measured_width(inches):
    title = "matmul of 1024 x 1024: COLUMNS=64 WWWWWWWWWWWWWWWWWWWWW takes 58.9 us, iiiiiii times the best $x_1$ of all"
    figure = blank_figure(inches, 4, title)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    area = figure._suptitle.get_window_extent(renderer)
    assert area.x0 >= 0 and area.x1 <= inches * figure.dpi
    lines = figure._suptitle.get_text().split("\n")
    assert "".join(lines).replace(" ", "") == title.replace(" ", "")
    assert figure.get_figheight() == pytest.approx(4 + 0.226 * (len(lines) - 1), rel=0.01)
    for line, after in pairwise(lines):  # no line could hold the next word, too
        joint = " " if f"{line} {after}" in title else ""
        assert len(wrapped(f"{line}{joint}{after.split()[0]}", 0.98 * inches)) == 2


def test_a_picture_has_its_size_whatever_the_reader_has_set():
    (first, _), (second, _) = PICTURES["one loss"]().parts, PICTURES["one loss"]().parts
    with rc_context({"savefig.bbox": "tight"}):
        made = first.png()
    assert made == second.png()


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_a_png_the_same_each_time(name):
    picture, again = drawn(name), PICTURES[name]()
    data, _ = picture.parts[0]._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG") and repr(picture) == repr(again)
    assert name not in ("bands", "tiles", "losses") or data == again.parts[0]._repr_mimebundle_()[0]
    assert data["text/plain"] == picture.title and picture.title in repr(picture)
    assert not re.search("0x|<|Figure", repr(picture)) and repr(picture.parts[1]) == picture.numbers


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_clipped_or_small_print(name):
    fits(drawn(name))


def test_it_draws_without_pyplot_and_a_listing_without_matplotlib():
    code = "import sys, minigrad as mg; mg.relu['forward']._repr_html_(); assert 'matplotlib' not in sys.modules;"
    code += "mg.show.threads(mg.relu['forward'], 9).parts[0].png(); assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_are_imported_at_first_use_and_listed():
    assert {"graph", "threads", "block_slider", "table"} <= set(dir(mg.show))
    assert all(callable(getattr(mg.show, name)) for name in mg.show.__all__)
    with pytest.raises(AttributeError, match=r"no 'thread'; it has .*threads"):
        mg.show.thread  # noqa: B018
    modules = {path.stem for path in Path(mg.show.__file__).parent.glob("*.py")}
    assert not modules & set(mg.show.__all__), "importing the module would replace the function"


def test_a_matrix_lies_in_memory_row_after_row():
    picture = mg.show.row_major(4, 6, 2, 3)
    flat = np.arange(24).reshape(4, 6)
    assert picture.title.endswith(f"number 2 * 6 + 3 = {flat[2, 3]} in memory")
    for line in (flat[2], flat[:, 3]):
        assert " ".join(map(str, line)) in picture.numbers
    for wrong, message in (((7, 7), "49 elements"), ((2, 2, 2, 0), "no element"), ((0, 3), "rows=0")):
        with pytest.raises(ValueError, match=message):
            mg.show.row_major(*wrong)


# --- threads ---


@pytest.mark.parametrize("kernel, sizes", [(RELU, "n"), (TILED, "m n k"), (NAIVE, "m n k"), (TRANSPOSE, "rows cols")])
def test_idle_threads_are_those_that_a_walk_over_the_grid_finds(kernel, sizes):
    tunable, values = next(iter(kernel.tunables.items()))
    for numbers, value in product([(1, 1, 1), (31, 33, 5), (65, 7, 20)], sorted(values)[:2]):
        launch = kernel.launch(*numbers[: len(sizes.split())], **{tunable: value})
        limits = [launch.sizes[span.size] for span in kernel.grid]
        idle = 0
        for place in product(*(range(g * b) for g, b in zip(launch.grid, launch.block, strict=True))):
            idle += any(at >= limit for at, limit in zip(place, limits, strict=False))
        assert grid.idle_threads(launch) == idle
        told = f"{idle} thread" + "s" * (idle != 1)
        assert (told if idle else "every thread has an element") in grid.headline(launch)
        assert f"= {told}" in grid.facts(launch)
    grid_of_batch = ("n/TILE", "m/TILE", "batch")
    stack = Kernel("matmul.cu", "matmul_tiled", grid_of_batch, ("TILE", "TILE"), "m n k batch", TILE=(4,))
    batch = stack.launch(5, 7, 3, batch=3)
    assert grid.idle_threads(batch) == 3 * 29 and "shown  one of 3 equal parts of the grid" in grid.facts(batch)


def test_a_block_is_drawn_with_its_busy_threads_and_long_rows_are_cut():
    axis = grid.element_axes(RELU.launch(1000, BLOCK=256))[0]
    assert [axis.busy(block) for block in range(4)] == [256, 256, 256, 232]
    far = grid.element_axes(RELU.launch(10**6, BLOCK=32))[0]
    assert [slot.block for slot in grid.slots(far.blocks, 5)] == [0, 1, None, 31248, 31249]
    assert [slot.block for slot in grid.slots(far.blocks, 5, keep=9)] == [0, 1, None, 9, None, 31248, 31249]


def test_rows_are_what_the_kernel_calls_row():
    assert [axis.name for axis in grid.rows_and_columns(NAIVE.launch(4, 5, 6))] == ["x", "y"]
    assert [axis.size for axis in grid.rows_and_columns(TILED.launch(4, 5, 6))] == ["m", "n"]
    assert [axis.size for axis in grid.rows_and_columns(mg.matmul["backward_b"].launch(4, 5, 6))] == ["k", "n"]


def test_tiles_save_the_reads_that_a_count_finds():
    m, n, k, tile = 10, 12, 14, 4
    reads = 0
    for row, column, step in product(range(0, m, tile), range(0, n, tile), range(0, k, tile)):
        deep = min(tile, k - step)
        reads += deep * min(tile, m - row) + deep * min(tile, n - column)
    shown = repr(mg.show.matmul(m, n, k, TILE=tile, step=3))
    assert f"{reads}, {2 * m * n * k / reads:.1f} times fewer" in shown and "columns 12 to 13 of a" in shown
    with pytest.raises(ValueError, match="step=4, and a 10 x 12 result over k=14 takes steps 0 to 3"):
        mg.show.matmul(m, n, k, TILE=tile, step=4)
    with pytest.raises(ValueError, match="a 0 x 12 result over k=14 takes no steps"):
        mg.show.matmul(0, n, k, TILE=tile)
    with pytest.raises(ValueError, match="a 10 x 12 result over k=0 takes no steps"):
        mg.show.step_slider(m, n, 0)


# --- broadcast ---


@pytest.mark.parametrize("a, b", [((3, 1), (4,)), ((2, 3, 4), (3, 1)), ((5,), ()), ((2, 2), (2, 2))])
def test_broadcast_numbers_the_elements_as_numpy_repeats_them(a, b):
    shown = mg.show.broadcast(a, b)
    shape = np.broadcast_shapes(a, b)
    wanted = [np.broadcast_to(np.arange(np.prod(s, dtype=int)).reshape(s), shape) for s in (a, b)]
    drawn = {text.get_text() for text in shown.figure.axes[0].texts}
    assert {f"a{i}\nb{j}" for i, j in zip(*(w.ravel() for w in wanted), strict=True)} <= drawn
    assert str(shape) in shown.title


def test_broadcast_says_which_axis_does_not_fit():
    with pytest.raises(ValueError, match=r"\(3, 2\) and \(3,\) do not broadcast: axis 1 is 2 in one and 3"):
        mg.show.broadcast((3, 2), (3,))


def test_a_tuning_tells_time_occupancy_waves_and_choice():
    relu = mg.relu.using("forward")
    shown = mg.show.tuning(searched(relu, (2**20,)), BLOCK=32)
    assert shown.title == "relu of 1048576: BLOCK=32 takes 10.0 us, 0.33 times mg.tune's choice"
    rows = [line.split() for line in shown.numbers.splitlines()]
    assert rows[1] == ["32", "39", "%", "shared", "memory", "9.93", "93", "%", "full", "10.0", "1.00", "x"]
    assert rows[3][-2:] == ["mg.tune's", "choice"] and rows[3][0] == "128"
    assert "recorded on NVIDIA H200, some day" in shown.numbers and ": the limit" in shown.numbers
    blind = mg.show.tuning(searched(relu, (2**20,), known=False))
    assert ": the limit" not in blind.numbers


def test_the_roofline_tells_the_share_of_the_roof():
    shown = mg.show.roofline(MADE)
    slanted, _, *lines = shown.numbers.splitlines()
    rows = {line.split(" of 8")[0]: line.split()[-2:] for line in lines}
    assert slanted == "A copy moves 4000 GB/s; clock and width of the memory allow 4800."
    assert rows == {"relu": ["67", "%"], "matmul tiled": ["13", "%"], "exp": ["25", "%"]}
    with pytest.raises(ValueError, match="has no measurement of softmax"):
        mg.show.roofline(MADE, only=["softmax"])
    assert repr(mg.show.roofline(MADE, only="matmul")) == repr(mg.show.roofline(MADE, only=["matmul"]))
    with pytest.raises(TypeError, match=r"show\.roofline takes a record, e\.g\. mg\.bench\.newest\(\); got int 3"):
        mg.show.roofline(3)
    for start, found in (("matmul", ["matmul tiled"]), ("matmul tiled", ["matmul tiled"]), ("relu of", ["relu"])):
        told = mg.show.roofline(MADE, only=[start]).numbers.splitlines()[2:]
        assert [line.split(" of 8")[0] for line in told] == found
    with pytest.raises(ValueError, match="has no measurement of mat"):
        mg.show.roofline(MADE, only=["mat"])  # whole words


# --- learning ---


def test_confusion_counts_what_a_loop_counts():
    _, labels, wrong = digits()
    counts = np.zeros((10, 10), int)
    for label, said in zip(labels, wrong, strict=True):
        counts[label, said] += 1
    right = int((labels == wrong).sum())
    shown = mg.show.confusion(labels, wrong)
    assert shown.title.startswith(f"{right} of {len(labels)} right, {100 * right / len(labels):.1f} %")
    assert repr(shown) == repr(mg.show.confusion(counts))
    scores = np.eye(10)[wrong]
    assert repr(mg.show.confusion(labels, scores)) == repr(shown)


def test_wrong_predictions_are_the_wrong_ones():
    images, labels, predicted = digits()
    wrong = np.flatnonzero(labels != predicted)
    shown = mg.show.wrong_predictions(images, labels, predicted, count=5)
    assert shown.title == f"{len(wrong)} of {len(labels)} predicted wrongly, 5 shown"
    assert shown.numbers == " | ".join(f"{predicted[i]}, not {labels[i]}" for i in wrong[:5])
    with pytest.raises(ValueError, match=r"images are \(n, height, width\), .* got shape \(2, 7\)"):
        mg.show.images(np.zeros((2, 7)))
    with pytest.raises(ValueError, match="images: count=0 must be a whole number of at least 1"):
        mg.show.images(images, count=0)
    with pytest.raises(ValueError, match="confusion: 1 names for 10 classes"):
        mg.show.confusion(labels, predicted, names=["zero"])
    assert mg.show.confusion([0, 1], [0, 0], names=["a", "b", "never seen"]).numbers.split()[3:] == ["b", "a", "1"]
    assert mg.show.images(images[:3]).title == "3 images"
    assert mg.show.images(images[:3], count=1).title == "1 of 3 images"


def test_the_time_of_a_step_is_the_kernels_and_the_wait_for_the_host():
    found = bench.steps.TrainingStep(
        "a step", "a GPU", "some day",
        {name: bench.Timing(t, t, t, 3) for name, t in {"a": 9e-6, "a, graph": 3e-6, "b": 4e-6, "numpy": 1e-3}.items()},
    )  # fmt: skip
    shown = mg.show.step_time(found)
    assert shown.title == "a: kernels run for 3 of the 9 us of a step, otherwise the GPU waits"
    rows = [line.split() for line in shown.numbers.splitlines()[2:]]
    assert rows == [["a", "9.0", "3.0", "6.0"], ["a,", "graph", "3.0", "3.0", "0.0"]]
    with pytest.raises(ValueError, match="a step was not measured as a graph"):
        mg.show.step_time(replace(found, times={"a": found.times["a"]}))
    with pytest.raises(TypeError, match="recorded_step"):
        mg.show.step_time(3)


@pytest.mark.parametrize("lowest", [1e-2, 1e-4, 1e-14])
def test_a_scale_of_powers_has_ticks(lowest):
    axes = mg.show.loss_curve([1.0, lowest]).figure.axes[0]
    low, high = axes.get_ylim()
    assert sum(low <= tick <= high for tick in axes.yaxis.get_majorticklocs()) >= 3


def test_loss_curves_tell_first_lowest_and_last():
    shown = mg.show.loss_curve({"numpy": LOSSES})
    assert shown.title == "numpy: the loss fell from 2.5 to 0.02 in 4 steps"
    assert shown.numbers.splitlines()[1].split() == ["numpy", "4", "2.5", "0.02", "0.02"]
    assert "the loss is nan at step 2" in PICTURES["nan"]().title
    with pytest.raises(ValueError, match="at least one loss"):
        mg.show.loss_curve([])
