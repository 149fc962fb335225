"""Each statement of an adjoint matters: without it, a value is wrong or the microscope finds a race.

An atomic made a plain += leaves the values on `sim` as they were, or not; the race is found either way.
"""

import copy
from dataclasses import replace

import numpy as np
import pytest
from adjoint_rungs import RUNGS

import minigrad as mg
from minigrad.adjoint.assemble import assemble
from minigrad.adjoint.effects import nested
from minigrad.adjoint.printer import statements
from minigrad.adjoint.tree import Add, Assign, Barrier, Do
from minigrad.errors import KernelError
from minigrad.microscope import watching

MUTATED = ["axpy", "product", "horner", "break", "scatter", "stencil tiled", "block max", "matmul"]


def bodies(body):
    """Every list of statements inside a body, and itself."""
    yield body
    for s in body:
        for inner in nested(s):
            yield from bodies(inner)


def mutants(made):
    """Adjoints with one statement left out, or one atomic made plain, each with its text."""
    for number, original in enumerate(bodies(made.derived.body)):
        for at, s in enumerate(original):
            if isinstance(s, Assign | Add | Do | Barrier):
                text = statements([s], 0)[0]
                yield f"without {text}", changed(made, number, at, [])
            if isinstance(s, Add):
                yield f"plain {text}", changed(made, number, at, [Assign(s.target, "+=", s.value)])


def changed(made, number, at, instead):
    """The adjoint with other statements in the place of one."""
    other = copy.copy(made)
    body = copy.deepcopy(made.derived.body)
    place = list(bodies(body))[number]
    place[at : at + 1] = instead
    other.derived = replace(made.derived, body=body)
    other.assembled = assemble(made.module, other.derived)
    other.__dict__.pop("kernel", None)
    return other


def run(made, rung):
    """The gradients, and what the microscope finds."""
    _, args, grid, block = RUNGS[rung]
    on_sim = [mg.tensor(a, device="sim") if isinstance(a, np.ndarray) else a for a in args]
    names = [p.name for p in made.module.kernel.params]
    rng = np.random.default_rng(3)
    dy = [mg.tensor(rng.standard_normal(args[names.index(n)].shape), device="sim") for n in made.outputs]
    with watching() as report:
        found = made.vjp(*on_sim, dy=dy, grid=grid, block=block)
    return np.concatenate([d.numpy().ravel() for d in found]), report.problems


@pytest.mark.parametrize("rung", MUTATED)
def test_no_statement_can_be_left_out(rung):
    made = mg.adjoint(RUNGS[rung][0])
    right, problems = run(made, rung)
    assert not problems
    alive = []
    for what, mutant in mutants(made):
        try:
            value, problems = run(mutant, rung)
        except KernelError:
            continue
        if not problems and np.allclose(value, right, rtol=1e-9, atol=1e-9):
            alive.append(what)
    assert not alive


@pytest.mark.parametrize("rung", RUNGS)
def test_no_adjoint_has_a_race(rung):
    assert not run(mg.adjoint(RUNGS[rung][0]), rung)[1]
