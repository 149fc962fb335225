"""Pictures: their numbers against a count by hand, the same each time, nothing clipped, and sliders that follow."""

import base64
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree as ET
from dataclasses import replace
from functools import cache
from html import unescape
from itertools import product

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import minigrad as mg
from minigrad import bench
from minigrad.devices.cuda.chip import Chip
from minigrad.errors import LaunchError
from minigrad.lab.bench.sweeps import settings
from minigrad.lab.bench.work import work_of
from minigrad.lab.show import launch as launches
from minigrad.lab.show import tuning as choices
from minigrad.lab.show import widgets as sliders
from minigrad.lab.show.draw import grid
from minigrad.lab.show.draw import svg as layers
from minigrad.lab.show.draw.picture import Picture
from minigrad.lab.tune.occupancy import key
from minigrad.lab.tune.search import Search

RELU, TRANSPOSE = mg.relu["forward"].using(BLOCK=256), mg.transpose["tiled"]
TILED, NAIVE = (mg.matmul[name].using(TILE=16) for name in ("tiled", "naive"))
DIGITS = mg.data.digits()
LABELS, IMAGES = DIGITS.test.labels, DIGITS.test.images
WRONG = np.where(np.arange(len(LABELS)) % 30 == 3, (LABELS + 1) % 10, LABELS)
LOSSES = [2.5, 0.9, 0.6, 0.02]

H200 = Chip("NVIDIA H200", (9, 0), 132, 1.98e9, 4.8e12, 62914560, 65536, 233472, 1024, 2048, 32)
MADE = bench.Record("NVIDIA H200", "some day", "minigrad bench", {}, H200, 4e12)
for name, us, flops, nbytes in (("relu", 200, 67e6, 537e6), ("matmul tiled", 250, 2.1e9, 12.6e6), ("exp", 1e3, 0, 1e9)):
    TIMING = bench.Timing(us * 1e-6, us * 1e-6, us * 1e-6, 20)
    MADE.measurements[name] = bench.Measurement(f"{name} of 8", (f"{name}_forward",), TIMING, int(flops), int(nbytes))


def searched(op, *shapes, known=True):
    """A search whose settings took 10, 20, 30 ... microseconds, the third being chosen."""
    work = work_of(op, shapes)
    found = settings(work)
    times = {s.label: bench.Timing(t := 1e-5 * (i + 1), t, t, 20) for i, s in enumerate(found)}
    taken = {key(run): (40, 8192, 0) for s in found for run in s.dry.launches} if known else {}
    return Search(work, tuple(found), times, found[2].label, "recorded", "NVIDIA H200, some day", H200, taken)


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
    "images": lambda: mg.show.images(IMAGES, LABELS, WRONG),
    "images alone": lambda: mg.show.images(IMAGES.reshape(-1, 8, 8), count=7),
    "mistakes": lambda: mg.show.wrong_predictions(IMAGES, LABELS, WRONG, count=11),
    "no mistakes": lambda: mg.show.wrong_predictions(IMAGES, LABELS, LABELS),
    "confusion": lambda: mg.show.confusion(LABELS, WRONG),
    "loss": lambda: mg.show.loss_curve(LOSSES),
    "losses": lambda: mg.show.loss_curve({"numpy": LOSSES, "cuda": LOSSES, "sim": [2, 1.5]}, unit="epoch"),
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


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_a_png_the_same_each_time(name):
    picture, again = drawn(name), PICTURES[name]()
    data, _ = picture.parts[0]._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG") and repr(picture) == repr(again)
    assert name not in ("bands", "tiles", "losses") or data == again.parts[0]._repr_mimebundle_()[0]
    assert data["text/plain"] == picture.title and picture.title in repr(picture)
    assert not re.search("0x|<|Figure", repr(picture)) and repr(picture.parts[1]) == picture.numbers


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_is_clipped_or_small_print(name):
    fits(drawn(name))


