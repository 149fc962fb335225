"""Blocks that change their owner: a part of blockIdx and the rounds of a loop exchanged, in a launch of its own.

In the adjoint of a product in tiles the block (x, y) goes through the tiles of a row of a, and adds to the gradient of
each: there all x meet. Exchange x and the tile: now a block has one tile of the gradient for itself, goes through all
x, and adds up in registers. The same work is done, and no two blocks meet. It is `turn` once more, for blocks.
"""

from collections.abc import Callable, Mapping

from minigrad.adjoint.analyse import KernelFacts
from minigrad.adjoint.analyse.trip_counts import count, evaluate
from minigrad.adjoint.decide import AdjointLaunch, Choice
from minigrad.adjoint.language.ast import BYTES, Assign, Barrier, Comment, Declare, For, Name, Stmt, is_float
from minigrad.adjoint.language.dataflow import (
    declared,
    elements_read,
    has_barrier,
    inline,
    is_sum,
    own_reads,
    own_updates,
    own_writes,
    target_name,
    written,
)
from minigrad.adjoint.language.printer import expression
from minigrad.adjoint.language.rewrite import ONE, bodies, copy_without, count_up, flatten, substitute

Sum = tuple[Assign, int]  # and how often a round of the loop around comes by


OTHERS = "blocks and rounds change places, in a launch of its own, only where nothing else is added up in memory"


class BlockExchange:
    """Finds sums over all blocks along an axis, and makes launches in which one block computes them."""

    def __init__(
        self, facts: KernelFacts, gradients: Mapping[str, str], inputs: set[str], tapes: set[str],
        pruned: Callable[[list[Stmt]], list[Stmt]], atomic: dict[str, str],
    ):  # fmt: skip
        self.facts, self.pruned = facts, pruned
        self.gradients = inputs  # those of inputs, in global memory
        self.memory = {p.name for p in facts.function.params} | {*gradients.values()}
        self.left = self.memory | tapes
        self.parameter = {gradient: name for name, gradient in gradients.items()}
        self.atomic = atomic  # elements that need atomics, and why: added to

    def launches(self, body: list[Stmt]) -> list[tuple[AdjointLaunch, set[int]]]:
        """A launch for each loop and axis, with the sums that it takes over, by id."""
        found, alone = [], self.alone(body)
        for n, s in enumerate(body):
            for (axis, _), sums in self.sums(s).items():
                if not alone:
                    self.atomic |= {expression(one.target): OTHERS for one, _ in sums}
                elif (made := self.exchanged(body[: n + 1], axis, sums)) is not None:
                    found.append((made, {id(one) for one, _ in sums}))
        return found

    def alone(self, body: list[Stmt]) -> bool:
        """Whether all that a launch leaves behind is sums that it does not read: then it may go in several."""
        sums = {target_name(s.target) for s in flatten(body) if is_sum(s)} & self.gradients
        others = {n for s in flatten(body) if not is_sum(s) for n in own_writes(s)}
        read = {n for s in flatten(body) for n in own_reads(s) - own_updates(s)}
        return not sums & read and not others & self.left - declared(body)

    def sums(self, s: Stmt) -> dict[tuple[str, str], list[Sum]]:
        """The sums in a loop over tiles whose rounds may come in any order, by the axis along which blocks meet."""
        found: dict[tuple[str, str], list[Sum]] = {}
        if not isinstance(s, For) or s.source is s or not has_barrier([s]):
            return {}
        header = count(s)
        if header is None or not header.exact or s.condition != s.source.condition:
            return {}
        for one, times in self.inside(s.body, 1):
            names = inline(one.target, self.facts.fixed).names
            axes = [a for a in "xyz" if self.facts.conditions.get(f"gridDim.{a}") != ONE]
            lacking = [a for a in axes if f"blockIdx.{a}" not in names]
            if len(lacking) == 1 and header.var in names:
                found.setdefault((lacking[0], target_name(one.target)), []).append((one, times))
        return found

    def inside(self, body: list[Stmt], times: int) -> list[Sum]:
        """The sums to gradients of inputs, each with how often a round comes by."""
        found: list[Sum] = []
        for s in body:
            if is_sum(s) and target_name(s.target) in self.gradients:
                found.append((s, times))
            header = count(s) if isinstance(s, For) else None
            rounds = evaluate(header.trips, self.facts.file.values) if header else None
            for side in bodies(s):
                found += self.inside(side, times * (rounds or 1))
        return found

    def exchanged(self, body: list[Stmt], axis: str, sums: list[Sum]) -> AdjointLaunch | None:
        """The launch, where what each round now reads anew is less than what its atomics would move."""
        mine = {id(one) for one, _ in sums}
        kept = self.pruned(copy_without(body, {id(s) for s in flatten(body) if is_sum(s)} - mine - self.own(body)))
        *front, loop = kept
        header = count(loop) if isinstance(loop, For) else None
        rounds = self.facts.on_host(header.trips) if header else None
        again = sum(BYTES[x.type] for x in elements_read(front) if x.array in self.memory)
        atomics = sum(2 * BYTES[one.target.type] * times for one, times in sums)
        if not isinstance(loop, For) or header is None or rounds is None or again >= atomics:
            why = f"blockIdx.{axis} and rounds exchanged, {again} bytes are read anew where atomics move {atomics}"
            why = why if rounds else "only the running kernel knows how many rounds there are"
            self.atomic |= {expression(one.target): why for one, _ in sums}
            return None
        block, blocks = Name(f"block_{axis}", "int"), Name(f"blocks_{axis}", "int")
        place, extent = f"blockIdx.{axis}", f"gridDim.{axis}"
        if {block.name, blocks.name} & self.facts.names.used:
            return None
        front = [substitute(substitute(s, place, block), extent, blocks) for s in front]
        tiles = substitute(substitute(loop, place, block), extent, blocks)
        assert isinstance(tiles, For)
        outside, inside = divided(front, block.name)
        begin = Declare(header.var, "int", value=header.value(Name(place, "int")), place=loop.place)
        each_block = count_up(block, blocks, [*inside, *tiles.body, Barrier()], place=loop.place)
        name = self.parameter[target_name(sums[0][0].target)]
        note = Comment(f"{place} and the rounds of {header.var} have changed places", loop.place)
        why = f"{place} and the rounds of {header.var} have changed places, in a launch of its own"
        instead = f"atomic: {atomics} in L2 a round"
        row = Choice(f"d_{name}", "ownership turned round", why, "", f"{again} a round", instead)
        return AdjointLaunch([*outside, note, begin, each_block], name, {extent: rounds}, {blocks.name: extent}, (row,))

    def own(self, body: list[Stmt]) -> set[int]:
        """The sums in variables and arrays of a thread or a block, which stay as long as somebody reads them."""
        return {id(s) for s in flatten(body) if is_sum(s) and target_name(s.target) not in self.gradients}


def divided(body: list[Stmt], block: str) -> tuple[list[Stmt], list[Stmt]]:
    """What is the same for all blocks that are gone through, shared arrays and whole numbers; and the rest."""
    outside: list[Stmt] = []
    inside: list[Stmt] = []
    changing = {block}
    again = [n for s in flatten(body) for n in own_writes(s)]
    for s in body:
        plain = isinstance(s, Declare) and not s.dims and s.value is not None and not is_float(s.type)
        moves = plain and again.count(s.name) == 1 and not elements_read([s]) and not own_reads(s) & changing  # type: ignore[union-attr]
        if moves or (isinstance(s, Declare) and s.shared):
            outside.append(s)
        else:
            inside.append(s)
            changing |= written([s])
    return outside, inside
