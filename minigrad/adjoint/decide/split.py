"""Scatter to gather across blocks: an axis of blockIdx and the iterations of a loop exchanged, in a separate launch.

In the adjoint of a tiled product the block (x, y) iterates over the tiles of a row of a, and adds to the gradient of
each, as do all other x. Exchange x and the tile: a block then owns one tile of the gradient, iterates over all x, and
sums in registers. The work is the same, and no two blocks add to one element."""

from collections.abc import Callable, Mapping

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.trip_counts import count, evaluate
from minigrad.adjoint.decide import AdjointLaunch, Choice
from minigrad.adjoint.language import dataflow
from minigrad.adjoint.language.ast import BYTES, Assign, Barrier, Comment, Declare, For, Name, Stmt, is_float
from minigrad.adjoint.language.dataflow import elements_read, is_sum, names_behind, target_name, written
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import ONE, bodies, copy_without, count_up, flatten, substitute

Sum = tuple[Assign, int]  # with its number of executions in an iteration of the outer loop

OTHERS = "blocks and rounds can change places only in a launch that adds up nothing else in memory"


class BlockExchange:
    """Finds sums over all blocks along an axis, and makes launches in which one block computes them."""

    def __init__(
        self, facts: KernelFacts, gradients: Mapping[str, str], inputs: set[str], tapes: set[str],
        pruned: Callable[[list[Stmt]], list[Stmt]], atomic: dict[str, str],
    ):  # fmt: skip
        self.facts, self.pruned = facts, pruned
        self.gradients = inputs  # those of inputs, in global memory
        self.memory = {p.name for p in facts.function.params} | {*gradients.values()}
        self.visible = self.memory | tapes
        self.parameter = {gradient: name for name, gradient in gradients.items()}
        self.atomic = atomic  # elements that need atomics, and why: extended

    def launches(self, body: list[Stmt]) -> list[tuple[AdjointLaunch, set[int]]]:
        """A launch for each loop and axis, with the ids of the sums that move to it."""
        found, separable = [], self.separable(body)
        for n, s in enumerate(body):
            for (axis, _), sums in self.sums(s).items():
                if not separable:
                    self.atomic |= {expression(one.target): OTHERS for one, _ in sums}
                elif (made := self.exchanged(body[: n + 1], axis, sums)) is not None:
                    found.append((made, {id(one) for one, _ in sums}))
        return found

    def separable(self, body: list[Stmt]) -> bool:
        """True if the only results of a launch are sums that it does not read: then they may be split."""
        sums = {target_name(s.target) for s in flatten(body) if is_sum(s)} & self.gradients
        others = {n for s in flatten(body) if not is_sum(s) for n in dataflow.own_writes(s)}
        read = {n for s in flatten(body) for n in dataflow.own_reads(s) - dataflow.own_updates(s)}
        return not sums & read and not others & self.visible - dataflow.declared(body)

    def sums(self, s: Stmt) -> dict[tuple[str, str], list[Sum]]:
        """The sums in a loop over tiles with independent iterations, by the axis along which blocks share them."""
        found: dict[tuple[str, str], list[Sum]] = {}
        if not isinstance(s, For) or s.source is s or not dataflow.has_barrier([s]):
            return {}
        header = count(s)
        if header is None or not header.exact or s.condition != s.source.condition:
            return {}
        for one, times in self.counted_sums(s.body, 1):
            names = names_behind([one.target], self.facts.fixed)
            axes = [a for a in "xyz" if self.facts.conditions.get(f"gridDim.{a}") != ONE]
            lacking = [a for a in axes if f"blockIdx.{a}" not in names]
            if len(lacking) == 1 and header.var in names:
                found.setdefault((lacking[0], target_name(one.target)), []).append((one, times))
        return found

    def counted_sums(self, body: list[Stmt], times: int) -> list[Sum]:
        """The sums to gradients of inputs, each with its number of executions."""
        found: list[Sum] = []
        for s in body:
            if is_sum(s) and target_name(s.target) in self.gradients:
                found.append((s, times))
            header = count(s) if isinstance(s, For) else None
            trips = evaluate(header.trips, self.facts.file.values) if header else None
            for side in bodies(s):
                found += self.counted_sums(side, times * (trips or 1))
        return found

    def exchanged(self, body: list[Stmt], axis: str, sums: list[Sum]) -> AdjointLaunch | None:
        """The launch, if its additional reads in each iteration are fewer bytes than its atomics would move."""
        mine = {id(one) for one, _ in sums}
        others = {id(s) for s in flatten(body) if is_sum(s) and target_name(s.target) in self.gradients} - mine
        kept = self.pruned(copy_without(body, others))
        *front, loop = kept
        header = count(loop) if isinstance(loop, For) else None
        trips = self.facts.on_host(header.trips) if header else None
        again = sum(BYTES[x.type] for x in elements_read(front) if x.array in self.memory)
        atomics = sum(2 * BYTES[one.target.type] * times for one, times in sums)
        if not isinstance(loop, For) or header is None or trips is None or again >= atomics:
            why = f"with blockIdx.{axis} and rounds exchanged, {again} bytes are read again; the atomics move {atomics}"
            why = why if trips else "the number of rounds is known only while the kernel runs"
            self.atomic |= {expression(one.target): why for one, _ in sums}
            return None
        block, blocks = Name(f"block_{axis}", "int"), Name(f"blocks_{axis}", "int")
        place, extent = f"blockIdx.{axis}", f"gridDim.{axis}"
        if {block.name, blocks.name} & self.facts.names.used:
            return None
        front = [substitute(substitute(s, place, block), extent, blocks) for s in front]
        tiles = substitute(substitute(loop, place, block), extent, blocks)
        assert isinstance(tiles, For)
        outside, inside = _partition(front, block.name)
        begin = Declare(header.var, "int", value=header.value(Name(place, "int")), place=loop.place)
        each_block = count_up(block, blocks, [*inside, *tiles.body, Barrier()], place=loop.place)
        name = self.parameter[target_name(sums[0][0].target)]
        note = Comment(f"{place} and the loop over {header.var} have changed places", loop.place)
        why = f"{place} and the loop over {header.var} have changed places, in a launch of its own"
        instead = f"atomic: {atomics} in L2 a round"
        row = Choice(f"d_{name}", "ownership turned around", why, "", f"{again} a round", instead)
        return AdjointLaunch([*outside, note, begin, each_block], name, {extent: trips}, {blocks.name: extent}, (row,))


def _partition(body: list[Stmt], block: str) -> tuple[list[Stmt], list[Stmt]]:
    """Shared arrays and integers that do not depend on `block`, and all other statements."""
    outside: list[Stmt] = []
    inside: list[Stmt] = []
    changing = {block}
    again = [n for s in flatten(body) for n in dataflow.own_writes(s)]
    for s in body:
        plain = isinstance(s, Declare) and not s.dims and s.value is not None and not is_float(s.type)
        moves = plain and again.count(s.name) == 1 and not elements_read([s]) and not dataflow.own_reads(s) & changing  # type: ignore[union-attr]
        if moves or (isinstance(s, Declare) and s.shared):
            outside.append(s)
        else:
            inside.append(s)
            changing |= written([s])
    return outside, inside
