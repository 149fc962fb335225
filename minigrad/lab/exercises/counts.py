"""Named counts of a kernel's accesses: what an exercise scores and limits, and the sentence about too much of each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from minigrad.display import Table, table
from minigrad.microscope import Inspection, Line

ALL = "all accesses"  # of all threads
UNEVEN = 2  # times as much as the accesses of all threads would explain: a thread does the work of others


class AccessCount(NamedTuple):
    """A number read off the record of a launch, its unit, and the advice where a kernel has too much of it."""

    of: Callable[[Inspection], int]
    unit: str
    advice: str  # with places for the number and for "4 are enough"
    uneven: str = ""  # the same, where the number is that of one thread, and it does the work of others


def total(field: str, chosen: Callable[[Line], bool] = lambda line: True) -> Callable[[Inspection], int]:
    """The sum of a field over the chosen accesses of a record."""
    return lambda record: sum(getattr(line, field) for line in record.lines if chosen(line))


COUNTS = {
    "accesses": AccessCount(
        lambda record: sum(record.per_thread.values()), "accesses of the busiest thread",
        "one of its threads makes {} accesses to memory, where {}: keep in a variable what it needs again.",
        "one of its threads makes {} accesses to memory, where {}: it does the work of other threads. Let each "
        "do a share of its own.",
    ),
    "atomics": AccessCount(
        total("lanes", lambda line: line.kind == "atomic"), "atomic operations",
        "it makes {} atomic operations, which wait for each other, where {}.",
    ),
    "sectors": AccessCount(
        total("sectors"), "sectors of global memory",
        "it moves {} sectors of global memory, where {}: let neighboring threads read and write "
        "neighbors, and read a number once; a variable or shared memory keeps it.",
    ),
    "requests": AccessCount(
        total("requests"), "requests of warps",
        "its warps make {} requests to memory, where {}: a request serves up to 32 lanes with up to 16 "
        "bytes each. Give the work to neighboring threads, so that no lane idles, or let a lane take four neighbors "
        "at once.",
    ),
    "wavefronts": AccessCount(
        total("wavefronts"), "wavefronts of shared memory",
        "shared memory needs {} wavefronts for it, where {}: lanes that want different words of one bank "
        "wait for each other.",
    ),
    "shared_reads": AccessCount(
        total("lanes", lambda line: line.space == "shared" and line.kind == "read"), "reads of shared memory",
        "its threads read shared memory {} times, where {}: read a number once, and keep it in a variable "
        "for as long as it is needed.",
    ),
    "barriers": AccessCount(
        lambda record: int(record.traffic["phase"].max(initial=0)), "barriers",
        "a block waits at {} barriers, where {}: one is needed where a thread uses what another has "
        "written, or overwrites what another has still to read.",
    ),
}  # fmt: skip


def counts(records: Sequence[Inspection]) -> dict[str, int]:
    """Every count of the launches together, of barriers and of one thread's accesses the largest; and all accesses."""
    largest = ("accesses", "barriers")
    found = {
        name: (max if name in largest else sum)([count.of(record) for record in records] or [0])
        for name, count in COUNTS.items()
    }
    return found | {ALL: sum(map(total("lanes"), records))}


def wasted(mine: Mapping[str, int], best: Mapping[str, int], limits: Mapping[str, float]) -> Iterable[str]:
    """The advice for each count that is more than the given multiple of the best one."""
    for name, count in COUNTS.items():
        if name in limits and mine[name] > limits[name] * best[name]:
            uneven = mine[name] * best[ALL] > UNEVEN * mine[ALL] * best[name]
            advice = count.uneven if count.uneven and uneven else count.advice
            yield advice.format(mine[name], enough(best[name]))


def amount(count: int, unit: str) -> str:
    """A count with its unit: `2 reads of shared memory`, `1 read of shared memory`."""
    noun, of, rest = unit.partition(" of ")
    return f"{count} {noun.removesuffix('s') if count == 1 else noun}{of}{rest}"


def enough(count: int) -> str:
    """A count that is enough, in words."""
    return f"{count} {'is' if count == 1 else 'are'} enough" if count else "none is needed"


def counted(rows: Mapping[str, Mapping[str, int]], record: Inspection, sizes: Mapping[str, int]) -> Table:
    """The counts that are not 0 for all of these, one row for each; sizes are those of the launch, for the caption."""
    names = [name for name in COUNTS if any(row[name] for row in rows.values())]
    grid, first = prod(record.grid), "block" if record.blocks == 1 else f"{record.blocks} blocks"
    blocks = f"the first {first} of {grid}" if record.blocks < grid else f"all {grid} blocks"
    blocks = "the only block" if grid == 1 else blocks
    lines = [[label, *(row[name] for name in names)] for label, row in rows.items()]
    heads = ["of one thread" if name == "accesses" else name.replace("_", " ") for name in names]
    place = "".join(f", {name}={size}" for name, size in sizes.items())
    return table(lines, ["", *heads], f"Counted in {blocks}{place}:")
