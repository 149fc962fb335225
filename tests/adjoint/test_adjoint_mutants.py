"""Each statement of an adjoint matters: without it, a value is wrong or the microscope finds a race.

The mutants of an adjoint: one statement left out, the value of one declaration 0, or one atomic made a plain +=. That
last one leaves the values on `sim` as they were, or not; the race is found either way. The mutants of a rung are
kernels of a few files, each in a namespace: fewer compilations, and files small enough to report a race quickly.
"""

import copy
import re

import numpy as np
import pytest
from adjoint_rungs import RUNGS

import minigrad as mg
from minigrad.devices import get
from minigrad.errors import KernelError
from minigrad.kernels.kernel import Kernel
from minigrad.microscope import watching
from minigrad.source import Source

ATOMIC = re.compile(r"(\w+_add|atomicAdd)\(&(.*?), (.*)\);$")
DECLARED = re.compile(r"(?:real|float|double|int|bool) (\w+) = (?!0;)")


CHUNK = 24  # mutants in a file
ADJOINT = re.compile(r"^(__device__ void|extern \"C\" __global__ void) \w+_adjoint\w*\(", re.M)


def parts(source):
    """The head of an adjoint's file with its helpers, and the rest from the first adjoint of a function on."""
    start = ADJOINT.search(source).start()
    return source[:start], source[start:]


def mutants(text):
    """The text with one line changed, and what was done."""
    lines = text.split("\n")
    inside = False
    for n, line in enumerate(lines):
        inside = (bool(re.search(r"_adjoint\w*\(", line)) and line[0] not in " ") or (inside and line != "}")
        words = line.strip()
        if (
            not inside
            or not words.endswith(";")
            or line[0] != " "
            or words.startswith(("//", "for", "const", "__shared__"))
        ):
            continue
        pad = line[: len(line) - len(line.lstrip())]
        if atomic := ATOMIC.match(words):
            yield f"plain {words}", [*lines[:n], f"{pad}{atomic[2]} += {atomic[3]};", *lines[n + 1 :]]
        if declared := DECLARED.match(words):
            yield f"0 in {words}", [*lines[:n], f"{pad}{words[: declared.end()]}0;", *lines[n + 1 :]]
        elif not re.match(r"(real|float|double|int|bool|size_t) ", words) and words not in ("break;", "continue;"):
            yield f"without {words}", [*lines[:n], *lines[n + 1 :]]


def built(made):
    """All mutants as adjoints of their own: {what was done: adjoint}."""
    head, text = parts(made.source)
    names, changed = [entry.name for entry in made.assembled.entries], list(mutants(text))
    spaces = []
    for n, (_, lines) in enumerate(changed):
        space = "\n".join([f"namespace mutant_{n} {{", *lines, "}"])
        for name in names:
            space = space.replace(f" {name}(", f" {name}_{n}(")
        spaces.append(space)
    others = {}
    for n, (what, _) in enumerate(changed):
        if n % CHUNK == 0:
            text = "\n".join([head, *spaces[n : n + CHUNK]])
            source = Source(text, f"mutants_{n}.cu", made.primal.source.folder)
        others[f"{n}: {what}"] = other = copy.copy(made)
        other.__dict__["kernels"] = tuple(Kernel(source, f"{name}_{n}", defines=made.defines) for name in names)
        for kernel in other.kernels:
            kernel.waits = True
    return others


def run(made, rung):
    """The gradients, and what the microscope finds."""
    _, args, grid, block = RUNGS[rung]
    on_sim = [mg.tensor(a, device="sim") if isinstance(a, np.ndarray) else a for a in args]
    names = [p.name for p in made.file.kernel.params]
    rng = np.random.default_rng(3)
    dy = [mg.tensor(rng.standard_normal(args[names.index(n)].shape), device="sim") for n in made.outputs]
    made.slots = 0  # the first try is too short for a tape whose length only the kernel knows
    with watching() as report:
        found = made.vjp(*on_sim, dy=dy, grid=grid, block=block)
    return np.concatenate([d.numpy().ravel() for d in found]), report.problems


def survives(mutant, rung, right):
    """True if neither the values nor the microscope distinguish a mutant from the adjoint."""
    try:
        value, problems = run(mutant, rung)
    except KernelError:
        return False
    return not problems and np.allclose(value, right, rtol=1e-9, atol=1e-9)


KERNELS = {kernel.name: [r for r, (k, *_) in RUNGS.items() if k.name == kernel.name] for kernel, *_ in RUNGS.values()}


LONG = (  # 4 to 30 seconds each
    "dg_volume", "multipole", "equation_of_state", "nbody", "lbm_d2q9", "lbm_d3q19", "cross_sections",
    "laplacian_tiled",
)  # fmt: skip
EACH = [pytest.param(name, marks=pytest.mark.soak) if name in LONG else name for name in KERNELS]


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", EACH)
def test_no_statement_can_be_left_out(name, monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 0.4)  # seconds, of a mutant whose loop has no end
    made = mg.adjoint(RUNGS[KERNELS[name][0]][0])
    alive = built(made)
    for rung in KERNELS[name]:
        right, problems = run(made, rung)
        assert not problems
        alive = {what: mutant for what, mutant in alive.items() if survives(mutant, rung, right)}
    assert not list(alive)


def test_mutants_are_many():
    """So that the test above cannot pass for lack of mutants."""
    made = mg.adjoint(RUNGS["matmul"][0])
    changed = [what for what, _ in mutants(parts(made.source)[1])]
    assert len(changed) == 26 and sum("__syncthreads" in what for what in changed) == 4
    made = mg.adjoint(RUNGS["nbody"][0])
    assert sum(what.startswith("plain") for what, _ in mutants(parts(made.source)[1])) == 5
