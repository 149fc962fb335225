"""Each pass switched off, alone and with all others: a slower adjoint, and the same gradients."""

import sys
from functools import partial

import adjoint_oracle as oracle
import numpy as np
import pytest
from adjoint_random import BLOCK, Writer
from adjoint_random_forms import Forms
from adjoint_rungs import RUNGS

import minigrad as mg
from minigrad.adjoint import Adjoint, NotDifferentiable
from minigrad.adjoint.analyse import analyse
from minigrad.adjoint.decide.store_or_recompute import Storage, decide
from minigrad.adjoint.derive import derive
from minigrad.adjoint.language.ast import Assign, Index, Name
from minigrad.adjoint.language.file import parse
from minigrad.adjoint.language.rewrite import flatten
from minigrad.adjoint.passes import PASSES

OPTIONAL = [p.name for p in PASSES if not p.required]
KERNELS = {kernel.name: rung for rung, (kernel, *_) in reversed(RUNGS.items())}
WIDE = 2 * BLOCK
WRITERS = {
    Writer: {"x": (WIDE,), "w": (3,), "a": 0.4, "z": (WIDE,), "y": (WIDE,), "n": 4},
    Forms: {"x": (WIDE,), "w": (3,), "a": 0.4, "b": 0.8, "z": (WIDE,), "y": (WIDE,), "o": (WIDE,), "acc": (3,),
            "n": WIDE},
}  # fmt: skip


def without(names, kernel, wrt=None):
    """The adjoint of a kernel by all passes but these."""
    with pytest.MonkeyPatch.context() as patch:
        some = partial(derive, passes=[p for p in PASSES if p.name not in names])
        patch.setattr(sys.modules["minigrad.adjoint.adjoint"], "derive", some)
        return Adjoint(kernel, wrt)


def check_rung(rung, names, known=()):
    """Check an adjoint, unless its source is among those known. Returns the source."""
    kernel, args, grid, block = RUNGS[rung]
    made = without(names, kernel)
    if made.source not in known:
        oracle.check(made, args, grid, block)
    return made.source


def check_random(writer, seed, names):
    sizes, rng = WRITERS[writer], np.random.default_rng(seed)
    try:
        made = without(names, mg.kernel(writer(seed).kernel(), "f"), [n for n in sizes if n not in ("y", "n")])
    except NotDifferentiable:
        return
    args = [rng.standard_normal(size) if isinstance(size, tuple) else size for size in sizes.values()]
    oracle.check(made, args, 2, BLOCK)


@pytest.mark.parametrize("name", KERNELS)
def test_the_plain_adjoint_is_right(name):
    """Only the passes that are required: every sum in memory that no statement owns is an atomic."""
    source = check_rung(KERNELS[name], OPTIONAL)
    assert not any(word in source for word in ("warp_add", "block_add", "near", "_of["))


@pytest.mark.parametrize("name", OPTIONAL)
def test_each_pass_can_be_left_out(name):
    """On three kernels of the ladder that it changes, and there is none that changes nothing."""
    changed = 0
    for rung in KERNELS.values():
        source = without((), RUNGS[rung][0]).source
        changed += check_rung(rung, [name], [source]) != source
        if changed == 3:
            break
    assert changed


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("seed", range(3))
def test_random_kernels_without_passes(writer, seed):
    check_random(writer, seed, OPTIONAL)


@pytest.mark.soak
@pytest.mark.parametrize("name", OPTIONAL)
def test_each_pass_left_out_on_all_kernels(name):
    for rung in RUNGS:
        check_rung(rung, [name], [without((), RUNGS[rung][0]).source])
    for writer in WRITERS:
        for seed in range(100, 140):
            check_random(writer, seed, [name])


@pytest.mark.soak
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_random_kernels(writer, seed):
    """As they are, without any pass, and without a random half of them."""
    rng = np.random.default_rng(seed)
    for names in ((), OPTIONAL, [name for name in OPTIONAL if rng.random() < 0.5]):
        check_random(writer, seed, names)


LOOP = """extern "C" __global__ void f(const double* x, double* c, double* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double v = x[i], w = 2;
    for (int r = 0; r < m; ++r) {
        for (int j = 0; j < BOUND; ++j) { v = v * c[i]; }
        double u = w * v;
        w = u * x[i];
        c[i] = w;
    }
    y[i] = v * w;
}"""


@pytest.mark.parametrize(("bound", "storage"), [("n", Storage.TAPE), ("(int)v", Storage.LOST)])
def test_the_plan_says_where_each_value_is_found(bound, storage):
    """x is never overwritten, u is set again by the iteration, w overwritten in it; c changes in the loop around."""
    facts = analyse(parse(LOOP.replace("BOUND", bound), "f.cu", "f", {}), ["x", "c"])
    plan = decide(facts, facts.flow)
    line = {s.place.line: s for s in flatten(facts.flow) if isinstance(s, Assign) and id(s) in plan.points}
    element = Index("c", (Name("i", "int"),), "double")
    assert plan.storage(line[5], element) is storage
    assert plan.storage(line[5], Name("v", "double")) is Storage.REGISTER
    assert plan.storage(line[7], Index("x", (Name("i", "int"),), "double")) is Storage.REREAD
    assert plan.storage(line[7], Name("u", "double")) is Storage.RECOMPUTE
    assert plan.storage(line[8], Name("w", "double")) is Storage.RECOMPUTE
