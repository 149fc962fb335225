"""A graph of operations as SVG, by a layered layout.

Every node lies below its inputs, lines cross seldom, and run straight where there is room.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import NamedTuple

from minigrad.lab.show.draw.colours import BLUE, GREY, INK, LIGHT_BLUE, PALE, RUST

SWEEPS = 12
BEND = 28  # pixels for a line that passes between boxes
SPACE = 26  # between neighbors
LETTER, LINE = 8.2, 19  # pixels: width of a monospaced character at size 13.5, height of a line
LONGEST = 36  # characters in a line
PAD, BETWEEN, MARGIN, TOP = 10, 46, 12, 48
MONO = "font-family='DejaVu Sans Mono, Menlo, Consolas, monospace' font-size='13.5'"
SANS = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif' font-size='15'"
FILL = {"leaf": LIGHT_BLUE, "operation": "white", "constant": PALE}
OUTLINE = {"leaf": BLUE, "operation": INK, "constant": GREY}


@dataclass
class Item:
    """A node of the graph, or a bend of a long line, in its layer."""

    width: float
    node: int | None = None
    above: list["Item"] = field(default_factory=list)
    below: list["Item"] = field(default_factory=list)
    x: float = 0  # of its centre


class Layout(NamedTuple):
    """Layers from the inputs down, each from left to right, and the items along each line."""

    layers: list[list[Item]]
    lines: list[list[list[Item]]]  # of each node, one line for each of its inputs: from the input to the node
    width: float


def layout(inputs: Sequence[Sequence[int]], widths: Sequence[float]) -> Layout:
    """Place the nodes of a graph: inputs[i] are the nodes that node i reads, all before it; the last is the output."""
    depth = [0] * len(inputs)  # the longest path to the output: a node's layer, counted from the bottom
    for node in range(len(inputs) - 1, -1, -1):
        for source in inputs[node]:
            depth[source] = max(depth[source], depth[node] + 1)
    items = [Item(width, node) for node, width in enumerate(widths)]
    layers: list[list[Item]] = [[] for _ in range(max(depth) + 1)]
    for node in _depth_first(inputs):
        layers[depth[node]].append(items[node])
    lines = [[_path(items, layers, depth, source, node) for source in read] for node, read in enumerate(inputs)]
    layers.reverse()
    _order(layers)
    return Layout(layers, lines, _place(layers))


def _depth_first(inputs: Sequence[Sequence[int]]) -> list[int]:
    """The nodes in depth-first order from the output, first inputs first."""
    visited: dict[int, None] = {}
    stack = [len(inputs) - 1]
    while stack:
        node = stack.pop()
        if node not in visited:
            visited[node] = None
            stack.extend(reversed(inputs[node]))
    return list(visited)


def _path(items: list[Item], layers: list[list[Item]], depth: list[int], source: int, node: int) -> list[Item]:
    """The line from an input to a node, with a bend in every layer between them."""
    line = [items[source]]
    for layer in range(depth[source] - 1, depth[node], -1):
        line.append(Item(BEND))
        layers[layer].append(line[-1])
    line.append(items[node])
    for upper, lower in pairwise(line):
        upper.below.append(lower)
        lower.above.append(upper)
    return line


def _order(layers: list[list[Item]]) -> None:
    """Barycentre method: sort each layer by the mean position of its neighbors, down and up; keep the best order."""
    orders = [[list(layer) for layer in layers]]
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers[1:] if down else layers[-2::-1]:
            position = {id(item): at for other in layers for at, item in enumerate(other)}
            neighbors = {id(item): item.above if down else item.below for item in layer}
            layer.sort(key=lambda item: _mean([position[id(n)] for n in neighbors[id(item)]], position[id(item)]))
        orders.append([list(layer) for layer in layers])
    layers[:] = min(orders, key=_crossings)


def _crossings(layers: Iterable[list[Item]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        position = {id(item): at for at, item in enumerate(lower)}
        ends = [position[id(n)] for item in upper for n in sorted(item.below, key=lambda n: position[id(n)])]
        total += sum(a > b for i, a in enumerate(ends) for b in ends[i + 1 :])
    return total


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(layers: list[list[Item]]) -> float:
    """Set every item's x near the mean of its neighbors; returns the width of the drawing."""
    for layer in layers:
        _spread(layer, [0] * len(layer))
    for sweep in range(SWEEPS + 1):  # an odd number: the last one goes down
        down = sweep % 2 == 0
        for layer in layers if down else layers[::-1]:
            # a node follows the operations that it reads, and leaves give way
            near = ([n for n in item.above if n.above] or item.above if down else item.below for item in layer)
            _spread(layer, [_mean([n.x for n in each], item.x) for each, item in zip(near, layer, strict=True)])
    items = [item for layer in layers for item in layer]
    left = min(item.x - item.width / 2 for item in items)
    for item in items:
        item.x -= left
    return max(item.x + item.width / 2 for item in items)


def _spread(layer: list[Item], wanted: Sequence[float]) -> None:
    """Least squares without overlap or reordering: items that collide form a group, placed at its weighted mean."""
    offsets, at = [], 0.0
    for item in layer:
        offsets.append(at + item.width / 2)
        at += item.width + SPACE
    groups: list[tuple[float, float, int]] = []  # weighted sum of the wanted left edges, weight, number of items
    for item, target, offset in zip(layer, wanted, offsets, strict=True):
        weight = 1 if item.above else 0.01
        total, size = (target - offset) * weight, 1
        while groups and groups[-1][0] / groups[-1][1] > total / weight:
            before = groups.pop()
            total, weight, size = total + before[0], weight + before[1], size + before[2]
        groups.append((total, weight, size))
    starts = [total / weight for total, weight, size in groups for _ in range(size)]
    for item, start, offset in zip(layer, starts, offsets, strict=True):
        item.x = start + offset


