"""Boxes and lines as SVG, written by hand: the same text for the same graph, on every machine."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from minigrad.show.layers import Item, Layout, layout
from minigrad.show.picture import BLUE, GREY, INK, LIGHT_BLUE, PALE, RUST

LETTER, LINE = 8.2, 19  # of a monospaced letter of 13.5 pixels: its width, and a line's height
LONGEST = 36  # letters in a line
PAD, BETWEEN, MARGIN, TOP = 10, 46, 12, 48
MONO = "font-family='DejaVu Sans Mono, Menlo, Consolas, monospace' font-size='13.5'"
SANS = "font-family='DejaVu Sans, Helvetica, Arial, sans-serif' font-size='15'"
FILL = {"leaf": LIGHT_BLUE, "operation": "white", "constant": PALE}
EDGE = {"leaf": BLUE, "operation": INK, "constant": GREY}


class Box(NamedTuple):
    """A node: its heading, rows of a word and what it is, the boxes that it reads, and its kind."""

    head: str
    rows: tuple[tuple[str, str], ...] = ()
    inputs: tuple[int | None, ...] = ()  # None: a constant
    kind: str = "constant"

    @property
    def lines(self) -> list[str]:
        """The text, cut where it is too long."""
        column = max((len(word) for word, _ in self.rows), default=0) + 1
        return [_cut(line) for line in (self.head, *(f"{word:<{column}}{what}" for word, what in self.rows))]

    @property
    def width(self) -> int:
        """In pixels."""
        return round(max(map(len, self.lines)) * LETTER + 2 * PAD)

    @property
    def height(self) -> int:
        """In pixels."""
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
    drawn = [
        _box(boxes[item.node], item, tops[id(item)], high)
        for layer in plan.layers
        for item in layer
        if item.node is not None
    ]
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' "
            f"viewBox='0 0 {width} {height}' role='img'>",
            f"<title>{escape(title)}</title>",
            f"<rect width='{width}' height='{height}' fill='white'/>",
            f"<text x='{MARGIN}' y='27' fill='{INK}' {SANS}>{escape(title)}</text>",
            f"<g transform='translate({MARGIN} 0)' {MONO}>",
            *lines,
            *drawn,
            "</g>",
            "</svg>",
        ]
    )


def _with_constants(boxes: Sequence[Box]) -> list[Box]:
    """Every input that is no box gets one of its own, before the box that reads it."""
    made: list[Box] = []
    place: list[int] = []  # of the given boxes among those made
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
    """A rectangle with its lines; leaves are round and filled, what is no box of the tape is dashed."""
    left, top = round(item.x - box.width / 2), top + high - box.height
    round_off, dash = 12 if box.kind == "leaf" else 3, " stroke-dasharray='4 3'" if box.kind == "constant" else ""
    shape = (
        f"<rect x='{left}' y='{top}' width='{box.width}' height='{box.height}' rx='{round_off}' "
        f"fill='{FILL[box.kind]}' stroke='{EDGE[box.kind]}' stroke-width='1.5'{dash}/>"
    )
    texts = []
    for row, text in enumerate(box.lines):
        colour = RUST if text.startswith("gradient") else INK
        weight = " font-weight='bold'" if row == 0 and box.rows else ""
        y = top + PAD / 2 + row * LINE + 14
        texts.append(
            f"<text x='{left + PAD}' y='{y:g}' fill='{colour}' xml:space='preserve'{weight}>{escape(text)}</text>"
        )
    return "\n".join([shape, *texts])


def _ports(plan: Layout) -> list[tuple[list[Item], float]]:
    """Each line with its end on top of a node, from -0.5 to 0.5: the lines of a node arrive from left to right."""
    arriving: dict[int, list[list[Item]]] = {}
    for (node, _), line in plan.lines.items():
        arriving.setdefault(node, []).append(line)
    return [
        (line, (place + 1) / (len(lines) + 1) - 0.5)
        for lines in arriving.values()
        for place, line in enumerate(sorted(lines, key=lambda line: line[-2].x))
    ]


def _line(line: Sequence[Item], tops: dict[int, int], high: int, port: float, boxes: Sequence[Box]) -> str:
    """From the bottom of an input, past the boxes between, to its end on top of a node."""
    node = boxes[line[-1].node or 0]
    x, y = round(line[0].x), tops[id(line[0])] + high
    path = [f"M{x} {y}"]
    for item in line[1:]:
        last = item is line[-1]
        end = round(item.x + node.width * port) if last else round(item.x)
        bottom = tops[id(item)] + (high - node.height if last else 0) - (7 if last else 0)
        middle = (y + bottom) // 2
        path.append(f"C{x} {middle} {end} {middle} {end} {bottom}")
        x, y = end, bottom
        if not last:
            y += high
            path.append(f"L{x} {y}")
    head = f"<path d='M{x - 5} {y} L{x + 5} {y} L{x} {y + 7} Z' fill='{GREY}'/>"
    return f"<path d='{' '.join(path)}' fill='none' stroke='{GREY}' stroke-width='1.5'/>\n{head}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
