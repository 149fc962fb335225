"""Random kernels: their adjoints agree with the complex step, or they are refused. Never wrong in silence."""

import adjoint_oracle as oracle
import numpy as np
import pytest
from adjoint_random import BLOCK, Writer
from adjoint_random_forms import Forms

import minigrad as mg
from minigrad.adjoint import NotDifferentiable

WIDE = 2 * BLOCK


def right_or_refused(source, seed, sizes, wrt):
    """Differentiate a kernel whose parameters have these sizes: a number of elements, (), or an int as it is."""
    try:
        made = mg.adjoint(source, wrt=wrt, name="f")
    except NotDifferentiable as refused:
        assert "f.cu:" in str(refused)
        return
    rng = np.random.default_rng(seed)
    args = [rng.standard_normal(size) if isinstance(size, tuple) else size for size in sizes.values()]
    oracle.check(made, args, 2, BLOCK)


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
