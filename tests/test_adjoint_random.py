"""Random kernels: their adjoints agree with the complex step, or they are refused. Never wrong in silence."""

import adjoint_oracle as oracle
import numpy as np
import pytest
from adjoint_random import BLOCK, Writer

import minigrad as mg
from minigrad.adjoint import Refused

NAMES = ("x", "w", "a", "z", "y", "n")


@pytest.mark.parametrize("seed", [*range(24), 99])
def test_right_or_refused(seed):
    try:
        made = mg.adjoint(Writer(seed).kernel(), wrt=NAMES[:4], name="f")
    except Refused as refused:
        assert "f.cu:" in str(refused)
        return
    rng = np.random.default_rng(seed)
    wide = 2 * BLOCK
    args = [rng.standard_normal(wide), rng.standard_normal(3), 0.4, *rng.standard_normal((2, wide)), 4]
    dy = [rng.standard_normal(wide) for _ in made.outputs]
    on_sim = [mg.tensor(v, device="sim") if isinstance(v, np.ndarray) else v for v in args]
    found = made.vjp(*on_sim, dy=[mg.tensor(d, device="sim") for d in dy], grid=2, block=BLOCK)
    gradients = dict(zip(made.wrt, (d.numpy() for d in found), strict=True))
    v = {n: rng.standard_normal(np.shape(args[NAMES.index(n)])) for n in made.wrt}
    jv = oracle.directional(made, args, v, 2, BLOCK)
    forward = sum(np.vdot(w, jv[n]) for n, w in zip(made.outputs, dy, strict=True))
    backward = sum(np.vdot(gradients[n], v[n]) for n in made.wrt)
    scale = sum(np.vdot(np.abs(gradients[n]), np.abs(v[n])) for n in made.wrt)
    assert abs(forward - backward) <= 1e-11 * scale
