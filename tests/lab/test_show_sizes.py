"""Every slider of the course: at each of its steps, sliders, picture and numbers fit a window of 1280 x 800 together.

Of each notebook only the cells are run on which its sliders depend.
"""

import ast
import re
from itertools import product
from pathlib import Path

import nbformat
import pytest

import minigrad as mg
from minigrad.lab.show import sliders
from minigrad.lab.show.draw.picture import SCREEN_DPI, Picture

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
SLIDERS = {"slider", "block_slider", "step_slider", "tuning_slider", "rung_slider"}
WINDOW = 720  # pixels
SMALLEST = 0.65  # of the size of a picture: its text still has 9 pixels


def cells(path: Path) -> list[ast.Module]:
    code = (cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    return [ast.parse(source) for source in code if not source.lstrip().startswith(("%", "!"))]


def made_in(cell: ast.Module) -> set[str]:
    """The names that a cell defines."""
    names = {node.id for node in ast.walk(cell) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    names |= {node.name for node in cell.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    imports = (node for node in ast.walk(cell) if isinstance(node, ast.Import | ast.ImportFrom))
    return names | {alias.asname or alias.name for node in imports for alias in node.names}


def used_in(cell: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(cell) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def has_slider(cell: ast.Module) -> bool:
    calls = (node.func for node in ast.walk(cell) if isinstance(node, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr in SLIDERS for call in calls)


def needed(code: list[ast.Module]) -> list[ast.Module]:
    """The cells with sliders and those that define what they use, in their order."""
    kept, wanted = [], set()
    for cell in reversed(code):
        if has_slider(cell) or made_in(cell) & wanted:
            kept.append(cell)
            wanted = (wanted | used_in(cell)) - assigned(cell)
    return kept[::-1]


SCOPES = ast.FunctionDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def assigned(node: ast.AST) -> set[str]:
    """The names that are given a value outside of functions and comprehensions."""
    names = {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()
    names |= {node.name} if isinstance(node, ast.FunctionDef | ast.ClassDef) else set()
    return names.union(*(assigned(child) for child in ast.iter_child_nodes(node) if not isinstance(node, SCOPES)))


def used_when_called(node: ast.AST) -> set[str]:
    """The global names in the bodies of functions: those that are looked up when a slider moves."""
    if not isinstance(node, ast.FunctionDef | ast.Lambda):
        return set().union(*map(used_when_called, ast.iter_child_nodes(node)))
    inside = list(ast.walk(node))
    local = {argument.arg for argument in inside if isinstance(argument, ast.arg)}
    local |= {name.id for name in inside if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)}
    return {name.id for name in inside if isinstance(name, ast.Name)} - local


def rebound(code: list[ast.Module]) -> set[str]:
    """The names that a slider's drawing looks up and that a later cell gives another value."""
    found = set()
    for at, cell in enumerate(code):
        if has_slider(cell):
            wanted = used_when_called(cell)
            for earlier in reversed(code[: at + 1]):  # and those that the functions look up which it calls
                wanted |= used_when_called(earlier) if wanted & assigned(earlier) else set()
            found |= wanted & set().union(*map(assigned, code[at + 1 :]))
    return found


def test_a_rebound_name_is_found():
    slider, other = "s = mg.show.slider(lambda n: draw(n, x), n=(1, 2))", "def draw(n, m):\n    return n + y"
    first = [ast.parse(text) for text in ("x = 1\ny = 2", other, slider)]
    assert rebound(first) == set()
    for later, name in (("x = 3", "x"), ("for y in (1, 2):\n    pass", "y"), ("def draw():\n    pass", "draw")):
        assert rebound([*first, ast.parse(later)]) == {name}
    assert rebound([*first, ast.parse("n = [x for x in (1, 2)]\ndef other(y):\n    draw = y")]) == set()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_later_cell_changes_what_a_slider_draws(path):
    assert rebound(cells(path)) == set()


def steps(slider, every):
    """The steps of a slider; of several together every third one, so that any two neighbors differ in their choice."""
    options = [list(enumerate(each.options)) for each in slider.sliders.values()]
    for chosen in product(*options):
        if len(options) == 1 or sum(number for number, _ in chosen) % every == 0:
            yield dict(zip(slider.sliders, (value for _, value in chosen), strict=True))


@pytest.mark.sample(5)
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("path", [p for p in NOTEBOOKS if any(map(has_slider, cells(p)))], ids=lambda path: path.stem)
def test_every_step_of_a_slider_fits_the_window(path, every, monkeypatch):
    made, names = [], {}
    monkeypatch.setattr(sliders.Slider, "show", lambda slider: made.append(slider) or slider)
    for cell in needed(cells(path)):
        exec(compile(cell, path.name, "exec"), names)
    assert made
    for slider in made:
        for values in steps(slider, every):
            if not isinstance(picture := slider.draw(**values), Picture):
                continue  # a page of text, which scrolls within its own height
            page = sliders.Page(picture, len(slider.sliders))
            (width, height), natural = page.size(), picture.figure.get_figwidth() * SCREEN_DPI
            assert height > 0 and page.height() + len(slider.sliders) * sliders.SLIDER <= WINDOW
            assert width <= sliders.WIDTH and width >= SMALLEST * natural, f"{values}: {width} of {natural} pixels"


def test_a_kernel_beside_its_adjoint_fits_the_window_and_stays_in_sight():
    html = mg.adjoint(mg.adjoint.ladder("product"))._repr_html_()
    left, right = re.findall(r'<div style="(flex:[^"]*)"', html)
    assert "position:sticky;top:0" in left and "sticky" not in right
    boxes = re.findall(r'<div style="((?:display:flex|max-height)[^"]*)"', html)
    heights = [int(re.search(r"max-height:(\d+)px;overflow-y:auto", box)[1]) for box in boxes]
    assert len(heights) == 2 and sum(heights) + sliders.SLIDER <= WINDOW


def test_a_cell_is_run_if_a_slider_depends_on_it():
    code = [
        ast.parse(text) for text in ("import numpy as np", "a = np.ones(3)", "b = 1", "mg.show.slider(f, a=a)", "c")
    ]
    assert [ast.unparse(cell) for cell in needed(code)] == [
        "import numpy as np",
        "a = np.ones(3)",
        "mg.show.slider(f, a=a)",
    ]