def fits(picture):
    """Every word lies within the page and can be read."""
    renderer = FigureCanvasAgg(picture.figure).get_renderer()
    picture.figure.draw(renderer)
    page = picture.figure.bbox.padded(1)
    (axes,) = picture.figure.axes
    texts = [*picture.figure.texts, *axes.texts]
    if axes.axison:
        ticks = [(axis, tick) for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_major_ticks()]
        texts += [tick.label1 for axis, tick in ticks if inside(tick.get_loc(), *axis.get_view_interval())]
        texts += [axes.xaxis.label, axes.yaxis.label]
    assert texts
    for text in texts:
        area = text.get_window_extent(renderer)
        assert page.x0 <= area.x0 and area.x1 <= page.x1 and page.y0 <= area.y0 and area.y1 <= page.y1, text
        assert text.get_fontsize() >= 10
    assert picture.figure.get_facecolor() == (1, 1, 1, 1)


def inside(at: float, low: float, high: float) -> bool:
    return min(low, high) <= at <= max(low, high)


def test_it_draws_without_pyplot_and_a_listing_without_matplotlib():
    code = "import sys, minigrad as mg; mg.relu['forward']._repr_html_(); assert 'matplotlib' not in sys.modules;"
    code += "mg.show.threads(mg.relu['forward'], 9).parts[0].png(); assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_are_found_late_and_listed():
    assert {"graph", "threads", "block_slider", "table"} <= set(dir(mg.show))
    assert all(callable(getattr(mg.show, name)) for name in mg.show.__all__)
    with pytest.raises(AttributeError, match=r"no 'thread'; it has .*threads"):
        mg.show.thread  # noqa: B018


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
        assert grid.idle(launch) == idle
        told = f"{idle} thread" + "s" * (idle != 1)
        assert (told if idle else "every thread has an element") in grid.verdict(launch)
        assert f"= {told}" in grid.facts(launch)
    batch = TILED.launch(5, 7, 3, batch=3, TILE=4)
    assert grid.idle(batch) == 3 * 29 and "shown  one of 3 equal parts of the grid" in grid.facts(batch)


def test_a_block_is_drawn_with_its_busy_threads_and_long_rows_are_cut():
    axis = grid.owned(RELU.launch(1000, BLOCK=256))[0]
    assert [axis.busy(block) for block in range(4)] == [256, 256, 256, 232]
    far = grid.owned(RELU.launch(10**6, BLOCK=32))[0]
    assert [slot.block for slot in grid.slots(far, 5)] == [0, 1, None, 31248, 31249]
    assert [slot.block for slot in grid.slots(far, 5, keep=9)] == [0, 1, None, 9, None, 31248, 31249]


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


# --- the tape ---


def scalars():
    a, b = (mg.tensor(value, requires_grad=True, device="numpy") for value in (2.0, -3.0))
    c = a * b
    return a, b, c, (c + 10.0) * b


def test_a_graph_tells_values_and_gradients_and_changes_nothing():
    a, b, c, y = scalars()
    shown = mg.show.graph(y, {"a": a, "b": b}, c=c)
    steps = {step.name: step for step in shown.steps}
    assert shown.title == "The tape behind v2: 3 operations, 2 leaves"
    assert [steps[name].value for name in ("a", "b", "c", "v1", "v2")] == ["2", "-3", "-6", "4", "-12"]
    assert [steps[name].gradient for name in ("a", "b", "c", "v1", "v2")] == ["9", "-2", "-3", "-3", "1"]
    assert shown.formula(steps["v1"]) == "c + constant"
    assert a.grad is None and repr(mg.show.graph(y, {"a": a, "b": b, "c": c, "_": y})) == repr(shown)
    y.backward()
    assert (float(a.grad), float(b.grad)) == (9, -2)
    freed = mg.show.graph(y, locals())
    assert "An earlier backward has freed it" in freed.title and "9 in .grad" in repr(freed)


