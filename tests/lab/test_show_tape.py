"""The tape as a drawing: its values and gradients, and a layout without overlaps."""

import xml.etree.ElementTree as ET

import pytest

import minigrad as mg
from minigrad.lab.show.draw.svg import layout


def scalars():
    a, b = (mg.tensor(value, requires_grad=True, device="numpy") for value in (2.0, -3.0))
    c = a * b
    return a, b, c, (c + 10.0) * b


def test_a_graph_tells_values_and_gradients_and_changes_nothing():
    a, b, c, y = scalars()
    shown = mg.show.graph(y, {"a": a, "b": b}, c=c)
    steps = {step.name: step for step in shown.rows}
    assert shown.title == "The tape behind v2: 3 operations, 2 leaves"
    assert [steps[name].value for name in ("a", "b", "c", "v1", "v2")] == ["2", "-3", "-6", "4", "-12"]
    assert [steps[name].gradient for name in ("a", "b", "c", "v1", "v2")] == ["9", "-2", "-3", "-3", "1"]
    assert shown.formula(steps["v1"]) == "c + constant"
    assert a.grad is None and repr(mg.show.graph(y, {"a": a, "b": b, "c": c, "_": y})) == repr(shown)
    y.backward()
    assert (float(a.grad), float(b.grad)) == (9, -2)
    freed = mg.show.graph(y, locals())
    assert "An earlier backward has freed it" in freed.title and "9 in .grad" in repr(freed)


def test_a_value_without_an_owner_is_not_kept():
    a = mg.tensor([1.0, 2.0], requires_grad=True, device="numpy")
    y = (a + a).sum()
    assert [step.value for step in mg.show.graph(y).rows] == ["[1, 2]", "not kept", "6"]
    assert mg.show.graph(a + a).title.endswith("Gradients of v2.sum()")
    seeded = mg.show.graph(a + a, grad=mg.tensor([1.0, 3.0], device="numpy"))
    assert [step.gradient for step in seeded.rows] == ["[2, 6]", "[1, 3]"]
    alone = mg.show.graph(mg.zeros(9, device="numpy"))
    assert [(s.value, s.gradient) for s in alone.rows] == [("9 numbers", "none")]


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
    assert page[2:] == [width, height] and len(boxes) >= len(mg.show.graph(tensor).rows)
    assert all(x >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    for i, (x, y, w, h) in enumerate(boxes):
        for u, v, s, t in boxes[:i]:
            assert x + w <= u or u + s <= x or y + h <= v or v + t <= y


def test_every_node_lies_below_its_inputs_and_a_chain_is_straight():
    plan = layout([[], [0], [1], [2, 0]], [50, 60, 70, 80])
    level = {item.node: depth for depth, layer in enumerate(plan.layers) for item in layer if item.node is not None}
    assert [level[node] for node in range(4)] == [0, 1, 2, 3]
    assert len(plan.lines[3][1]) == 4  # two bends on the way past two layers
    chain = layout([[], [0], [1]], [50, 60, 70])
    assert len({item.x for layer in chain.layers for item in layer}) == 1
