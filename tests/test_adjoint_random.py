"""Random kernels: their adjoints agree with the complex step, or they are refused. Never wrong in silence."""

import adjoint_oracle as oracle
import numpy as np
import pytest
from adjoint_random import BLOCK, Writer
from adjoint_random_forms import Forms

import minigrad as mg
from minigrad.adjoint import Refused

WIDE = 2 * BLOCK


def right_or_refused(source, seed, sizes, wrt):
    """Differentiate a kernel whose parameters have these sizes: a number of elements, (), or an int as it is."""
    try:
        made = mg.adjoint(source, wrt=wrt, name="f")
    except Refused as refused:
        assert "f.cu:" in str(refused)
        return
    rng, names = np.random.default_rng(seed), list(sizes)
    args = [rng.standard_normal(size) if isinstance(size, tuple) else size for size in sizes.values()]
    dy = [rng.standard_normal(args[names.index(name)].shape) for name in made.outputs]
    on_sim = [mg.tensor(v, device="sim") if isinstance(v, np.ndarray) else v for v in args]
    with mg.microscope.watching() as report:
        found = made.vjp(*on_sim, dy=[mg.tensor(d, device="sim") for d in dy], grid=2, block=BLOCK)
    assert not report.problems
    gradients = dict(zip(made.wrt, (d.numpy() for d in found), strict=True))
    v = {n: rng.standard_normal(np.shape(args[names.index(n)])) for n in made.wrt}
    jv = oracle.directional(made, args, v, 2, BLOCK)
    forward = sum(np.vdot(w, jv[n]) for n, w in zip(made.outputs, dy, strict=True))
    backward = sum(np.vdot(gradients[n], v[n]) for n in made.wrt)
    scale = sum(np.vdot(np.abs(gradients[n]), np.abs(v[n])) for n in made.wrt)
    assert abs(forward - backward) <= 1e-11 * scale


@pytest.mark.parametrize("seed", [*range(24), 99])
def test_loops_jumps_and_arrays(seed):
    sizes = {"x": (WIDE,), "w": (3,), "a": 0.4, "z": (WIDE,), "y": (WIDE,), "n": 4}
    right_or_refused(Writer(seed).kernel(), seed, sizes, ["x", "w", "a", "z"])


@pytest.mark.parametrize("seed", range(14, 30))
def test_mixed_forms(seed):
    """24 found that the first values of an array were taken to have a gradient after they had been overwritten."""
    sizes = dict.fromkeys("xzyo", (WIDE,)) | {"w": (3,), "acc": (3,), "a": 0.4, "b": 0.8, "n": WIDE}
    sizes = {name: sizes[name] for name in ("x", "w", "a", "b", "z", "y", "o", "acc", "n")}
    right_or_refused(Forms(seed).kernel(), seed, sizes, ["x", "w", "a", "b", "z", "o", "acc"])
