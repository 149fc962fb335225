"""Races of random kernels against full vector clocks: no false positives, no kernel with a race missed."""

import random

import numpy as np
import pytest

import minigrad as mg
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

CELLS, KERNELS = 8, 20
Step = tuple[str, int, int, int]  # operation, mask of threads, times, plus: element (t * times + plus) % CELLS


def steps(rng: random.Random, threads: int) -> list[Step]:
    """Reads, writes, atomics, barriers, and __syncwarp of some lanes: (operation, warp, lanes, 0)."""
    made = []
    for what in rng.choices(["read", "write", "atomic", "barrier", "warp"], [3, 3, 1, 1, 2], k=rng.randint(3, 9)):
        some = [(1 << threads) - 1, 1 << rng.randrange(threads) | 1, rng.getrandbits(threads)]
        if what == "warp":
            warp = rng.randrange((threads + 31) // 32)
            made.append((what, warp, rng.choice(some) >> 32 * warp & 0xFFFFFFFF or 1, 0))
        else:
            made.append((what, rng.choice(some), rng.choice([0, 1, 1, 2, 3]), rng.randrange(CELLS)))
    return made


def line(step: Step) -> str:
    what, who, times, plus = step
    at = f"x[(t * {times} + {plus}) % {CELLS}]"
    lanes = f"if (t / 32 == {who} && {times}u >> t % 32 & 1)"
    does = {"read": f"v += {at};", "write": f"{at} = t;", "atomic": f"atomicAdd(&{at}, 1);"}
    if what in does:
        return f"if ({who}ull >> t & 1) {does[what]}"
    return "__syncthreads();" if what == "barrier" else f"{lanes} __syncwarp({times}u);"


def races(made: list[Step], threads: int) -> set[tuple[int, ...]]:
    """The pairs of steps by which two threads access one element without an order."""
    clocks = [[int(one == other) for other in range(threads)] for one in range(threads)]
    seen: dict[int, list[tuple[int, str, int, int]]] = {}
    found = set()
    for number, (what, who, times, plus) in enumerate(made):
        if what in ("barrier", "warp"):
            met = [t for t in range(threads) if what == "barrier" or (t // 32 == who and times >> t % 32 & 1)]
            joint = [max(column) for column in zip(*(clocks[t] for t in met), strict=True)]
            for t in met:
                clocks[t] = joint[:]
                clocks[t][t] += 1
            continue
        for t in (t for t in range(threads) if who >> t & 1):
            before = seen.setdefault((t * times + plus) % CELLS, [])
            for other, kind, thread, clock in before:
                harmless = kind == what != "write" or thread == t
                if not harmless and clocks[t][thread] < clock:
                    found.add(tuple(sorted((number, other))))
            before.append((number, what, t, clocks[t][t]))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_races_of_random_kernels_are_those_that_clocks_find(seed):
    rng = random.Random(seed)
    blocks = [rng.choice([8, 32, 40, 64]) for _ in range(KERNELS)]
    made = [steps(rng, threads) for threads in blocks]
    text, first = [], []
    for number, each in enumerate(made):
        text.append(f'extern "C" __global__ void k{number}(int* x, int* y) {{ int t = threadIdx.x, v = 0;')
        first.append(len(text) + 1)
        text += [*map(line, each), "y[t] = v;", "}"]
    source = Source("\n".join(text), "random.cu")  # one file, so that it is compiled once
    for number, (each, threads) in enumerate(zip(made, blocks, strict=True)):
        x, y = (np.zeros(size, np.int32) for size in (CELLS, 64))
        problems = mg.inspect(Kernel(source, f"k{number}"), x, y, grid=1, block=threads).problems
        assert all((problem.kind, problem.variable) == ("race", "x") for problem in problems), problems
        lines = {tuple(sorted((p.line - first[number], p.other.line - first[number]))) for p in problems}
        wanted = races(each, threads)
        assert lines <= wanted and bool(lines) == bool(wanted), (number, each)