def test_a_value_that_nobody_holds_is_not_kept():
    a = mg.tensor([1.0, 2.0], requires_grad=True, device="numpy")
    y = (a + a).sum()
    assert [step.value for step in mg.show.graph(y).steps] == ["[1, 2]", "not kept", "6"]
    assert mg.show.graph(a + a).title.endswith("Gradients of v2.sum()")
    seeded = mg.show.graph(a + a, grad=mg.tensor([1.0, 3.0], device="numpy"))
    assert [step.gradient for step in seeded.steps] == ["[2, 6]", "[1, 3]"]
    alone = mg.show.graph(mg.zeros(9, device="numpy"))
    assert [(s.value, s.gradient) for s in alone.steps] == [("9 numbers", "none")]


def deep(layers: int):
    x = mg.ones(4, 8, device="numpy")
    for i in range(layers):
        w, b = (mg.ones(*shape, device="numpy", requires_grad=True) for shape in ((8, 8), (8,)))
        y = (x @ w + b).relu()
        x = y + x if i % 2 else y
    return (x * x).mean()


@pytest.mark.parametrize("tensor", [lambda: mg.ones(3, device="numpy"), lambda: scalars()[3], lambda: deep(9)])
def test_a_drawing_is_svg_without_overlaps_and_the_same_each_time(tensor):
    tensor = tensor()
    svg = mg.show.graph(tensor).svg
    root = ET.fromstring(svg)
    assert svg == mg.show.graph(tensor).svg == mg.show.graph(tensor)._repr_mimebundle_()["image/svg+xml"]
    width, height = int(root.get("width")), int(root.get("height"))
    page, *boxes = [
        [float(r.get(k, 0)) for k in ("x", "y", "width", "height")] for r in root.iter() if r.tag[-4:] == "rect"
    ]
    assert page[2:] == [width, height] and len(boxes) >= len(mg.show.graph(tensor).steps)
    assert all(x >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    for i, (x, y, w, h) in enumerate(boxes):
        for u, v, s, t in boxes[:i]:
            assert x + w <= u or u + s <= x or y + h <= v or v + t <= y


def test_every_node_lies_below_its_inputs_and_a_chain_is_straight():
    plan = layers.layout([[], [0], [1], [2, 0]], [50, 60, 70, 80])
    level = {item.node: depth for depth, layer in enumerate(plan.layers) for item in layer if item.node is not None}
    assert [level[node] for node in range(4)] == [0, 1, 2, 3]
    assert len(plan.lines[3, 1]) == 4  # two bends on the way past two layers
    chain = layers.layout([[], [0], [1]], [50, 60, 70])
    assert len({item.x for layer in chain.layers for item in layer}) == 1


# --- sliders ---


@pytest.fixture
def screen(monkeypatch):
    """What is displayed: the outputs in order, an update in its place."""
    shown, place = [], {}

    class Handle:
        def display(self, part):
            place[self] = len(shown)
            shown.append(part)

        def update(self, part):
            shown[place[self]] = part

    monkeypatch.setattr(sliders, "DisplayHandle", Handle)
    monkeypatch.setattr(sliders, "_cell", lambda: 7)
    monkeypatch.setattr(sliders, "display", lambda bundle, raw: shown.append(bundle["text/plain"]))
    return shown


def test_moving_the_slider_replaces_image_and_numbers(screen, monkeypatch):
    slider = mg.show.block_slider(RELU, 1000)
    assert screen[0] == "Slider: BLOCK in 32, 64, 128, 256, 512 or 1024. Run the cell to move it."
    assert slider.value == 256 and repr(screen[1]) == "relu_forward: 4 blocks of 256 threads, 24 threads idle"
    slider.value = 32
    assert len(screen) == 3 and repr(screen[1]) == "relu_forward: 32 blocks of 32 threads, 24 threads idle"
    assert "1024 - 1000 = 24 threads" in repr(screen[2]) and "time   absent" in repr(screen[2])
    slider._ipython_display_()
    assert len(screen) == 3  # the cell that made it has shown it
    monkeypatch.setattr(sliders, "_cell", lambda: 8)
    slider._ipython_display_()
    assert len(screen) == 6
    slider.sliders["BLOCK"].value = 1024  # as the mouse does
    assert "1 block of 1024" in repr(screen[4])


def test_an_error_while_drawing_is_shown_and_raised(screen):
    slider = mg.show.slider(lambda n: Picture(None, "fine", "") if n else 1 // n, n=(2, 1, 0))
    with pytest.raises(ZeroDivisionError):
        slider.move(n=0)
    assert repr(screen[1]).startswith("ZeroDivisionError: ") and repr(screen[2]) == ""
    slider.move(n=1)
    assert repr(screen[1]) == "fine"
    with pytest.raises(ValueError, match="n=3 is not on the slider; choose 2, 1 or 0"):
        slider.value = 3
    with pytest.raises(ValueError, match="no slider is called 'm'; there is n"):
        slider.move(m=3)


def test_sliders_for_size_and_step(screen):
    slider = mg.show.block_slider(RELU, n=(10, 1000))
    slider.move(n=1000, BLOCK=512)
    assert slider.values == {"BLOCK": 512, "n": 1000} and "1024 - 1000 = 24" in repr(screen[2])
    with pytest.raises(ValueError, match="relu_forward takes n, BLOCK"):
        mg.show.block_slider(RELU, 10, 20)
    with pytest.raises(LaunchError, match="n is missing"):
        mg.show.block_slider(RELU)
    with pytest.raises(LaunchError, match="n, k are missing"):
        mg.matmul["tiled"].launch(10)
    steps = mg.show.step_slider(10, 12, 14, TILE=4)
    assert list(steps.sliders["step"].options) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="slider needs values"):
        mg.show.slider(print)


def test_callbacks_on_other_threads_end_with_the_values_of_now(screen):
    slider = mg.show.block_slider(RELU, 1000)
    movers = [threading.Thread(target=slider.move, kwargs={"BLOCK": b}) for b in RELU.tunables["BLOCK"] * 2]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()
    assert f"of {slider.value} threads" in repr(screen[1]) and f"BLOCK={slider.value})" in repr(screen[2])


def test_a_time_says_where_it_comes_from(monkeypatch):
    timing = bench.Timing(1e-5, 1e-5, 1e-5, 20)
    sweep = bench.TunableSweep("relu", "BLOCK", {}, "", {32: timing}, "some GPU, some day")
    monkeypatch.setattr(launches, "why_not", lambda name: "no GPU")
    assert launches.measured(sweep, 32).startswith(f"{timing} recorded on some GPU, some day, for ")
    assert launches.measured(sweep, 64) == launches.SILENT == launches.measured(print, 32)
    assert "sim says nothing about a GPU's speed" in launches.SILENT
    monkeypatch.setattr(launches, "why_not", lambda name: "")
    monkeypatch.setattr(launches, "get", lambda name: type("GPU", (), {"label": "this GPU"}))
    monkeypatch.setattr(bench, "time", lambda work: (work(), timing)[1])
    asked = []
    assert launches.measured(asked.append, 128) == f"{timing} live on this GPU" and asked == [128]


# --- choosing blocks ---


def test_a_tuning_tells_time_occupancy_waves_and_choice():
    relu = mg.relu.using("forward")
    shown = mg.show.tuning(searched(relu, (2**20,)), BLOCK=32)
    assert shown.title == "relu of 1048576: BLOCK=32 takes 10.0 us, 0.33 times the automatic choice"
    rows = [line.split() for line in shown.numbers.splitlines()]
    assert rows[1] == ["32", "39", "%", "shared", "memory", "9.93", "93", "%", "full", "10.0", "1.00", "x"]
    assert rows[3][-2:] == ["automatic", "choice"] and rows[3][0] == "128"
    assert "recorded on NVIDIA H200, some day" in shown.numbers and ": the limit" in shown.numbers
    blind = mg.show.tuning(searched(relu, (2**20,), known=False))
    assert ": the limit" not in blind.numbers


def test_a_slider_over_recorded_times(monkeypatch, screen):
    monkeypatch.setattr(choices, "survey", lambda work: searched(mg.sum, (2**20,)))
    slider = mg.show.tuning_slider(mg.sum, (2**20,))
    assert slider.values == {"BLOCK": 32, "CHUNK": 8192} and "the automatic choice" in repr(screen[1])
    slider.move(BLOCK=1024, CHUNK=32)
    assert "BLOCK=1024 CHUNK=32 takes" in repr(screen[1])
    monkeypatch.setattr(choices, "survey", lambda work: replace(searched(mg.relu, (8,)), times={}))
    untimed = r"relu of 8: its settings are in no record\. .* --sweep only those of its own works, below 4 ms"
    with pytest.raises(TypeError, match=r"show\.tuning takes a search, .*; got int 3"):
        mg.show.tuning(3)
    with pytest.raises(ValueError, match=untimed):
        mg.show.tuning_slider(mg.relu, (8,))


def test_a_mistake_is_printed_in_lines_that_fit_and_the_page_goes_on(capsys):
    with mg.show.mistake():
        raise ValueError("long: " + "sentence " * 30 + "\n    a line of code" + " " * 100 + ";")
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("ValueError: long: sentence") and len(said) == 4
    assert all(len(line) <= 106 for line in said[:3]) and " ".join(said[:3]).count("sentence") == 30
    assert said[3].startswith("    a line of code")
    with mg.show.mistake():
        pass
    assert capsys.readouterr().out == ""
    with pytest.raises(KeyboardInterrupt), mg.show.mistake():
        raise KeyboardInterrupt


def test_the_roofline_tells_the_share_of_the_roof():
    shown = mg.show.roofline(MADE)
    rows = {line.split(" of 8")[0]: line.split()[-2:] for line in shown.numbers.splitlines()[1:]}
    assert rows == {"relu": ["67", "%"], "matmul tiled": ["13", "%"], "exp": ["25", "%"]}
    with pytest.raises(ValueError, match="has no measurement of softmax"):
        mg.show.roofline(MADE, only=["softmax"])
    assert repr(mg.show.roofline(MADE, only="matmul")) == repr(mg.show.roofline(MADE, only=["matmul"]))
    with pytest.raises(TypeError, match=r"show\.roofline takes a record, e\.g\. mg\.bench\.newest\(\); got int 3"):
        mg.show.roofline(3)
    for start, found in (("matmul", ["matmul tiled"]), ("matmul tiled", ["matmul tiled"]), ("relu of", ["relu"])):
        told = mg.show.roofline(MADE, only=[start]).numbers.splitlines()[1:]
        assert [line.split(" of 8")[0] for line in told] == found
    with pytest.raises(ValueError, match="has no measurement of mat"):
        mg.show.roofline(MADE, only=["mat"])  # whole words


# --- learning ---


def test_confusion_counts_what_a_loop_counts():
    counts = np.zeros((10, 10), int)
    for label, said in zip(LABELS, WRONG, strict=True):
        counts[label, said] += 1
    right = int((LABELS == WRONG).sum())
    shown = mg.show.confusion(LABELS, WRONG)
    assert shown.title.startswith(f"{right} of {len(LABELS)} right, {100 * right / len(LABELS):.1f} %")
    assert repr(shown) == repr(mg.show.confusion(counts))
    scores = np.eye(10)[WRONG]
    assert repr(mg.show.confusion(LABELS, scores)) == repr(shown)


def test_wrong_predictions_are_the_wrong_ones():
    wrong = np.flatnonzero(LABELS != WRONG)
    shown = mg.show.wrong_predictions(IMAGES, LABELS, WRONG, count=5)
    assert shown.title == f"{len(wrong)} of {len(LABELS)} predicted wrongly, 5 shown"
    assert shown.numbers == " | ".join(f"{WRONG[i]}, not {LABELS[i]}" for i in wrong[:5])
    with pytest.raises(ValueError, match=r"images are \(n, height, width\) .* got shape \(2, 7\)"):
        mg.show.images(np.zeros((2, 7)))
    with pytest.raises(ValueError, match="images: count=0 must be a whole number of at least 1"):
        mg.show.images(IMAGES, count=0)
    with pytest.raises(ValueError, match="confusion: 1 names for 10 classes"):
        mg.show.confusion(LABELS, WRONG, names=["zero"])
    assert mg.show.confusion([0, 1], [0, 0], names=["a", "b", "never seen"]).numbers.split()[3:] == ["b", "a", "1"]
    assert mg.show.images(IMAGES[:3]).title == "3 images"
    assert mg.show.images(IMAGES[:3], count=1).title == "1 of 3 images"


def test_loss_curves_tell_first_lowest_and_last():
    shown = mg.show.loss_curve({"numpy": LOSSES})
    assert shown.title == "numpy: the loss fell from 2.5 to 0.02 in 4 steps"
    assert shown.numbers.splitlines()[1].split() == ["numpy", "4", "2.5", "0.02", "0.02"]
    assert "the loss is nan at step 2" in PICTURES["nan"]().title
    with pytest.raises(ValueError, match="at least one loss"):
        mg.show.loss_curve([])


# --- tables and code ---


def test_a_table_has_the_same_cells_in_both_forms():
    shown = mg.show.table([("relu", 1), ("a < b", 22.123456)], ("op", "ms"))
    assert repr(shown).splitlines() == ["op        ms", "relu       1", "a < b  22.12"]
    html = shown._repr_html_()
    assert [unescape(c) for c in re.findall(r">([^<>]+)</t[hd]>", html)] == ["op", "ms", "relu", "1", "a < b", "22.12"]
    ET.fromstring(html)
    with pytest.raises(ValueError, match="row 1 has 1 cells; there are 2 columns"):
        mg.show.table([(1, 2), (3,)])


@pytest.mark.parametrize("file", ["relu.cu", "matmul.cu", "sum.cu"])
def test_highlighted_code_is_the_code_with_its_line_numbers(file):
    text = mg.relu["forward"].source.read(file).text
    html = mg.show.highlight(text, 7, f"cuda/{file}")
    root = ET.fromstring(html)
    assert root[0].text == f"cuda/{file}:7" and html == mg.show.highlight(text, 7, f"cuda/{file}")
    lines = "".join(root[1].itertext()).split("\n")
    assert [re.match(r" *(\d+)  (.*)", line).groups() for line in lines] == [
        (str(number), line) for number, line in enumerate(text.split("\n"), 7)
    ]


def test_code_is_coloured_by_what_it_is():
    html = mg.show.highlight('// [load tile]\nint i = 1; /* a\n"b" */ __syncthreads(); x[threadIdx.x] = "s < t";')
    styles = {unescape(text): style for style, text in re.findall(r'<span style="([^"]*)">([^<]*)</span>', html)}
    from minigrad.display import STYLES

    wanted = {"// [load tile]": "mark", "int": "keyword", "1": "number", "/* a": "comment", '"b" */': "comment"}
    wanted |= {"__syncthreads": "cuda", "threadIdx": "cuda", '"s < t"': "string"}
    assert {text: styles.get(text) for text in wanted} == {text: STYLES[kind] for text, kind in wanted.items()}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mg.show.slider(None, n=(1, 2)), "slider takes a function that draws"),
        (lambda: mg.show.slider(str, n=3), "slider: n takes a list of values; got int 3"),
        (lambda: mg.show.slider(str, n=()), "slider needs values to choose from"),
        (lambda: mg.show.slider(str, start=5, n=(1, 2)), "slider: start=5 is not on it; choose 1"),
        (lambda: mg.show.block_slider("relu", 10), "block_slider takes a kernel"),
        (lambda: mg.show.threads(mg.relu, 10), "threads takes a kernel and its sizes, or a launch; got Op"),
        (lambda: mg.show.graph(3.0), r"graph takes a tensor; got float 3\.0"),
    ],
)
def test_what_is_shown_makes_sense(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
