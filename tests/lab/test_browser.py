"""The course in a real JupyterLab, in the Chromium of the system: sliders, answers, and no error anywhere.

Every wait is for something that the page shows. The server, its settings and the notebooks lie in a temporary folder.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

import minigrad as mg

pytestmark = [pytest.mark.browser, pytest.mark.soak]
ROOT = Path(__file__).parents[2]
JUPYTER = ROOT / "minigrad/lab/jupyter"
# A notebook; the function that makes its slider; the slider's value in the title of the picture, and in its numbers.
COURSE = {
    "01_your_first_kernel.ipynb": ("block_slider", "of {} threads", "BLOCK={})"),
    "03_elementwise_and_broadcasting.ipynb": ("block_slider", "of {} threads", "BLOCK={})"),
    "06_matrix_multiplication.ipynb": ("step_slider", "step = {}:", "step = {}:"),
}
GATE = "from pathlib import Path\n\nwhile Path('closed').exists():\n    Path('reached').touch()"
ERRORS = "[data-mime-type='application/vnd.jupyter.error'], [data-mime-type='application/vnd.jupyter.stderr']"
SECONDS = 30  # for what has no limit of its own


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A JupyterLab that is set up as by `make lab`, with its folder and its address."""
    home = tmp_path_factory.mktemp("jupyter")
    folder = tmp_path_factory.mktemp("course")
    for name in COURSE:
        shutil.copy(ROOT / "notebooks" / name, folder)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = {f"JUPYTER_{kind}_DIR": str(home / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own["MINIGRAD_PROGRESS"] = str(home / "progress")
    own |= {f"JUPYTERLAB_{kind}_DIR": str(home / kind) for kind in ("SETTINGS", "WORKSPACES")}
    paths = {"JUPYTER_PATH": str(JUPYTER), "JUPYTER_CONFIG_PATH": str(JUPYTER), "PYTHONPATH": str(ROOT)}
    options = [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=course"]
    options += [f"--ServerApp.root_dir={folder}", "--LabApp.expose_app_in_browser=True", "--no-browser", "--allow-root"]
    command = [sys.executable, "-m", "jupyter", "lab", *options]
    with open(home / "log", "w") as log:
        process = subprocess.Popen(command, env=os.environ | own | paths, cwd=folder, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        await_server(process, address, home / "log")
        yield SimpleNamespace(address=address, folder=folder)
    finally:
        process.terminate()
        process.wait()


def await_server(process, address, log):
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{address}/api?token=course", timeout=SECONDS).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"JupyterLab does not answer:\n{log.read_text()}")


@pytest.fixture(scope="module")
def browser(chromium_path):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module", params=COURSE)
def lab(request, server, browser):
    """A notebook, opened, with all of it run: its page, its cells, its folder. Nothing fails, nor does the console."""
    path, said = server.folder / request.param, []
    text = nbformat.read(path, as_version=4)
    text.cells.append(nbformat.v4.new_code_cell(GATE))
    nbformat.write(text, path)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(SECONDS * 1000)
    page.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{server.address}/lab/tree/{path.name}?token=course&reset")
    page.wait_for_function("n => document.querySelectorAll('.jp-Notebook .jp-Cell').length == n", arg=len(text.cells))
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']")
    assert page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')"), "a cell failed"
    assert not page.locator(ERRORS).all_inner_texts()
    assert page.get_by_text("official Jupyter news").count() == 0
    yield SimpleNamespace(name=path.name, page=page, cells=text.cells, folder=server.folder)
    page.close()
    assert not said


def cell(lab, number):
    found = lab.page.locator(".jp-Notebook .jp-Cell").nth(number)
    found.scroll_into_view_if_needed()
    return found


def run(lab, number, text=""):
    """Run a cell, with this text in place of its own."""
    cell(lab, number).locator(".cm-content").click()
    if text:
        lab.page.keyboard.press("ControlOrMeta+a")
        lab.page.keyboard.insert_text(text)
    lab.page.keyboard.press("Control+Enter")


def first_slider(lab):
    """A handle, and a function that reads a slider, its picture and its numbers as the page has them at one moment."""
    name, *_ = COURSE[lab.name]
    place = cell(lab, next(n for n, each in enumerate(lab.cells) if f"mg.show.{name}(" in each.source))
    read = """output => {
        const [readout, page] = ['.widget-readout', '.minigrad-slider'].map(each => output.querySelector(each));
        const [image, numbers] = ['img', 'pre'].map(each => page.querySelector(each));
        return [readout.innerText, image.alt, numbers.innerText, image.src, getComputedStyle(page).opacity];
    }"""
    place.locator(".minigrad-slider img").wait_for()
    return place.locator(".noUi-handle").first, lambda: place.evaluate(read)


def until(lab, condition, seconds):
    """Seconds until a condition holds."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() < start + seconds, "the page does not follow"
        lab.page.wait_for_function("() => new Promise(done => requestAnimationFrame(() => done(true)))")
    return time.monotonic() - start


def test_picture_and_numbers_follow_the_slider(lab):
    _, in_title, in_numbers = COURSE[lab.name]
    handle, look = first_slider(lab)
    handle.focus()
    took = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        before = look()
        lab.page.keyboard.press(key)
        took.append(until(lab, partial(agree, look, before, in_title, in_numbers), SECONDS))
        assert handle.evaluate("handle => handle === document.activeElement"), "the keyboard stays on the slider"
    assert min(took) < 1, took


def test_the_picture_is_grey_while_the_kernel_is_busy(lab):
    _, in_title, in_numbers = COURSE[lab.name]
    handle, look = first_slider(lab)
    before, closed, reached = look(), lab.folder / "closed", lab.folder / "reached"
    reached.unlink(missing_ok=True)
    closed.touch()  # the last cell keeps the kernel busy
    try:
        run(lab, len(lab.cells) - 1)
        until(lab, reached.exists, SECONDS)
        handle.focus()
        lab.page.keyboard.press("ArrowRight")
        until(lab, lambda: float(look()[4]) < 0.5, SECONDS)
        assert look()[0] != before[0] and look()[1:4] == before[1:4]
    finally:
        closed.unlink()
    until(lab, lambda: agree(look, before, in_title, in_numbers) and look()[4] == "1", SECONDS)


def agree(look, before, in_title, in_numbers):
    """The slider has moved, and picture and numbers show its value."""
    value, title, numbers, image, _ = look()
    moved = value != before[0] and image != before[3]
    return moved and in_title.format(value) in title and in_numbers.format(value) in numbers


def test_an_exercise_answers_a_wrong_and_a_right_kernel(lab):
    kernels = (n for n, each in enumerate(lab.cells) if re.match(r"%%exercise \w+\n.*__global__", each.source, re.S))
    number = next(kernels)
    name = lab.cells[number].source.split()[1]
    exercise, output = mg.exercise(name), cell(lab, number).locator(".jp-OutputArea")
    comments = cell(lab, number).locator(".cm-line span").filter(has_text="//").all_inner_texts()
    assert comments and all(len(text) > 2 for text in comments), "in C++ // begins a comment, in Python it divides"
    solution = str(exercise.solution())
    for text, answer in ((exercise.wrong[0].edit(solution), exercise.wrong[0].why), (solution, "Correct")):
        run(lab, number, f"%%exercise {name}\n{text}")
        until(lab, partial(says, output, answer), SECONDS)
    assert says(output, f"`{name}` is now yours.")


def says(output, words):
    """The output has these words, wherever its lines break."""
    return " ".join(words.split()) in " ".join(output.inner_text().split())


def test_a_comment_above_a_magic_is_answered_in_a_sentence(lab):
    last = len(lab.cells) - 1
    run(lab, last, '# my try\n%%kernel relu forward\nextern "C" __global__ void f() {}')
    said = cell(lab, last).locator(ERRORS)
    said.wait_for()
    assert says(said, "must be the first line of its cell") and not says(said, "invalid syntax")
    run(lab, last, "6 * 7")
    cell(lab, last).locator(".jp-OutputArea").get_by_text("42", exact=True).wait_for()
