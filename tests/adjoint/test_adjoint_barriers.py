"""Barriers of warps, barriers behind a return, and loops of one name: each against central differences."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import NotDifferentiable

THREADS = 64
HEAD = "__shared__ double s[64]; int t = threadIdx.x; "
RIGHT = {
    "the last warp of a sum": "s[t] = x[t] * x[t]; __syncthreads(); if (t < 32) { s[t] += s[t + 32]; __syncwarp();\n"
    "if (t < 16) s[t] += s[t + 16]; __syncwarp(); if (t < 8) s[t] += s[t + 8]; __syncwarp(); }\n"
    "__syncthreads(); y[t] = s[t % 8] * x[t];",
    "a loop of a warp": "s[t] = x[t]; __syncthreads(); if (t < 32) { for (int k = 0; k < 3; k++) {\n"
    "double a = s[t] * s[(t + 1) % 32]; __syncwarp(); s[t] = a; __syncwarp(); } }\n"
    "__syncthreads(); y[t] = s[t % 32] * s[t];",
    "memory that a warp fills in each turn": "double v = 0; s[t] = x[t]; __syncthreads();\n"
    "if (t < 32) { for (int k = 0; k < 3; k++) { s[t] = v + x[(t + k) % 64]; __syncwarp();\n"
    "v += s[31 - t] * s[t + 32]; __syncwarp(); } } y[t] = v * x[t];",
    "a warp by its number": "s[t] = x[t] * x[t]; int w = t / 32, l = t % 32; __syncthreads();\n"
    "if (w == 1) { double a = s[32 + (l + 1) % 32]; __syncwarp(); s[t] = a * a; __syncwarp(); y[l] = s[63 - l] * a; }",
    "both sides": "s[t] = x[t]; if (t >= 32) { __syncwarp(); y[t] = s[95 - t] * s[t]; }\n"
    "else { __syncwarp(); y[t] = s[31 - t]; }",
    "a return": "if (t >= n) return; s[t] = x[t] * x[t]; __syncthreads(); y[t] = s[n - 1 - t] * x[t];",
    "a return in a branch": "if (n > 3) { if (t >= n) return; } s[t] = x[t] * x[t]; __syncthreads();\n"
    "y[t] = s[n - 1 - t] * x[t];",
    "a return behind a value": "double c = x[t] * a; if (t >= n) { y[t] = c; return; } s[t] = c * c;\n"
    "__syncthreads(); y[t] = s[n - 1 - t] * c;",
    "two returns, with values ahead of each": "double c = x[t] * x[t]; if (t >= n) { y[t] = c; return; } c *= x[t];\n"
    "if (c < 0.4) return; s[t] = c; __syncthreads(); y[t] = s[t] * c;",
    "a return and tiles": "if (t >= n) return; double v = 0; for (int k = 0; k < 2; k++) { s[t] = a * x[(t + k) % n];\n"
    "__syncthreads(); for (int j = 0; j < 8; j++) v += s[j] * x[j]; __syncthreads(); } y[t] = v;",
    "a return and tiles of what was there": "if (t >= n) return; double v = 0; for (int k = 0; k < 2; k++) {\n"
    "s[t] = v + x[(t + k) % n]; __syncthreads(); v += s[(t + 1) % n] * x[t]; __syncthreads(); } y[t] = v;",
    "two loops of one name": "double v = 0; for (int k = 0; k < t % 3; k++) v += x[k]; for (int k = 0; k < 3; k++) {\n"
    "s[t] = v * x[t]; __syncthreads(); v += s[(t + k) % 64]; __syncthreads(); } y[t] = v;",
    "two loops of one name, the second for some": "double v = 0; int k; for (k = 0; k < 3; k++) {\n"
    "s[t] = v + x[t]; __syncthreads(); v += s[(t + k) % 64] * x[t]; __syncthreads(); }\n"
    "for (k = 0; k < t; k++) v += x[k] * 0.1; y[t] = v;",
}


def text(body):
    return f"__global__ void f(const double* x, double* y, double a, int n) {{\n{HEAD}{body}\n}}"


@pytest.mark.sample(2)
@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_right(body):
    kernel, rng, n = mg.kernel(text(body), "f"), np.random.default_rng(3), 50
    x, w, d = rng.standard_normal((3, THREADS))

    def value(x, a):
        y = mg.zeros(THREADS, dtype="float64", device="sim")
        kernel(mg.tensor(x, device="sim"), y, a, n, grid=1, block=THREADS)
        return w @ y.numpy()

    made = mg.adjoint(kernel, ["x", "a"])
    dx, da = made.vjp(x, 0 * x, 1.5, n, dy=[w], grid=1, block=THREADS)
    h = 1e-6
    np.testing.assert_allclose(dx @ d, (value(x + h * d, 1.5) - value(x - h * d, 1.5)) / (2 * h), rtol=1e-6)
    np.testing.assert_allclose(np.sum(da), (value(x, 1.5 + h) - value(x, 1.5 - h)) / (2 * h), rtol=1e-6, atol=1e-8)
    records = made.inspect(x, 0 * x, 1.5, n, dy=[w], grid=1, block=THREADS)
    assert {p.kind for r in records for p in r.problems} <= {"missed-barrier"}, "as of the kernel, if threads return"
    assert not any("gone around" in p.message for r in records for p in r.problems)


REFUSED = {
    "s[t] = x[t]; if (t < 16) { __syncwarp(); y[t] = s[15 - t]; }": "2:74: __syncwarp() that only some threads reach",
    "s[t] = x[t]; if (t >= n) return; __syncthreads(); y[t] = s[3];": "Leave out the return, and put the statements",
    "for (int k = 0; k < n; k++) { if (t > k) return; __syncthreads(); } y[t] = x[t];": "that only some threads",
    "for (int k = 0; k < 2; k++) y[t] = x[k]; for (int k = 0; k < t; k++) __syncthreads();": "that only some threads",
}


@pytest.mark.parametrize(("body", "why"), REFUSED.items())
def test_refused(body, why):
    with pytest.raises(NotDifferentiable, match=re.escape(why)):
        mg.adjoint(text(body), name="f")
