"""Each pass switched off, alone and with all others: a slower adjoint with the same gradients. And the storage plan."""

from dataclasses import replace

import adjoint_oracle as oracle
import pytest
from adjoint_rungs import RUNGS

from minigrad.adjoint.analyse import analyse
from minigrad.adjoint.decide.store_or_recompute import Storage, decide
from minigrad.adjoint.frontend.file import parse
from minigrad.adjoint.language.ast import Assign, Index, Name
from minigrad.adjoint.language.rewrite import flatten

KERNELS = {kernel.name: rung for rung, (kernel, *_) in reversed(RUNGS.items())}


def check(rung, off, known=()):
    """Check an adjoint, unless its source is among those known. Returns the source."""
    kernel, args, grid, block = RUNGS[rung]
    made = oracle.without(off, kernel)
    if made.source not in known:
        oracle.check(made, args, grid, block)
    return made.source


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", KERNELS)
def test_the_plain_adjoint_is_right(name):
    """Only the passes that are required: every sum in memory that no statement owns is an atomic."""
    source = check(KERNELS[name], oracle.OPTIONAL)
    assert not any(word in source for word in ("warp_add", "block_add", "near", "_of["))


# Every third one, and the others by `make soak`: each derives and compiles the whole set anew. No loop of the ladder is
# so long that it is kept rolled; test_adjoint_rows.py has one.
OTHERS = [name for name in oracle.OPTIONAL if name != "keep rolled"]
EACH = [pytest.param(name, marks=[pytest.mark.soak] * (i % 3 > 0)) for i, name in enumerate(OTHERS)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", EACH)
def test_each_pass_can_be_left_out(name):
    """On three kernels of the ladder that it changes, and there is none that changes nothing."""
    changed = 0
    for rung in KERNELS.values():
        source = oracle.without((), RUNGS[rung][0]).source
        changed += check(rung, [name], [source]) != source
        if changed == 3:
            break
    assert changed


@pytest.mark.soak
@pytest.mark.parametrize("name", oracle.OPTIONAL)
def test_each_pass_left_out_on_all_kernels(name):
    for rung in RUNGS:
        check(rung, [name], [oracle.without((), RUNGS[rung][0]).source])


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
def test_the_plan_says_which_values_are_saved_and_where(bound, storage):
    """x is never overwritten, u is set again by the iteration, w overwritten in it; c changes in the loop around."""
    facts = analyse(parse(LOOP.replace("BOUND", bound), "f.cu", "f", {}), ["x", "c"])
    plan = decide(facts, facts.flow)
    line = {s.place.line: s for s in flatten(facts.flow) if isinstance(s, Assign) and id(s) in plan.points}
    element = Index("c", (Name("i", "int"),), "double")
    v, u, w = (Name(n, "double") for n in "vuw")
    for saved, where in ((element, storage), (v, Storage.REGISTER)):
        assert plan.changed(line[5], saved) and plan.saved_in(line[5], saved) is where
    for s, found in ((line[7], replace(element, array="x")), (line[7], u), (line[8], w)):
        assert not plan.changed(s, found), "reread or recomputed"
