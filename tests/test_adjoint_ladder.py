"""The ladder: kernels from axpy upwards, each adjoint against the complex step, and against what is known of it."""

import adjoint_oracle as oracle
import numpy as np
import pytest

import minigrad as mg
from minigrad.kernel import Kernel
from minigrad.source import Source

RNG = np.random.default_rng(5)
INDEX = RNG.integers(0, 50, 100).astype(np.int32)


def normal(*shape):
    return RNG.standard_normal(shape)


def ladder(file, name, **defines):
    return Kernel(Source.read(f"adjoint/{file}.cu"), name, defines=defines)


# kernel, arguments, grid, block
RUNGS = {
    "axpy": (ladder("axpy", "axpy"), [1.5, normal(100), normal(100), 100], 4, 32),
    "axpy strided": (ladder("axpy", "axpy_strided"), [1.5, normal(100), normal(100), 100], 2, 32),
    "elementwise": (ladder("elementwise", "elementwise"), [normal(100), 0.3, normal(100), 90], 4, 32),
    "gelu": (ladder("elementwise", "gelu"), [normal(100), normal(100), 100], 4, 32),
    "gather": (ladder("gather", "gather"), [normal(50), INDEX, normal(100), 100], 4, 32),
    "scatter": (ladder("gather", "scatter"), [normal(100), INDEX, normal(50), 100], 4, 32),
    "sum": (ladder("loops", "sum_of_squares"), [normal(20 * 6), normal(20), 20, 6], 1, 32),
    "product": (ladder("loops", "product"), [normal(20 * 6), normal(20), 20, 6], 1, 32),
    "horner": (ladder("loops", "horner"), [normal(8), normal(20), normal(20), 20], 1, 32),
    "triangular": (ladder("loops", "triangular"), [normal(20 * 6), normal(20), 20, 6], 1, 32),
    "while": (ladder("loops", "eighth_power"), [normal(20), normal(20), 20], 1, 32),
    "break": (ladder("loops", "newton"), [normal(20) ** 2 + 0.5, normal(20), 20], 1, 32),
    "continue": (ladder("loops", "largest"), [normal(20 * 6), normal(20), 20, 6], 1, 32),
    "after the loop": (ladder("loops", "after_the_loop"), [normal(20), normal(6), normal(20), 20, 6], 1, 32),
    "overwrite": (ladder("overwrites", "overwrite"), [normal(20), normal(20), 20], 1, 32),
    "multiply in place": (ladder("overwrites", "multiply_in_place"), [normal(20), normal(20), 20], 1, 32),
    "swap": (ladder("overwrites", "swap_squared"), [normal(20), normal(20), 20], 1, 32),
    "read again": (ladder("overwrites", "read_again"), [normal(20), normal(20), 20], 1, 32),
    "stencil": (ladder("stencil", "laplacian"), [normal(13 * 11), 0.7, normal(13 * 11), 13, 11], (2, 2), (8, 8)),
    "stencil tiled": (
        ladder("stencil", "laplacian_tiled"), [normal(13 * 11), 0.7, normal(13 * 11), 13, 11], (2, 2), (8, 8)
    ),
    "block sum": (ladder("reduction", "block_sum"), [normal(150), normal(3), 150], 3, 64),
    "block max": (ladder("reduction", "block_max"), [normal(150), normal(3), 150], 3, 64),
    "softmax": (ladder("softmax", "softmax"), [normal(3 * 50), normal(3 * 50), 50], 3, 32),
    "matmul": (
        ladder("matmul", "matmul_tiled", TILE=4), [normal(6 * 9), normal(9 * 7), normal(6 * 7), 6, 7, 9], (2, 2), (4, 4)
    ),
}  # fmt: skip


def vjp(made, args, dy, grid, block):
    """The gradients by the adjoint on `sim`, by name, as NumPy arrays."""
    on_sim = [mg.tensor(a, device="sim") if isinstance(a, np.ndarray) else a for a in args]
    found = made.vjp(*on_sim, dy=[mg.tensor(d, device="sim") for d in dy], grid=grid, block=block)
    return dict(zip(made.wrt, (d.numpy() for d in found), strict=True))


def upstream(made, args):
    names = [p.name for p in made.module.kernel.params]
    rng = np.random.default_rng(3)
    return [rng.standard_normal(args[names.index(n)].shape) for n in made.outputs]


@pytest.mark.parametrize("rung", RUNGS)
def test_the_adjoint_is_the_transpose(rung):
    """<w, J v> = <J^T w, v> with J v by the complex step of the kernel's own source."""
    kernel, args, grid, block = RUNGS[rung]
    made = mg.adjoint(kernel)
    dy, rng = upstream(made, args), np.random.default_rng(4)
    gradients = vjp(made, args, dy, grid, block)
    names = [p.name for p in made.module.kernel.params]
    for _ in range(2):
        v = {n: rng.standard_normal(np.shape(args[names.index(n)])) for n in made.wrt}
        jv = oracle.directional(made, args, v, grid, block)
        forward = sum(np.vdot(w, jv[n]) for n, w in zip(made.outputs, dy, strict=True))
        backward = sum(np.vdot(gradients[n], v[n]) for n in made.wrt)
        scale = sum(np.vdot(np.abs(gradients[n]), np.abs(v[n])) for n in made.wrt)
        assert abs(forward - backward) < 1e-12 * scale


@pytest.mark.parametrize("rung", RUNGS)
def test_the_oracle_runs_the_kernel(rung):
    """The complex interpreter and `sim` agree on the kernel's own outputs."""
    kernel, args, grid, block = RUNGS[rung]
    made = mg.adjoint(kernel)
    on_sim = {p.name: mg.tensor(a, device="sim") if isinstance(a, np.ndarray) else a
              for p, a in zip(made.module.kernel.params, args, strict=True)}  # fmt: skip
    kernel(*on_sim.values(), grid=grid, block=block)
    wanted = oracle.run(made.module, args, grid, block)
    for name in made.outputs:
        np.testing.assert_allclose(on_sim[name].numpy(), wanted[name].real, rtol=1e-12, atol=1e-12)
