"""Sums that are gathered, hoisted out of loops or distributed over a warp, against the complex step."""

import adjoint_oracle as oracle
import numpy as np
import pytest

import minigrad as mg

HEAD = """
#define T 4
extern "C" __global__ void f(const double* x, const double* w, double a, double* y) {
    __shared__ double s[T][T], r[6];
    int tx = threadIdx.x, ty = threadIdx.y;
    int at = blockIdx.x * T * T + ty * T + tx;
"""
FILL = "s[ty][tx] = x[at]; __syncthreads(); double v = 0; "
TURNED = {
    "a guard of the value": FILL + "for (int j = 0; j < T; ++j) { if (s[ty][j] > 0.2) { v += s[ty][j] * "
    "s[ty][j]; } } y[at] = v * v;",
    "two loops between barriers": FILL + "for (int j = 0; j < T; ++j) { v += s[ty][j] * w[j]; } double u = v *"
    " v; for (int j = 0; j < T; ++j) { u -= s[j][tx] * v; } y[at] = u;",
    "a private array": "s[ty][tx] = x[at]; double q[3]; q[0] = x[at]; q[1] = a; q[2] = x[at]"
    " * x[at]; __syncthreads(); double v = 0; for (int c = 0; c < 3; ++c)"
    " { for (int j = 0; j < T; ++j) { v += s[j][tx] * q[c] * (c + 1); } }"
    " y[at] = v;",
    "a loop around with a barrier": "double v = 0; for (int k = 0; k < 3; ++k) { s[ty][tx] = x[at] * (k +"
    " a); __syncthreads(); for (int j = 0; j < T; ++j) { v += s[ty][j] * "
    "s[j][tx]; } __syncthreads(); } y[at] = v;",
    "a variable changed between": "double v = 0, u = x[at]; for (int k = 0; k < 3; ++k) { s[ty][tx] = "
    "x[at]; __syncthreads(); for (int j = 0; j < T; ++j) { v += s[ty][j] "
    "* u; } __syncthreads(); u = u * 0.5 + v; } y[at] = v;",
    "a choice": FILL + "for (int j = 0; j < T; ++j) { v += j < tx ? s[ty][j] : s[ty][j] * s[ty][j]; } y[at] = v;",
}
STRAIGHT = {
    "a guard of thread and round": FILL + "for (int j = 0; j < T; ++j) { if (j < tx + 1) { v += s[ty][j] * "
    "w[j]; } } y[at] = v * a;",
    "a value carried around": "s[ty][tx] = x[at]; __syncthreads(); double v = 1; for (int j = 0; j "
    "< T; ++j) { v = v * s[ty][j] + a; } y[at] = v;",
    "the thread in the value": FILL + "for (int j = 0; j < T; ++j) { v += s[ty][j] * (tx + 2 * j) * x[at]; "
    "} y[at] = v;",
    "a function": FILL + "for (int j = 0; j < T; ++j) { v += sin(s[ty][j] * x[at]); } y[at] = v;",
    "continue": FILL + "for (int j = 0; j < T; ++j) { if (j == tx) continue; v += s[ty][j] * w[j]; } y[at] = v;",
    "break": FILL + "for (int j = 0; j < T; ++j) { if (j > tx) break; v += s[ty][j] * w[j]; } y[at] = v;",
    "a sum that all share": "double v = x[at]; for (int j = 0; j < T; ++j) { v += w[j]; } y[at] = v * v;",
    "a sum that some share": "if (tx > 0) { double v = x[at] * 2; for (int j = 0; j < T; ++j) { v "
    "+= w[j]; } y[at] = v * v; }",
    "a sum as long as the thread's number": "double v = x[at] * 2; for (int j = 0; j < tx; ++j) { v += w[j]; } "
    "y[at] = v * v;",
    "a sum for one element": "double v = 0; for (int k = 0; k < 3; ++k) { for (int j = 0; j < T; "
    "++j) { v += x[at] * w[k] * (j + 1) + v * 0.1; } } y[at] = v;",
    "an element read and written": "y[at] = x[at]; for (int k = 0; k < 3; ++k) { y[at] = y[at] + x[at] *"
    " y[at] * 0.3; }",
    "a branch that no round changes": "double v = 0; for (int j = 0; j < T; ++j) { if (a > 0.1) { v += x[at] * "
    "w[j]; } } if (a > 0.1) { double t = v * w[0]; v = t * x[at]; } if (a > 0.1) { double t = v * a; v += t; } "
    "y[at] = v * v;",
    "a branch that a round changes": "double v = 0; int k = 0; for (int j = 0; j < T; ++j) { if (k < 2) { v += x[at] * "
    "w[j]; k += 1; } } if (k < 3) { v *= a; k += 1; } if (k < 3) { v *= x[at]; } y[at] = v * v;",
    "rounds left out": "double v = 0; for (int k = 0; k < 3; ++k) { if (x[at] > 0.1 * k) { v"
    " += x[k] * x[at]; } } y[at] = v;",
    "one element twice in a statement": "double u = x[at] * w[0] + x[at] * w[1] + w[0] * w[0]; y[at] = u * x[at];",
    "an array of one row of threads": "if (ty == 0) { r[tx] = x[at]; } __syncthreads(); double v = 0; for "
    "(int j = 0; j < T; ++j) { v += r[j] * r[tx] * a; } y[at] = v;",
    "transposed and back": "s[ty][tx] = x[at]; __syncthreads(); double v = s[tx][ty] * "
    "s[ty][tx]; __syncthreads(); s[tx][ty] = v * v; __syncthreads(); "
    "y[at] = s[ty][tx] + v;",
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", [*TURNED, *STRAIGHT])
def test_sums(name):
    made = mg.adjoint(f"{HEAD}{(TURNED | STRAIGHT)[name]} }}", wrt=["x", "w", "a"], name="f")
    rng = np.random.default_rng(1)
    oracle.check(made, [rng.random(32) + 0.2, rng.random(6) + 0.1, 0.7, rng.random(32)], 2, (4, 4), rtol=1e-12)
    assert any(row.how == "ownership turned around" for row in made.decisions.rows) == (name in TURNED)


DOWN = {"j >= 0": "plain =", "j > -1": "plain =", "j >= -1": "global atomic", "j > low": "global atomic"}


@pytest.mark.parametrize(("condition", "how"), DOWN.items())
def test_a_loop_that_counts_down_below_0_reads_the_row_before(condition, how):
    """Then two threads share an element."""
    made = mg.adjoint(
        f"""extern "C" __global__ void f(const double* x, double* y, int n, int low) {{
        double v = 0;
        for (int j = n - 1; {condition}; --j) v = 0.5 * v + x[threadIdx.x * n + j + 2] * x[threadIdx.x * n + j + 2];
        y[threadIdx.x] = v;
    }}""",
        wrt=["x"],
    )
    assert made.decisions["d_x[threadIdx.x * n + j + 2]"].how == how
    oracle.check(made, [np.random.default_rng(1).random(40), np.zeros(8), 4, -2], 1, 8)
