"""Sliders follow their values from any thread, and a time says where it comes from; mistakes are printed."""

import base64
import re
import threading
from dataclasses import replace
from html import unescape

import pytest
from matplotlib.figure import Figure
from show_pictures import searched

import minigrad as mg
from minigrad import bench
from minigrad.display import Text
from minigrad.errors import LaunchError
from minigrad.lab.show import launch as launches
from minigrad.lab.show import sliders, tunables
from minigrad.lab.show.draw.picture import Picture

RELU = mg.relu["forward"].using(BLOCK=256)


@pytest.fixture
def screen(monkeypatch):
    """The displayed outputs in order; an update replaces its output."""
    shown, place = [], {}

    class Handle:
        def display(self, page):
            place[self] = len(shown)
            shown.append(page)

        def update(self, page):
            shown[place[self]] = page

    monkeypatch.setattr(sliders, "DisplayHandle", Handle)
    monkeypatch.setattr(sliders, "_cell", lambda: 7)
    monkeypatch.setattr(sliders, "display", lambda bundle, raw: shown.append(bundle["text/plain"]))
    return shown


def test_moving_the_slider_replaces_image_and_numbers(screen, monkeypatch):
    slider = mg.show.block_slider(RELU, 1000)
    assert screen[0] == "Slider: BLOCK in 32, 64, 128, 256, 512 or 1024. Run the cell to move it."
    assert slider.value == 256 and said(screen[1])[0] == "relu_forward: 4 blocks of 256 threads, 24 threads idle"
    slider.value = 32
    assert len(screen) == 2 and said(screen[1])[0] == "relu_forward: 32 blocks of 32 threads, 24 threads idle"
    assert "1024 - 1000 = 24 threads" in repr(screen[1]) and "time   absent" in repr(screen[1])
    slider._ipython_display_()
    assert len(screen) == 2  # the cell that made it has shown it
    monkeypatch.setattr(sliders, "_cell", lambda: 8)
    slider._ipython_display_()
    assert len(screen) == 4
    slider.sliders["BLOCK"].value = 1024  # as the mouse does
    assert "1 block of 1024" in repr(screen[3])


def said(page):
    return repr(page).splitlines()


def test_picture_and_numbers_are_one_output():
    picture = mg.show.threads(RELU, 1000)
    data, metadata = sliders.Page(picture, 1)._repr_mimebundle_()
    assert set(data) == {"text/html", "text/plain"} and metadata == {}
    assert data["text/plain"] == repr(picture) == f"{picture.title}\n{picture.numbers}"
    pattern = r';base64,(.*?)" alt=".*?" (.*?)><pre .*?>(.*)</pre></div>'
    image, size, numbers = re.search(pattern, data["text/html"], re.S).groups()
    assert base64.b64decode(image) == mg.show.threads(RELU, 1000).parts[0].png() and size == 'width="830" height="216"'
    assert unescape(numbers) == picture.numbers


def test_a_page_grows_grey_while_jupyterlab_says_that_the_kernel_is_busy():
    for shown in (Picture(mg.show.threads(RELU, 10).figure, "t", ""), Text("<3"), mg.relu):
        html = sliders.Page(shown, 1)._repr_mimebundle_()[0]["text/html"]
        assert '[data-status="busy"]) .minigrad-slider' in html and 'class="minigrad-slider"' in html
    assert "&lt;3" in sliders.Page(Text("<3"), 1)._repr_mimebundle_()[0]["text/html"]


