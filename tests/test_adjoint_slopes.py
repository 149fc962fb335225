"""Kernels that look harmless, against central differences of the kernel itself; and what is refused instead."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import Refused

N = 8
I = "int i = threadIdx.x; "  # noqa: E741
KERNELS = {
    "a choice of the value itself": "double v = x[i] * x[i]; v = i < 5 ? v : 0.0; y[i] = v;",
    "a cast of the value itself": "double v = x[i] * x[i]; v = (double)v; y[i] = v;",
    "an element chosen again": "y[i] = x[i] * x[i]; y[i] = i < 5 ? y[i] : 0.5;",
    "overwritten by the same thread": "y[i] = x[i]; double v = x[i] * x[i]; y[i] = v;",
    "a neighbour's element after a barrier": "y[i] = x[i]; __syncthreads(); double v = y[(i + 1) % 8]; "
    "__syncthreads(); y[i] = v * v;",
    "stores of neighbours": "y[i] = x[i]; __syncthreads(); if (i < 7) { y[i + 1] = x[i] * x[i]; }",
    "an array not filled in each round": "double a[3] = {1, 1, 1}; double s = 0; for (int j = 0; j < 4; ++j) { "
    "for (int k = 0; k < 3; ++k) { if (k == j) { continue; } a[k] = x[i] * (j + 1); } "
    "for (int k = 0; k < 3; ++k) { s += a[k] * a[k]; } } y[i] = s;",
    "a real that is halved": "double p = x[i]; double s = 1; while (s > 1e-20) { p = p * (1 + s * 1e-3); "
    "s = s / 2; } y[i] = p;",
    "a bound that is real": "double p = 1; int last = (int)(3.0 * x[i]); for (int j = 0; j < 3.0 * x[i]; ++j) { "
    "p = p * x[i]; } y[i] = p + last;",
    "a bound of each thread": "double p = x[i]; for (int j = 0; j <= i; ++j) { p = p * p * 0.9; } y[i] = p;",
}


@pytest.mark.parametrize("body", KERNELS.values(), ids=KERNELS)
def test_slopes(body):
    text = f'extern "C" __global__ void f(const double* x, double* y) {{ {I}{body} }}'
    x, w = 0.6 + 0.3 * np.random.default_rng(2).random(N), np.random.default_rng(3).standard_normal(N)
    kernel = mg.kernel(text, "f")

    def value(x):
        y = mg.tensor(np.zeros(N), device="sim")
        kernel(mg.tensor(x, device="sim"), y, grid=1, block=N)
        return w @ y.numpy()

    inputs = [mg.tensor(x, device="sim"), mg.tensor(np.zeros(N), device="sim")]
    with mg.microscope.watching() as report:
        found = mg.adjoint(text, ["x"]).vjp(*inputs, dy=[mg.tensor(w, device="sim")], grid=1, block=N)[0].numpy()
    assert not report.problems
    steps = 1e-6 * np.eye(N)
    slopes = [(value(x + step) - value(x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(found, slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("head", "body", "words"),
    [
        ("", "double s = 0; for (double u = x[i]; u < 3; u += 0.5) { s += u; } y[i] = s;", "count with an int"),
        ("__device__ double g(double* z, int i) { z[i] = 1; return z[i]; }", "y[i] = g(y, i) * x[i];", "stores into z"),
        ("#define A 1 + 2", "y[i] = A * x[i];", "an expression in parentheses"),
    ],
)
def test_refused(head, body, words):
    with pytest.raises(Refused, match=words):
        mg.adjoint(f'{head}\nextern "C" __global__ void f(const double* x, double* y) {{ {I}{body} }}')
