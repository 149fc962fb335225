"""A layered layout: every node below its inputs, few crossings, straight lines where there is room."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

SWEEPS = 12
BEND = 28  # the width that a line takes where it passes between boxes
SPACE = 26  # between neighbours


@dataclass
class Item:
    """A node of the graph, or a bend of a long line, in its layer."""

    width: float
    node: int | None = None
    above: list["Item"] = field(default_factory=list)
    below: list["Item"] = field(default_factory=list)
    x: float = 0  # of its centre


class Layout(NamedTuple):
    """Layers from the inputs down, each from left to right, and for each line the items that it runs through."""

    layers: list[list[Item]]
    lines: dict[tuple[int, int], list[Item]]  # (node, which input of it) -> from the input to the node
    width: float


def layout(inputs: Sequence[Sequence[int]], widths: Sequence[float]) -> Layout:
    """Place nodes, given for each the nodes that it reads: all of them come before it. The last one is the output."""
    depth = _depths(inputs)
    items = [Item(width, node) for node, width in enumerate(widths)]
    layers: list[list[Item]] = [[] for _ in range(max(depth) + 1)]
    for node in _first_met(inputs):
        layers[depth[node]].append(items[node])
    lines = {}
    for node, read in enumerate(inputs):
        for place, source in enumerate(read):
            lines[node, place] = _line(items, layers, depth, source, node)
    layers.reverse()
    _order(layers)
    return Layout(layers, lines, _place(layers))


def _depths(inputs: Sequence[Sequence[int]]) -> list[int]:
    """The longest way from each node to the output: its layer, counted from the bottom."""
    depth = [0] * len(inputs)
    for node in range(len(inputs) - 1, -1, -1):
        for source in inputs[node]:
            depth[source] = max(depth[source], depth[node] + 1)
    return depth


def _first_met(inputs: Sequence[Sequence[int]]) -> list[int]:
    """The nodes in the order in which a walk up from the output meets them, first inputs first."""
    met: dict[int, None] = {}
    stack = [len(inputs) - 1]
    while stack:
        node = stack.pop()
        if node not in met:
            met[node] = None
            stack.extend(reversed(inputs[node]))
    return list(met)


def _line(items: list[Item], layers: list[list[Item]], depth: list[int], source: int, node: int) -> list[Item]:
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
    """Barycentres: sort each layer by the mean position of its neighbours, down and up, and keep the best."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for layer in layers[1:] if down else layers[-2::-1]:
            position = {id(item): at for other in layers for at, item in enumerate(other)}
            layer.sort(
                key=lambda item: _mean(
                    [position[id(n)] for n in (item.above if down else item.below)], position[id(item)]
                )
            )
        if (now := _crossings(layers)) < fewest:
            best, fewest = [list(layer) for layer in layers], now
    for layer, kept in zip(layers, best, strict=True):
        layer[:] = kept


def _crossings(layers: list[list[Item]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        position = {id(item): at for at, item in enumerate(lower)}
        ends = [position[id(n)] for item in upper for n in sorted(item.below, key=lambda n: position[id(n)])]
        total += sum(a > b for i, a in enumerate(ends) for b in ends[i + 1 :])
    return total


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(layers: list[list[Item]]) -> float:
    """Give every item its x near the middle of its neighbours; returns the width of the whole."""
    for layer in layers:
        _spread(layer, [0] * len(layer))
    for sweep in range(SWEEPS + 1):  # an odd number: the last one goes down
        down = sweep % 2 == 0
        for layer in layers if down else layers[::-1]:
            _spread(layer, [_mean([n.x for n in _leading(item, down)], item.x) for item in layer])
    every = [item for layer in layers for item in layer]
    left = min(item.x - item.width / 2 for item in every)
    for item in every:
        item.x -= left
    return max(item.x + item.width / 2 for item in every)


def _leading(item: Item, down: bool) -> list[Item]:
    """The neighbours to line up with: a node stands under what was computed, and leaves make room."""
    return [n for n in item.above if n.above] or item.above if down else item.below


def _spread(layer: list[Item], wanted: Sequence[float]) -> None:
    """As near to `wanted` as can be without an overlap, in the same order: neighbours that push share their place."""
    offsets, at = [], 0.0
    for item in layer:
        offsets.append(at + item.width / 2)
        at += item.width + SPACE
    groups: list[tuple[float, float, int]] = []  # weighted sum of the wanted left edges, weight, how many items
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