@pytest.mark.parametrize(
    "wide, high, lines, columns", [(7, 7, 11, 110), (9.6, 8, 4, 100), (4, 6, 30, 50), (2, 1, 1, 9)]
)
def test_a_page_is_as_large_as_the_window_allows(wide, high, lines, columns):
    picture = Picture(Figure((wide, high)), "title", "\n".join(["x" * columns] * lines))
    page = sliders.Page(picture, 2)
    width, height = page.size()
    assert width / height == pytest.approx(wide / high, rel=0.02)
    assert page.height() <= sliders.HEIGHT - 2 * sliders.SLIDER
    larger = (1.05 * width, 1.05 * height)
    beside = larger[0] + columns * sliders.LETTER + sliders.GAP <= sliders.WIDTH and larger[1] <= page.room
    below = larger[0] <= sliders.WIDTH and larger[1] + lines * sliders.LINE <= page.room
    assert (width, height) == (wide * 96, high * 96) or not (beside or below)


def test_a_picture_keeps_a_size_next_to_too_many_numbers():
    page = sliders.Page(Picture(Figure((8, 4)), "title", "\n".join(["x" * 105] * 40)), 1)
    assert page.size() == (384, 192) and page.height() == 192 + 40 * sliders.LINE


def test_an_error_while_drawing_is_shown_and_raised(screen):
    slider = mg.show.slider(lambda n: Picture(None, "fine", "") if n else 1 // n, n=(2, 1, 0))
    with pytest.raises(ZeroDivisionError):
        slider.move(n=0)
    assert repr(screen[1]).startswith("ZeroDivisionError: ")
    slider.move(n=1)
    assert said(screen[1]) == ["fine"]
    with pytest.raises(ValueError, match="n=3 is not on the slider; choose 2, 1 or 0"):
        slider.value = 3
    with pytest.raises(ValueError, match="no slider is called 'm'; there is n"):
        slider.move(m=3)


def test_sliders_for_size_and_step(screen):
    slider = mg.show.block_slider(RELU, n=(10, 1000))
    slider.move(n=1000, BLOCK=512)
    assert slider.values == {"BLOCK": 512, "n": 1000} and "1024 - 1000 = 24" in repr(screen[1])
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


def test_callbacks_on_other_threads_end_with_the_current_values(screen):
    slider = mg.show.block_slider(RELU, 1000)
    movers = [threading.Thread(target=slider.move, kwargs={"BLOCK": b}) for b in RELU.tunables["BLOCK"] * 2]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()
    assert f"of {slider.value} threads" in repr(screen[1]) and f"BLOCK={slider.value})" in repr(screen[1])


def test_a_time_says_where_it_comes_from(monkeypatch):
    timing = bench.Timing(1e-5, 1e-5, 1e-5, 20)
    sweep = bench.TunableSweep("relu", "BLOCK", {}, "", {32: timing}, "some GPU, some day")
    monkeypatch.setattr(launches, "why_not", lambda name: "no GPU")
    assert launches._timing(sweep, 32) == f"for relu: {timing} recorded on some GPU, some day"
    assert launches._timing(sweep, 64) == launches.NO_GPU == launches._timing(print, 32)
    assert "sim says nothing about a GPU's speed" in launches.NO_GPU
    monkeypatch.setattr(launches, "why_not", lambda name: "")
    monkeypatch.setattr(launches, "get", lambda name: type("GPU", (), {"label": "this GPU"}))
    monkeypatch.setattr(bench, "time", lambda work: (work(), timing)[1])
    asked = []
    assert launches._timing(asked.append, 128) == f"{timing} live on this GPU" and asked == [128]


def test_a_slider_over_recorded_times(monkeypatch, screen):
    monkeypatch.setattr(tunables, "survey", lambda work: searched(mg.sum, (2**20,)))
    slider = mg.show.tuning_slider(mg.sum, (2**20,))
    assert slider.values == {"BLOCK": 32, "CHUNK": 8192} and "mg.tune's choice" in repr(screen[1])
    slider.move(BLOCK=1024, CHUNK=32)
    assert "BLOCK=1024 CHUNK=32 takes" in repr(screen[1])
    monkeypatch.setattr(tunables, "survey", lambda work: replace(searched(mg.relu, (8,)), times={}))
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
def test_wrong_arguments_are_rejected(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
