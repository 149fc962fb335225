"""Arrays that an outer loop overwrites and an inner one reads, and functions that read them: the complex step."""

import adjoint_oracle as oracle
import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.errors import LaunchError

RNG = np.random.default_rng(4)
HEAD = "__device__ double g(const double* v, int j) { return v[j] - 2 * v[j + 1]; }\n"
HEAD += "__device__ double h(double u, double v) { return u * v; }\n"
HEAD += 'extern "C" __global__ void f(const double* x, double* y, double* c, int* k, int n) {\n'
HEAD += "int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x); double s = x[i];\n"
LAST = "y[i] = s; }"
BODIES = {
    "an array in place": "for (int r = 0; r < n; ++r) { for (int j = 0; j < 3; ++j) { c[i] = c[i] * x[i + j]; } "
    "c[i] = c[i] * 0.5; } s = c[i];",
    "read in a loop, stored behind it": "for (int r = 0; r < 3; ++r) { for (int j = 0; j < n; ++j) { s = s * c[i + j] "
    "+ x[i + j]; } c[i + r % 2] = s * 0.1; }",
    "three loops": "for (int r = 0; r < n; ++r) { for (int b = 0; b < n; ++b) { for (int j = 3; j > 0; j -= 2) { "
    "s = 0.5 * s * c[i + j] + sin(c[i + b]); } } c[i + r] = s * 0.2; }",
    "stored in the loop between": "for (int r = 0; r < 3; ++r) { for (int b = 0; b < n; ++b) { for (int j = 0; j < 3; "
    "++j) { s = s * c[i + j]; } c[i + b] = s * 0.3; } s += c[i]; }",
    "a bound of three loops": "for (int r = 0; r < 3; ++r) { for (int b = 0; b < n; ++b) { for (int j = 0; j < k[i]; "
    "++j) { s = s * x[i + j]; } } k[i] = r + 1; }",
    "a while in three loops": "for (int r = 0; r < 3; ++r) { for (int b = 0; b < 2; ++b) { int j = 0; while (j < k[i]) "
    "{ s = s * x[i + b] + j; ++j; } } k[i] = r + 1; }",
    "an index": "for (int r = 0; r < 3; ++r) { for (int j = 0; j < n; ++j) { s = s * x[i + k[i + j]]; } k[i] = r; }",
    "jumps": "for (int r = 0; r < 3; ++r) { for (int j = 0; j < n; ++j) { if (c[i + j] > 1.2) { break; } if (c[i + j] "
    "< -1) { continue; } s = s * c[i + j] + x[i + j]; } c[i + r] = s * 0.5; }",
    "a while outside": "int r = 0; while (r < n) { for (int j = 0; j < 3; ++j) { s = s * c[i + j] + x[i + j]; } "
    "c[i + r] = s * 0.5; ++r; }",
    "no round inside": "for (int r = 0; r < 3; ++r) { for (int j = 7; j < n; ++j) { s = s * c[i + j]; } c[i] = s; }",
    "rounds as in a triangle": "for (int r = 0; r < 3; ++r) { for (int j = 0; j < n; ++j) { if (j >= r) { break; } "
    "s = s * c[i + j] + x[i + j]; } c[i + r] = s * 0.5; }",
    "a triangle": "for (int r = 0; r < n; ++r) { for (int j = r + 1; j < n; ++j) { s = s * c[i + j] + x[i]; } "
    "c[i + r] = s * 0.5; }",
    "a triangle downwards": "for (int r = n; r > 0; --r) { for (int j = r; j > 0; j -= 2) { s = s * c[i + j] + x[i]; } "
    "c[i + r] = s * 0.5; }",
    "a bound from loops and the thread": "int t = threadIdx.x; for (int r = 0; r < n; ++r) { "
    "for (int b = r; b < n; ++b) { int low = b - r; "
    "for (int j = low; j <= t + b; ++j) { if (s > 4) { break; } s = s * c[i + j % 4] + 0.1; } "
    "s += c[i + b]; } c[i + r] = s * 0.5; }",
    "an unsigned triangle": "for (unsigned r = 0; r < n; ++r) { for (size_t j = r; j <= n; ++j) { s = s * c[i + j] "
    "+ x[i]; } c[i + r] = s * 0.5; }",
    "unsigned numbers downwards": "for (unsigned r = n; r > 0; --r) { unsigned b = r; for (unsigned j = b; j > 0; --j) "
    "{ s = s * c[i + j] + x[i]; } c[i + r] = s * 0.5; }",
    "unsigned numbers by threads, and doubled": "for (unsigned r = threadIdx.x; r < n; r += blockDim.x) { "
    "for (unsigned j = 1; j < n; j *= 2) { s = s * c[i + j] + x[i]; } c[i + r] = s * 0.5; }",
    "up and down to a number": "for (int r = 0; r != n; ++r) { for (int j = n; j != 0; --j) { s = s * c[i + j] + x[i]; "
    "} c[i + r] = s * 0.5; }",
    "a smaller bound of two, and a rest": "for (int r = 0; r < n; ++r) { for (int j = 0; j < min(n, r + 2); ++j) { "
    "if (j > 8) { break; } s = s * c[i + j % 4] + x[i]; } for (int j = (r + 3) / 2; j >= 0; --j) { s = s * c[i + j]; } "
    "for (int j = 0; j < (threadIdx.x + r) % 3; ++j) { s = s * c[i + j] + x[i]; } c[i + r] = s * 0.5; }",
    "a window": "for (int r = 0; r < n; ++r) { unsigned t = threadIdx.x, l = t > 1 ? t - 1 : 0; "
    "unsigned h = t + 2 < 3 ? t + 2 : n; for (unsigned j = l; j < h; ++j) { s = s * c[i + j] + x[i]; } "
    "c[i + r] = s * 0.5; }",
    "rows from the last": "int last = n + 1 - 2 * threadIdx.x; for (int r = 0; r < 2; ++r) { int t = last - r; "
    "for (int j = threadIdx.x; j <= t; j += 2) { s = s * c[i + j % 4] + x[i]; } c[i + r] = s * 0.5; }",
    "an array that is set in part": "double p[4]; for (int r = 0; r < n; ++r) { p[r] = s * x[i + r]; "
    "for (int j = 0; j <= r; ++j) { s = s + p[j] * p[r]; } }",
    "while, and a counter": "for (int r = 0; r < n; ++r) { int j = 0; while (s < 9 && j < n) { s = s * c[i + j] + x[i];"
    " ++j; } unsigned b = n; while (b-- > 0) { if (s > 7) { break; } s = s * c[i + b] - x[i]; } c[i + r] = s * 0.5; }",
    "do, and a counter": "for (int r = 0; r < n; ++r) { int j = -2; do { s = s * c[i + j + 2] + x[i]; if (s > 9) { "
    "break; } } while (++j < n - 2); c[i + r] = s * 0.5; }",
    "do, once": "int m = 1 - n; for (int r = 0; r < n; ++r) { int j = 0; do { s = s * c[i + j] + x[i]; j += 2; } "
    "while (j < m); c[i + r] = s * 0.5; }",
    "a counter read behind its loop": "int j; for (int r = 0; r < n; ++r) { for (j = 0; j < n; ++j) { if (s > 9)"
    " { break; } s = s * c[i + j] + x[i]; } c[i + r] = s * j; }",
    "down to nothing": "for (int r = 0; r < n; ++r) { int j = n; while (j--) { if (s > 99) continue; s = s * c[i + j] "
    "+ x[i]; } for (unsigned b = n; b;) { --b; s += c[i + b]; } int m = n; do { --m; s += c[i + m]; } while (m); "
    "c[i + r] = s * 0.5; }",
    "a remainder of a number below 0": "int m = n - 6; for (int r = 0; r < n; ++r) { for (int j = 0; j < (r + 1) % m; "
    "++j) { s = s * c[i + j] + x[i]; } c[i + r] = s * 0.5; }",
    "a bound that an array may give": "for (int j = 0; j < (n > 50 ? n : k[i]); ++j) { s = s * c[i + j] + x[i]; "
    "c[i + j] = s * 0.5; }",
    "a function that is linear": "for (int r = 0; r < n; ++r) { for (int j = 0; j < 2; ++j) { s = s + 0.5 * "
    "g(c, i + j) * x[i]; } c[i] = s * 0.5; }",
    "elements handed over": "for (int r = 0; r < n; ++r) { for (int j = 0; j < 2; ++j) { s = s * h(c[i + j], "
    "c[i + 1]); } c[i] = s * 0.5; }",
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", BODIES)
def test_arrays_that_an_outer_loop_overwrites(name):
    made = mg.adjoint(f"{HEAD}{BODIES[name]}\n{LAST}", wrt=["x", "c"])
    k = np.tile(np.int32([2, 1, 0, 1]), 4)
    oracle.check(made, [RNG.random(16) + 0.5, np.zeros(16), RNG.standard_normal(16), k, 3], 2, 2)


@pytest.mark.parametrize("kind", ["unsigned", "size_t", "long long", "short"])
def test_a_bound_of_any_type_of_whole_numbers(kind):
    made = mg.adjoint(f"{HEAD.replace('int n', f'{kind} n')}{BODIES['an array in place']}\n{LAST}", wrt=["x", "c"])
    oracle.check(made, [RNG.random(16) + 0.5, np.zeros(16), RNG.standard_normal(16), np.zeros(16, np.int32), 3], 2, 2)


@pytest.mark.parametrize("loop", [
    "int j = 0; while (j < n) { if (s > 0) ++j; s = s * c[i + j] + x[i]; }",
    "int j = 0; while (j < n) { if (s > 99) continue; s = s * c[i + j] + x[i]; ++j; }",
    "int j = 0; while (j < n) { s = s * c[i + j] + x[i]; if (s > 9 && j > 0) j = 0; ++j; }",
    "int j = 0; while (true) { int b = j; if (s > 99) b = 0; ++j; if (b >= n) break; s = s * c[i + j] + x[i]; }",
    "int j = n; while (j--) { if (s > 9) break; s = s * c[i + j] + x[i]; }",
    "unsigned j = n; do { if (s > 9) break; s = s * c[i + j] + x[i]; } while (--j > 0);",
    "int j = n; while (j < 9) { s = s * c[i + j] + x[i]; j += blockDim.x - 4; if (j < 2) break; }",
    "int j; for (int b = 0; b < 9; ++b) { j = b; } for (int b = 0; b < 2; ++b) { "
    "while (j > 0) { s = s * c[i + j] + x[i]; --j; } }",
    "for (unsigned char j = n; j > 2; j -= 5) { s = s * c[i + j % 4] + x[i]; }",
    "signed char j = n; while (j--) { s = s * c[i + j % 4] + x[i]; }",
    "int b = -5, j = b; for (b = 0; b < 2; ++b) { while (j < 3 + 2 * b) { s = s * c[i] + x[i]; ++j; } c[i] = s; }",
])  # fmt: skip
def test_a_loop_that_its_counter_may_not_end(loop):
    """No bound: a round may leave the counter as it is, lead it past its end or around; or it begins with another b."""
    with pytest.raises(NotDifferentiable, match="only the running kernel knows how many iterations"):
        mg.adjoint(f"{HEAD}for (int r = 0; r < n; ++r) {{ {loop} c[i + r] = s * 0.5; }}\n{LAST}", wrt=["x", "c"])


def test_a_bound_below_0_that_is_a_large_number():
    body = "for (int r = 0; r < 3; ++r) { for (unsigned j = 0; j < n - 1; ++j) { if (j == 2) break; s *= c[i + j]; } "
    made = mg.adjoint(f"{HEAD.replace('int n', 'unsigned n')}{body} c[i + r] = s; }}\n{LAST}", wrt=["x", "c"])
    arrays = [RNG.random(16) + 0.5, np.zeros(16), RNG.standard_normal(16), np.zeros(16, np.int32)]
    oracle.check(made, [*arrays, 4], 2, 2)
    with pytest.raises(LaunchError, match="to an unsigned number that is below 0, as n - 1"):
        made.vjp(*arrays, 0, dy=[np.ones(16), np.ones(16)], grid=2, block=2)


FACTORS = """
#define T 4
extern "C" __global__ void f(const double* x, double* y) {
    __shared__ double a[T][T];
    int t = threadIdx.x, i = blockIdx.x * T + t;
    for (int c = 0; c < T; ++c) a[t][c] = x[i * T + c] + (c == t ? 5 : 0);
    __syncthreads();
    for (int k = 0; k < T - 1; ++k) {
        if (t > k) a[t][k] = a[t][k] / a[k][k];
        __syncthreads();
        if (t > k) for (int c = k + 1; c < T; ++c) a[t][c] -= a[t][k] * a[k][c];
        __syncthreads();
    }
    y[i] = a[t][t] * a[t][0];
}
"""


def test_factors_of_a_matrix_in_place():
    oracle.check(mg.adjoint(FACTORS), [RNG.standard_normal(32), np.zeros(8)], 2, 4)


def test_a_bound_without_a_sign_says_not_how_many_rounds_there_are():
    """t - 3 of an unsigned t is a large number in three threads, and only a break ends their loops."""
    body = "unsigned t = threadIdx.x; for (int r = 0; r < n; ++r) { for (int j = 0; j < t - 3; ++j) { "
    with pytest.raises(NotDifferentiable, match="c is overwritten in an outer loop and read in an inner one"):
        mg.adjoint(f"{HEAD}{body}if (j > 2) break; s = s * c[i + j]; }} c[i + r] = s; }}{LAST}")


SHARED = """
#define T 8
extern "C" __global__ void f(const double* x, const double* w, double* y, int steps) {
    __shared__ double s[T + 2];
    int t = threadIdx.x;
    s[t + 1] = x[blockIdx.x * T + t];
    if (t < 2) s[t * (T + 1)] = 0;
    __syncthreads();
    for (int k = 0; k < steps; ++k) {
        double v = 0;
        for (int j = 0; j < 3; ++j) v += w[j] * s[t + j] * s[t + j];
        __syncthreads();
        s[t + 1] = v;
        __syncthreads();
    }
    y[blockIdx.x * T + t] = s[t + 1];
}
"""


def test_steps_of_a_stencil_in_shared_memory():
    """The border is stored once, ahead of the loop; each step reads three elements in a loop and stores one."""
    args = [RNG.standard_normal(16), RNG.standard_normal(3), np.zeros(16), 3]
    oracle.check(mg.adjoint(SHARED, wrt=["x", "w"]), args, 2, 8)


ROUNDS = """
#define T 4
extern "C" __global__ void f(const double* x, double* y, int n) {
    __shared__ double s[T];
    int t = threadIdx.x, i = blockIdx.x * T + t;
    double v = x[i];
    for (int k = 0; k < n; ++k) {
        STORE
        __syncthreads();
        v += s[(t + 1) % T] * s[t];
        __syncthreads();
    }
    y[i] = v + LAST;
}
"""


@pytest.mark.parametrize(("store", "last"), [
    ("s[t] = x[k * T + t] * v;", "s[0] * s[T - 1]"),
    ("s[T - 1 - t] = x[k * T + t] * v;", "s[t] * s[t]"),
    ("s[(t + k) % T] = x[k * T + t] * v;", "v"),
])  # fmt: skip
def test_no_round_stores_what_others_still_read_of_the_last_one(store, last):
    """The adjoint runs iterations from last to first, each with its stores: it needs a barrier ahead of them."""
    made = mg.adjoint(ROUNDS.replace("STORE", store).replace("LAST", last), wrt=["x"])
    oracle.check(made, [RNG.standard_normal(16), np.zeros(8), 3], 2, 4)


def test_the_table_counts_the_rounds_of_all_loops():
    row = mg.adjoint(SHARED, wrt=["x", "w"]).decisions["s_tape"]
    assert row.bytes == "24 x rounds (steps)" and "its inputs are overwritten" in row.why


def test_a_loop_that_never_runs_has_a_tape_of_one_element():
    text = "template <int N> __global__ void f(const double* x, double* y) { int i = threadIdx.x; double s = x[i]; "
    text += "for (int r = 0; r < 4; ++r) { for (int j = 0; j < N / 32; ++j) { s = s * s + x[i]; } s = s * x[i]; } "
    made = mg.adjoint(f"{text}y[i] = s; }}", "f<16>")
    assert "s_tape[1];" in made.source
    oracle.check(made, [RNG.random(4) + 0.5, np.zeros(4)], 1, 4)
