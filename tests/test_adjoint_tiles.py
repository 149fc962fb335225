"""Blocks of two axes, and tiles in shared memory as kernels have them, against the complex step."""

import adjoint_oracle as oracle
import numpy as np

import minigrad as mg

RNG = np.random.default_rng(3)


def test_every_thread_of_a_block_of_two_axes_has_its_own_tape():
    """The grid has one axis, and the block two, of which the index tells the extents."""
    made = mg.adjoint("""
#define T 4
extern "C" __global__ void f(const double* x, double* y, int rounds) {
    int i = (blockIdx.x * T + threadIdx.y) * T + threadIdx.x;
    double p = 1;
    for (int r = 0; r < rounds; ++r) p = p * sin(p + x[i * rounds + r]);
    y[i] = p;
}""")
    oracle.check(made, [RNG.standard_normal(96), np.zeros(32), 3], 2, (4, 4))
