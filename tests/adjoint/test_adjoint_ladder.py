"""The ladder: the adjoint of each kernel against the complex step of the kernel itself."""

import adjoint_oracle as oracle
import numpy as np
import pytest
from adjoint_rungs import RUNGS, on_sim

import minigrad as mg


def vjp(made, args, dy, grid, block):
    """The gradients on `sim`, by name, as NumPy arrays."""
    found = made.vjp(*on_sim(args), dy=on_sim(dy), grid=grid, block=block)
    return dict(zip(made.wrt, (d.numpy() for d in found), strict=True))


def upstream(made, args):
    names = [p.name for p in made.file.kernel.params]
    rng = np.random.default_rng(3)
    return [rng.standard_normal(args[names.index(n)].shape) for n in made.outputs]


@pytest.mark.sample(3)
@pytest.mark.parametrize("rung", RUNGS)
def test_the_adjoint_is_the_transpose(rung):
    """<w, J v> = <J^T w, v> with J v by the complex step of the kernel's own source."""
    kernel, args, grid, block = RUNGS[rung]
    made = mg.adjoint(kernel)
    dy, rng = upstream(made, args), np.random.default_rng(4)
    gradients = vjp(made, args, dy, grid, block)
    names = [p.name for p in made.file.kernel.params]
    for _ in range(2):
        v = {n: rng.standard_normal(np.shape(args[names.index(n)])) for n in made.wrt}
        jv = oracle.directional(made, args, v, grid, block)
        forward = sum(np.vdot(w, jv[n]) for n, w in zip(made.outputs, dy, strict=True))
        backward = sum(np.vdot(gradients[n], v[n]) for n in made.wrt)
        scale = sum(np.vdot(np.abs(gradients[n]), np.abs(v[n])) for n in made.wrt)
        assert abs(forward - backward) < 1e-12 * scale


@pytest.mark.sample(3)
@pytest.mark.parametrize("rung", RUNGS)
def test_the_oracle_runs_the_kernel(rung):
    """The complex interpreter and `sim` agree on the kernel's own outputs."""
    kernel, args, grid, block = RUNGS[rung]
    made = mg.adjoint(kernel)
    named = dict(zip((p.name for p in made.file.kernel.params), on_sim(args), strict=True))
    kernel(*named.values(), grid=grid, block=block)
    wanted = oracle.run(made.file, args, grid, block)
    for name in made.outputs:
        np.testing.assert_allclose(named[name].numpy(), wanted[name].real, rtol=1e-12, atol=1e-12)