class Box(NamedTuple):
    """A node: its heading, rows of a word and its value, the boxes that it reads, and its kind."""

    head: str
    rows: tuple[tuple[str, str], ...] = ()
    inputs: tuple[int | None, ...] = ()  # None: a constant
    kind: str = "constant"

    @property
    def lines(self) -> list[str]:
        """The text; a line that is too long ends in an ellipsis."""
        column = max((len(word) for word, _ in self.rows), default=0) + 1
        lines = self.head, *(f"{word:<{column}}{value}" for word, value in self.rows)
        return [line if len(line) <= LONGEST else line[: LONGEST - 1] + "…" for line in lines]

    @property
    def width(self) -> int:
        return round(max(map(len, self.lines)) * LETTER + 2 * PAD)

    @property
    def height(self) -> int:
        return len(self.lines) * LINE + PAD


def drawing(title: str, boxes: Sequence[Box]) -> str:
    """An SVG document: inputs above, the last box below."""
    boxes = _with_constants(boxes)
    inputs = [[i for i in box.inputs if i is not None] for box in boxes]
    plan = layout(inputs, [box.width for box in boxes])
    high = max(box.height for box in boxes)
    width = round(max(plan.width, len(title) * 8.2)) + 2 * MARGIN
    height = TOP + len(plan.layers) * (high + BETWEEN) - BETWEEN + MARGIN
    tops = {id(item): TOP + row * (high + BETWEEN) for row, layer in enumerate(plan.layers) for item in layer}
    lines = [_line(line, tops, high, port, boxes) for line, port in _ports(plan)]
    items = [item for layer in plan.layers for item in layer]
    drawn = [_box(boxes[item.node], item, tops[id(item)], high) for item in items if item.node is not None]
    size, name = f"width='{width}' height='{height}'", escape(title)
    head = [
        f"<svg xmlns='http://www.w3.org/2000/svg' {size} viewBox='0 0 {width} {height}' role='img'>",
        f"<title>{name}</title>",
        f"<rect {size} fill='white'/>",
        f"<text x='{MARGIN}' y='27' fill='{INK}' {SANS}>{name}</text>",
        f"<g transform='translate({MARGIN} 0)' {MONO}>",
    ]
    return "\n".join([*head, *lines, *drawn, "</g>", "</svg>"])


def _with_constants(boxes: Sequence[Box]) -> list[Box]:
    """Give every constant input a box of its own, before the box that reads it."""
    made: list[Box] = []
    place: list[int] = []  # of the input boxes in `made`
    for box in boxes:
        inputs = []
        for i in box.inputs:
            if i is None:
                made.append(Box("constant"))
            inputs.append(len(made) - 1 if i is None else place[i])
        place.append(len(made))
        made.append(box._replace(inputs=tuple(inputs)))
    return made


def _box(box: Box, item: Item, top: int, high: int) -> str:
    """A rectangle with its lines; leaves are round and filled, constants dashed."""
    left, top = round(item.x - box.width / 2), top + high - box.height
    round_off, dash = 12 if box.kind == "leaf" else 3, " stroke-dasharray='4 3'" if box.kind == "constant" else ""
    shape = (
        f"<rect x='{left}' y='{top}' width='{box.width}' height='{box.height}' rx='{round_off}' "
        f"fill='{FILL[box.kind]}' stroke='{OUTLINE[box.kind]}' stroke-width='1.5'{dash}/>"
    )
    texts = []
    for row, text in enumerate(box.lines):
        colour = RUST if text.startswith("gradient") else INK
        weight = " font-weight='bold'" if row == 0 and box.rows else ""
        start = f"x='{left + PAD}' y='{top + PAD / 2 + row * LINE + 14:g}' fill='{colour}'"
        texts.append(f"<text {start} xml:space='preserve'{weight}>{escape(text)}</text>")
    return "\n".join([shape, *texts])


def _ports(plan: Layout) -> list[tuple[list[Item], float]]:
    """Each line with its end on top of a node, from -0.5 to 0.5: the ends lie in the order of the lines' origins."""
    return [
        (line, place / (len(lines) + 1) - 0.5)
        for lines in plan.lines
        for place, line in enumerate(sorted(lines, key=lambda line: line[-2].x), 1)
    ]


def _line(line: Sequence[Item], tops: dict[int, int], high: int, port: float, boxes: Sequence[Box]) -> str:
    """The path from the bottom of an input, past the boxes between, to its end on top of a node."""
    node = boxes[line[-1].node or 0]
    x, y = round(line[0].x), tops[id(line[0])] + high
    path = [f"M{x} {y}"]
    for item in line[1:]:
        last = item is line[-1]
        end = round(item.x + node.width * port) if last else round(item.x)
        bottom = tops[id(item)] + (high - node.height - 7 if last else 0)
        middle = (y + bottom) // 2
        path.append(f"C{x} {middle} {end} {middle} {end} {bottom}")
        x, y = end, bottom
        if not last:
            y += high
            path.append(f"L{x} {y}")
    head = f"<path d='M{x - 5} {y} L{x + 5} {y} L{x} {y + 7} Z' fill='{GREY}'/>"
    return f"<path d='{' '.join(path)}' fill='none' stroke='{GREY}' stroke-width='1.5'/>\n{head}"
