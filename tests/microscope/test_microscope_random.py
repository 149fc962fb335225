"""Races of random kernels against full vector clocks: no false positives, no kernel with a race missed.

The kernels access elements and parts of elements, in global or shared memory. Without a __syncwarp of some lanes the
microscope remembers two accesses of a kind, with one it remembers more: so each file has all or none.
"""

import random
from typing import NamedTuple

import numpy as np
import pytest

import minigrad as mg
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

CELLS, KERNELS = 8, 24
ALL = 0xFFFFFFFF  # lanes
TYPES = {4: "int", 2: "short", 1: "char"}


class Step(NamedTuple):
    """A read, write or atomic at index t * times + plus, a barrier, or a __syncwarp."""

    what: str
    who: int  # mask of the threads; of a __syncwarp the warp
    times: int = 0  # of a __syncwarp the mask of the lanes
    plus: int = 0
    size: int = 4  # bytes of the access

    def byte(self, thread: int) -> int:
        return (thread * self.times + self.plus) * self.size % (4 * CELLS)

    def text(self) -> str:
        at = f"(({TYPES[self.size]}*)s)[(t * {self.times} + {self.plus}) % {4 * CELLS // self.size}]"
        does = {"read": f"v += {at};", "write": f"{at} = t;", "atomic": f"atomicAdd(&{at}, 1);"}
        if self.what in does:
            return f"if ({self.who}ull >> t & 1) {does[self.what]}"
        mask = "" if self.times == ALL else f"{self.times}u"
        lanes = f"if (t / 32 == {self.who} && {self.times}u >> t % 32 & 1) __syncwarp({mask});"
        return "__syncthreads();" if self.what == "barrier" else lanes

    def meeting(self, threads: int) -> list[int]:
        """The threads that a barrier or a __syncwarp orders."""
        warp = self.what == "warp"
        return [t for t in range(threads) if not warp or (t // 32 == self.who and self.times >> t % 32 & 1)]


def steps(rng: random.Random, threads: int, sizes: list[int], partial: bool) -> list[Step]:
    made = []
    for what in rng.choices(["read", "write", "atomic", "barrier", "warp"], [3, 3, 1, 1, 2], k=rng.randint(3, 9)):
        some = [(1 << threads) - 1, 1 << rng.randrange(threads) | 1, rng.getrandbits(threads)]
        if what == "warp":
            warp = rng.randrange((threads + 31) // 32)
            made.append(Step(what, warp, (rng.choice(some) >> 32 * warp & ALL or 1) if partial else ALL))
        else:
            size = 4 if what == "atomic" else rng.choice(sizes)
            made.append(Step(what, rng.choice(some), rng.choice([0, 1, 1, 2, 3]), rng.randrange(CELLS), size))
    return made


def races(made: list[Step], threads: int) -> set[tuple[int, ...]]:
    """The pairs of steps by which two threads access one byte without an order."""
    clocks = [[int(one == other) for other in range(threads)] for one in range(threads)]
    seen: dict[int, list[tuple[int, str, int, int]]] = {}
    found = set()
    for number, step in enumerate(made):
        if step.what in ("barrier", "warp"):
            met = step.meeting(threads)
            joint = [max(column) for column in zip(*(clocks[t] for t in met), strict=True)]
            for t in met:
                clocks[t] = joint[:]
                clocks[t][t] += 1
            continue
        for t in (t for t in range(threads) if step.who >> t & 1):
            for byte in range(step.byte(t), step.byte(t) + step.size):
                before = seen.setdefault(byte, [])
                for other, kind, thread, clock in before:
                    harmless = kind == step.what != "write" or thread == t
                    if not harmless and clocks[t][thread] < clock:
                        found.add(tuple(sorted((number, other))))
                before.append((number, step.what, t, clocks[t][t]))
    return found


HEADS = {
    "global": "int* s = x; ",
    "shared": f"__shared__ int s[{CELLS}]; if (t < {CELLS}) s[t] = 0; __syncthreads(); ",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("space", HEADS)
@pytest.mark.parametrize("partial", [False, True], ids=["whole warps", "some lanes"])
def test_the_races_of_random_kernels_are_those_that_clocks_find(space, partial):
    rng = random.Random(f"{space} {partial}")
    blocks = [rng.choice([8, 32, 40, 64]) for _ in range(KERNELS)]
    made = [steps(rng, threads, [4, 2, 1] if i % 2 else [4], partial) for i, threads in enumerate(blocks)]
    text, first = [], []
    for number, each in enumerate(made):
        text.append(
            f'extern "C" __global__ void k{number}(int* x, int* y) {{ int t = threadIdx.x, v = 0; {HEADS[space]}'
        )
        first.append(len(text) + 1)
        text += [*(step.text() for step in each), "y[t] = v;", "}"]
    source = Source("\n".join(text), "random.cu")  # one file, so that it is compiled once
    racing = 0
    for number, (each, threads) in enumerate(zip(made, blocks, strict=True)):
        x, y = (np.zeros(size, np.int32) for size in (CELLS, 64))
        problems = mg.inspect(Kernel(source, f"k{number}"), x, y, grid=1, block=threads, blocks=0).problems
        assert all((p.kind, p.variable) == ("race", "x" if space == "global" else "s") for p in problems), problems
        lines = {tuple(sorted((p.line - first[number], p.other.line - first[number]))) for p in problems}
        wanted = races(each, threads)
        assert lines <= wanted and bool(lines) == bool(wanted), (number, each)
        racing += bool(wanted)
    assert KERNELS / 4 < racing < KERNELS  # of either kind there are some
