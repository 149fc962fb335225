"""Maps, lines and the cost of adjoints: their numbers, and the arguments that they reject."""

from dataclasses import replace

import numpy as np
import pytest

import minigrad as mg
from minigrad.lab.bench.costs import AdjointCost, Growth, Ratio
from minigrad.lab.bench.record import ADJOINT, Record
from minigrad.lab.bench.timer import Timing
from minigrad.lab.show import adjoint as adjoints


def test_fields_tell_the_range_of_visible_elements():
    field = np.array([[-2.0, 5.0], [0.5, 1.0]])
    shown = mg.show.fields("two maps", {"all": field, "plain": np.ones((2, 2))}, hidden=field == 5)
    rows = [line.split() for line in shown.numbers.splitlines()]
    assert rows == [["field", "smallest", "largest"], ["all", "-2", "1"], ["plain", "1", "1"]]
    assert len(shown.figure.axes) == 4 and shown.parts[0].png()


def test_a_field_with_both_signs_is_white_at_0():
    shown = mg.show.fields("signs", {"both": [[-1.0, 3.0]], "one": [[1.0, 3.0]]})
    both, one = (axes.images[0] for axes in shown.figure.axes[:2])
    assert both.get_clim() == (-3, 3) and one.get_clim() == (1, 3)


def test_a_field_that_is_a_little_below_0_goes_from_dark_to_light():
    shown = mg.show.fields("a speed", {"speed": [[-0.01, 3.0]], "loss": [[-3.0, 0.0]]})
    speed, loss = (axes.images[0] for axes in shown.figure.axes[:2])
    assert speed.get_clim() == (-0.01, 3) and loss.get_clim() == (-3, 3)


def test_all_steps_of_a_slider_have_one_scale():
    """A hidden element, such as the speed within a wall, has no part in it."""
    steps = {n: {"speed": np.array([[-0.1, n, 99]]), "gradient": np.array([[-n, 1.0, -99]])} for n in (1, 5, 2)}
    for n in steps:
        shown = mg.show.fields(f"step {n}", steps[n], hidden=[[False, False, True]], over=iter(steps.values()))
        speed, gradient = (axes.images[0] for axes in shown.figure.axes[:2])
        assert speed.get_clim() == (-0.1, 5) and gradient.get_clim() == (-5, 5)
        assert speed.get_cmap().name == "cividis" and gradient.get_cmap().name == "RdBu_r"
        assert shown.numbers.splitlines()[1].split() == ["speed", "-0.1", str(n)]
    with pytest.raises(ValueError, match="fields: over has a step without gradient; give"):
        mg.show.fields("no", steps[1], over=[{"speed": np.ones((1, 3))}])


def test_marked_elements_have_an_edge():
    window = np.zeros((6, 8), bool)
    window[2:4, 3:6] = True
    shown = mg.show.fields("a window", {"field": np.arange(48.0).reshape(6, 8)}, marked=window)
    upright, level = ([path.vertices for path in lines.get_paths()] for lines in shown.figure.axes[0].collections)
    assert {tuple(line[:, 0]) for line in upright} == {(2.5, 2.5), (5.5, 5.5)} and len(upright) == 4
    assert {tuple(line[:, 1]) for line in level} == {(1.5, 1.5), (3.5, 3.5)} and len(level) == 6


@pytest.mark.parametrize("given", [{}, {"a": np.ones(3)}, {str(n): np.ones((2, 2)) for n in range(5)}])
def test_fields_of_other_shapes_are_rejected(given):
    with pytest.raises(ValueError, match="fields draws 1 to 4 fields of shape"):
        mg.show.fields("no", given)


@pytest.mark.parametrize("mask", ["hidden", "marked"])
def test_a_mask_of_another_shape_is_rejected(mask):
    with pytest.raises(ValueError, match=rf"fields: {mask} has shape \(3, 2\), and a field \(2, 3\); give both"):
        mg.show.fields("no", {"a": np.ones((2, 3))}, **{mask: np.ones((3, 2), bool)})


def test_lines_tell_the_range_of_each():
    x = np.linspace(0, 1, 5)
    shown = mg.show.lines("a line and its slope", "x", x, {"square": x**2, "slope": 2 * x})
    assert [line.split() for line in shown.numbers.splitlines()[1:]] == [["square", "0", "1"], ["slope", "0", "2"]]
    assert all(axes.get_ylim()[0] < axes.get_ylim()[1] for axes in shown.figure.axes) and shown.parts[0].png()
    with pytest.raises(ValueError, match="y has shape"):
        mg.show.lines("no", "x", x, {"y": x[:2]})


def record():
    def ratio(r):
        return Ratio(Timing(1e-5, 1e-5, 1e-5, 9), Timing(r * 1e-5, r * 1e-5, r * 1e-5, 9))

    taken = ((10, 0, 0, 0), (12, 0, 8, 8))
    first = AdjointCost("axpy", "float32", Growth({1: ratio(2), 32: ratio(3)}), Growth(), taken, (0, 4), ratio(5))
    flat, steep = Growth({1: ratio(6), 32: ratio(6)}), Growth({8: ratio(6), 256: ratio(9)})
    second = AdjointCost("sum", "float32", flat, steep, taken, (0, 0), "wrong: off by 0.6")
    costs = {"axpy": first, "sum": second}
    return Record("NVIDIA H200", "2026-11-21", "minigrad bench", {}, costs=costs, folder=ADJOINT)


def test_costs_and_growth_are_drawn_and_listed():
    costs, growth = mg.show.adjoint_costs(record()), mg.show.adjoint_growth(record())
    assert costs.title == "The adjoint takes 4.5 times the kernel's time at the median, at most 6.0"
    assert [line.split()[:3] for line in costs.numbers.splitlines()[1:]] == [["axpy", "3.00", "5.00"],
                                                                            ["sum", "6.00", "wrong:"]]  # fmt: skip
    assert growth.title == "Largest over smallest ratio, at worst: 1.50 as threads grow, 1.50 as work grows"
    assert [line.split() for line in growth.numbers.splitlines()[1:]] == [
        ["axpy", "1.50", "-"],
        ["sum", "1.00", "1.50"],
    ]
    assert costs.parts[0].png() and growth.parts[0].png()
    for only in (["axpy"], "axpy"):
        assert "sum" not in mg.show.adjoint_growth(record(), only).numbers
    with pytest.raises(ValueError, match=r"adjoint_growth: only='axpi' must be among axpy, sum\."):
        mg.show.adjoint_growth(record(), only=["axpi"])


def test_few_kernels_have_names_and_among_many_the_highest_the_lowest_and_the_steep_ones():
    few, many = record(), record()
    steep = many.costs["sum"]
    many.costs |= {f"flat {n}": replace(steep, works=steep.sizes) for n in range(9)}
    for drawn, named in ((few, {"sum"}), (many, {"sum", "flat 0"})):
        axes = mg.show.adjoint_growth(drawn).figure.axes[-1]
        assert {text.get_text() for text in axes.texts} == named


def test_without_a_record_a_sentence_says_how_to_get_one(monkeypatch):
    monkeypatch.setattr(adjoints, "newest_adjoints", lambda: None)
    with pytest.raises(ValueError, match="minigrad bench --adjoint"):
        mg.show.adjoint_costs()
