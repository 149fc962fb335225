"""What a right kernel spends in vain: it is no answer yet to an exercise about spending less."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from minigrad.microscope import Inspection


class Cost(NamedTuple):
    """Something to count in launches, how many times what the solution takes is too much, and what to say then."""

    count: Callable[[Sequence[Inspection]], int]
    times: int
    words: str  # with places for what was taken, and for what is enough


def _by_one_thread(launches: Sequence[Inspection]) -> int:
    return max((sum(record.per_thread.values()) for record in launches), default=0)


def _atomics(launches: Sequence[Inspection]) -> int:
    return sum(int((record.traffic["kind"] == "atomic").sum()) for record in launches)


def _sectors(launches: Sequence[Inspection]) -> int:
    return sum(line.sectors for record in launches for line in record.lines if line.space == "global")


ALONE = Cost(
    _by_one_thread, 4,
    "one of its threads makes {} accesses to memory, where {} are enough: let every thread do a share of its own.",
)  # fmt: skip
ATOMICS = Cost(_atomics, 1, "it makes {} atomic operations, which wait for each other, where {} are needed.")
SECTORS = Cost(
    _sectors, 2,
    "it moves {} sectors of global memory, where {} are enough: let neighbouring threads read and write neighbours, "
    "and leave the rest to shared memory.",
)  # fmt: skip


def wasted(costs: Sequence[Cost], mine: Sequence[Inspection], best: Sequence[Inspection]) -> str | None:
    """What the launches spend far beyond the best ones, in words to go on with; the first of the costs that is."""
    for cost in costs:
        taken, enough = cost.count(mine), cost.count(best)
        if taken > cost.times * enough:
            return cost.words.format(taken, enough or "none")
    return None
