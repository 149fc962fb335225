"""Random kernels: their adjoints agree with the complex step, by all passes and by some, or they are rejected."""

import adjoint_oracle as oracle
import numpy as np
import pytest
from adjoint_random import BLOCK, Writer
from adjoint_random_forms import Forms
from adjoint_random_indices import Indices

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.errors import KernelError

WIDE = (2 * BLOCK,)
WRITERS = {  # parameters: the shape of an array of random numbers, or the value
    Writer: {"x": WIDE, "w": (3,), "a": 0.4, "z": WIDE, "y": WIDE, "n": 4},
    Forms: {"x": WIDE, "w": (3,), "a": 0.4, "b": 0.8, "z": WIDE, "y": WIDE, "o": WIDE, "acc": (3,), "n": WIDE[0]},
    Indices: {"x": WIDE, "k": np.arange(*WIDE, dtype=np.int32), "w": (2,), "a": 0.4, "z": (4 * BLOCK,), "y": WIDE,
              "o": (2,), "n": WIDE[0], "zero": 0, "one": 1},
}  # fmt: skip


def check(writer, seed, off=()):
    """Compare the adjoint of a random kernel by all passes but these, unless the kernel is rejected."""
    sizes = WRITERS[writer]
    wrt = [name for name, size in sizes.items() if isinstance(size, tuple | float) and name != "y"]
    try:
        made = oracle.without(off, mg.kernel(writer(seed).kernel(), "f"), wrt)
    except NotDifferentiable as error:
        assert "f.cu:" in str(error)
        return
    oracle.check(made, inputs(writer, seed), 2, BLOCK)


def inputs(writer, seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(size) if isinstance(size, tuple) else size for size in WRITERS[writer].values()]


def results(writer, seed):
    """The arrays of the kernel itself, by name, after a run on the inputs of `check`; None where barriers diverge."""
    args = [mg.tensor(x, device="sim") if isinstance(x, np.ndarray) else x for x in inputs(writer, seed)]
    try:
        mg.kernel(writer(seed).kernel(), "f")(*args, grid=2, block=BLOCK)
    except KernelError as error:
        assert error.kind == "barrier-divergence"
        return None  # `check` sees that the adjoint is rejected
    return {n: x.numpy() for n, x in zip(WRITERS[writer], args, strict=True) if isinstance(x, mg.Tensor)}


@pytest.mark.sample(9)
@pytest.mark.parametrize("seed", [*range(8), 99])
def test_loops_jumps_and_arrays(seed):
    check(Writer, seed)


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(20, 28))
def test_mixed_forms(seed):
    """24 found that the first values of an array were taken to have a gradient after they had been overwritten."""
    check(Forms, seed)


@pytest.mark.parametrize("seed", range(4))
def test_indices_written_in_several_ways(seed):
    check(Indices, seed)
    file = mg.adjoint(mg.kernel(Indices(seed).kernel(), "f")).file
    read = oracle.run(file, inputs(Indices, seed), 2, BLOCK)
    for name, value in results(Indices, seed).items():  # the parser reads the text as the compiler does
        np.testing.assert_allclose(np.real(read[name]), value, rtol=1e-9)


@pytest.mark.sample(6)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("seed", range(3))
def test_without_passes(writer, seed):
    check(writer, seed, oracle.OPTIONAL)


@pytest.mark.soak
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_many_kernels(writer, seed):
    """By all passes, by the required ones, and without a random half of the others."""
    after = results(writer, seed)
    if after is not None and not all(np.isfinite(x).all() for x in after.values()):
        pytest.skip(f"kernel {seed} of {writer.__name__} overflows, so it has no derivative to compare with")
    rng = np.random.default_rng(seed)
    for off in ((), oracle.OPTIONAL, [name for name in oracle.OPTIONAL if rng.random() < 0.5]):
        check(writer, seed, off)


@pytest.mark.soak
@pytest.mark.parametrize("name", oracle.OPTIONAL)
@pytest.mark.parametrize("writer", WRITERS)
def test_many_kernels_without_one_pass(writer, name):
    for seed in range(100, 140):
        check(writer, seed, [name])
