"""Races in random programs against the definition: two accesses that neither a barrier nor a __syncwarp orders."""

import random

import numpy as np

import minigrad as mg
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

BARRIER, WARP = "__syncthreads();", "__syncwarp();"
DOES = {"read": "v += {};", "write": "{} = t;", "atomic": "atomicAdd(&{}, 1);"}
# An element or a part of one, and its bytes.
PLACES = {"s[0]": (0, 4), "s[1]": (4, 8), "s[2]": (8, 12), "((short*)s)[1]": (2, 4), "((char*)s)[5]": (5, 6)}
START = "__shared__ int s[3]; int t = threadIdx.x, v = 0; if (t < 3) s[t] = 0; __syncthreads();"
FIRST = 3  # the line of the first step in the text of a program


def program(rng: random.Random) -> list:
    """Steps for two warps: barriers, and accesses of a few threads to one of three elements or a part of one."""
    steps = []
    for _ in range(rng.randint(4, 10)):
        threads = {(rng.randrange(64) + rng.choice([0, 1, 31, 32]) * j) % 64 for j in range(rng.randint(1, 3))}
        kind = rng.choice(["read", "read", "write", "write", "atomic"])
        access = (kind, tuple(sorted(threads)), rng.choice([*PLACES][: 3 if kind == "atomic" else None]))
        steps.append(rng.choices([BARRIER, WARP, access], [4, 3, 5])[0])
    return steps


def text(number: int, steps: list) -> str:
    lines = [f'extern "C" __global__ void k{number}(int* y) {{', START]
    for step in steps:
        if isinstance(step, str):
            lines.append(step)
        else:
            kind, threads, place = step
            lines.append(f"if ({' || '.join(f't == {t}' for t in threads)}) {DOES[kind].format(place)}")
    return "\n".join([*lines, "y[t] = v; }", ""])


def races(steps: list) -> set[frozenset[int]]:
    """The pairs of lines with racing accesses."""
    found, before = set(), []
    barriers = meetings = 0
    for line, step in enumerate(steps, FIRST):
        barriers += step == BARRIER
        meetings += step == WARP
        if isinstance(step, str):
            continue
        kind, threads, place = step
        start, stop = PLACES[place]
        for thread in threads:
            for other, at, one, (first, last), passed, met in before:
                apart = stop <= first or last <= start
                harmless = one == thread or apart or kind == other != "write"
                together = passed == barriers and (one // 32 != thread // 32 or met == meetings)
                if together and not harmless:
                    found.add(frozenset((line, at)))
            before.append((kind, line, thread, (start, stop), barriers, meetings))
    return found


def test_a_program_has_a_race_where_the_definition_says_so():
    rng = random.Random(0)
    programs = [program(rng) for _ in range(16)]
    source = "".join(text(number, steps) for number, steps in enumerate(programs))
    file, racing = Source(source, "random.cu"), 0  # one file, so that it is compiled once
    for number, steps in enumerate(programs):
        start = source[: source.index(f"void k{number}(")].count("\n")
        problems = mg.inspect(Kernel(file, f"k{number}"), np.zeros(64, np.int32), grid=1, block=64, blocks=0).problems
        found = {frozenset((problem.line - start, problem.other.line - start)) for problem in problems}
        assert found <= races(steps), text(number, steps)
        assert bool(found) == bool(races(steps)), text(number, steps)
        racing += bool(found)
    assert 3 < racing < 13
