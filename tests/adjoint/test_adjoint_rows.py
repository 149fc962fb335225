"""Rows of elements of one thread: sums without atomics, stores that need not be cleared; what an adjoint leaves out."""

import adjoint_oracle as oracle
import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import LaunchError

HEAD = """
#define N 8
#define M (2 * N)
#define WRAP(i) ((i) >= N ? (i) - N : (i))
extern "C" __global__ void f(const double* x, double* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
"""


def adjoint_of(body):
    """The adjoint of a body, compared with the complex step: 16 threads, n = 0."""
    made, rng = mg.adjoint(f"{HEAD}{body} }}", wrt=["x"], name="f"), np.random.default_rng(1)
    oracle.check(made, [rng.random(40) + 0.2, rng.random(40), 0], 2, 8)
    return made


SUMS = {
    "planes": ("if (i < N) y[i] = x[i] * x[N + i] * x[2 * N + i];", "plain ="),
    "planes by a macro of macros": ("if (i < M) y[i] = x[i] * x[M + i];", "plain ="),
    "members": ("if (i < N) y[i] = x[3 * i] * x[3 * i + 1] * x[3 * i + 2];", "plain ="),
    "planes that overlap": ("if (i < M) y[i] = x[i] * x[N + i];", "global atomic"),
    "planes without a bound": ("y[i] = x[i] * x[N + i];", "global atomic"),
    "a distance that the launch gives": ("if (i < N) y[i] = x[i] * x[n + i];", "global atomic"),
    "members that overlap": ("if (i < N) y[i] = x[2 * i] * x[2 * i + 2];", "global atomic"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", SUMS)
def test_sums_to_a_row(name):
    body, how = SUMS[name]
    rows = adjoint_of(body).decisions.rows
    assert {row.how for row in rows if row.what.startswith("d_x")} == {how}


STORES = {
    "planes": ("if (i < N) { y[i] = x[i]; y[N + i] = x[i] * x[i]; }", True),
    "neighbors around a ring": ("if (i < N) { y[WRAP(i + 1)] = x[i]; y[N + WRAP(i + 3)] = x[i] * x[i]; }", True),
    "either side of a branch": ("if (x[i] > 0.7) y[i] = x[i]; else y[i] = x[i] * x[i];", True),
    "the same element twice": ("y[i] = x[i]; y[i + n] = x[i] * x[i];", False),
    "a variable that changes after its test": (
        "if (i < 1) { int j = n; if (j < 5) { j += 7; y[j] = x[i]; y[7] = x[i] * x[i]; } }",
        False,
    ),
    "a counter that its loop changes": (
        "if (i < 1) for (int j = 0; j < 5; ++j) if (j < 1) { j += 7; y[j] = x[i]; y[7] = x[i] * x[i]; }",
        False,
    ),
    "sides of a branch in a loop": (
        "for (int k = 0; k < 2; ++k) if (k < 1) y[i] = x[i]; else y[i] = x[i] * x[i];",
        False,
    ),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", STORES)
def test_stores_into_a_row(name):
    """A gradient is cleared where a thread may store the element again, and not otherwise."""
    body, once = STORES[name]
    assert ("const double* __restrict__ d_y" in adjoint_of(body).source) == once


def test_a_long_loop_stays_one_and_a_short_one_does_not():
    long = "s = s * 0.5 + sin(s) * x[i]; " * 40
    for trips, kept in ((4, True), (1, False), (100, False)):
        body = f"double s = x[i]; for (int k = 0; k < {trips}; ++k) {{ {long} }} y[i] = s;"
        assert ("#pragma unroll 1" in mg.adjoint(f"{HEAD}{body} }}", name="f").source) == kept


def test_an_adjoint_has_only_what_it_uses():
    unused = "#include <stdio.h>\n#define UNUSED 3\n#ifndef TILE\n#define TILE 4\n#endif\n#define USED (2 * TILE)\n"
    functions = "__device__ double twice(double v) { return 2 * v; }\n"
    made = mg.adjoint(f"{unused}{functions}{HEAD}y[i] = twice(x[i]) * USED; }}", name="f")
    assert all(word not in made.source for word in ("UNUSED", "stdio", "WRAP", "double twice("))
    assert "#define TILE 4" in made.source and "#define USED (2 * TILE)" in made.source


def test_a_copy_of_a_temporary_is_no_variable_and_a_number_keeps_its_value():
    ahead = """struct C { double re, im; };
    __device__ C operator*(const C& a, const C& b) { return C{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
    """
    body = "C z = {x[i], 2}; if (x[i] > 0.1) { const double p = 3; C w = z * z; y[i] = w.re * w.im * p; }"
    made = mg.adjoint(f"{ahead}{HEAD}{body} }}", name="f")
    assert "w_re = z_re * z_re - z_im * z_im;" in made.source and "result" not in made.source
    assert "const double p = 3;" in made.source


def test_a_variable_of_a_function_may_have_the_name_of_a_parameter():
    ahead = "__device__ double f2(double* v) { v[0] *= 2; double y = 0; y += v[0] * v[1]; return y; }\n"
    made = mg.adjoint(f"{ahead}{HEAD}double v[2] = {{x[i], x[i + 1]}}; y[i] = f2(v); }}", wrt=["x"], name="f")
    x = np.arange(1.0, 41)
    (dx,) = made.vjp(x, np.zeros(40), 0, dy=[np.eye(40)[3]], grid=2, block=8)
    assert dx[3] == 2 * x[4] and dx[4] == 2 * x[3]


@pytest.mark.parametrize("m, right", [(5, True), (1 << 31, False)])
def test_an_unsigned_index_that_would_wrap_around_in_a_launch_is_named(m: int, right: bool) -> None:
    """Plain sums and one store of each element rely on whole numbers; where m * 2 is 0, y[b] is stored twice."""
    loop = "for (unsigned j = 0; j < {}; j += 2) {{ if (b < m) y[b + m * j] = x[b] * (j + 1); }}"
    body = f"unsigned b = threadIdx.x; if (m > 9) {{ {loop.format(1)} {loop.format(4)} }} else {loop.format(4)}"
    adjoint = mg.adjoint(f'extern "C" __global__ void f(const double* x, double* y, unsigned m) {{ {body} }}')
    x, y = np.ones(8), np.zeros(40)
    if right:
        (dx,) = adjoint.vjp(x, y, m, dy=[np.ones(40)], grid=1, block=5)
        assert dx.tolist() == [4] * 5 + [0] * 3
    else:
        with pytest.raises(LaunchError, match=r"reaches 2\^32 in this launch"):
            adjoint.vjp(x, y, m, dy=[np.ones(40)], grid=1, block=5)


@pytest.mark.parametrize("m, right", [(5, True), (1 << 32, False)])
def test_an_index_of_64_bits_of_which_an_int_drops_bits_in_a_launch_is_named(m: int, right: bool) -> None:
    body = f"long long k = blockIdx.x * {m}LL + threadIdx.x; int j = k; y[j] = x[j] * x[j];"
    adjoint = mg.adjoint(f'extern "C" __global__ void f(const double* x, double* y) {{ {body} }}')
    if right:
        assert "d_x[j] = 2 * " in adjoint.source
        (dx,) = adjoint.vjp(np.ones(10), np.zeros(10), dy=[np.ones(10)], grid=2, block=5)
        assert dx.tolist() == [2] * 10
    else:
        with pytest.raises(LaunchError, match=r"int\(k\) reaches 2\^32 in this launch"):
            adjoint.vjp(np.ones(10), np.zeros(10), dy=[np.ones(10)], grid=2, block=5)


POINTS_TO_ROWS = {
    "x[N][N]": "const double x[N][N], double y[N][N]) { y[i][j] = x[i][j] * x[j][i];",
    "(*x)[N]": "const double (*x)[N], double y[]) { if (!j) y[i] = sum(x[i], N) * *x[i] + (*x)[i];",
    "three axes": "double x[][2][4], double y[][4][2]) { if (i < 2 && j < 4) y[i][j][1] = x[j][i][j] * x[1][i][j];",
    "by a pointer": "double x[N][N], double* y) { double* p = x[i] + 2; ++p; if (!j) y[i] = p[1] * p[-1] * x[i][0];",
}


@pytest.mark.parametrize("case", POINTS_TO_ROWS)
def test_a_parameter_points_to_rows(case):
    head = "#define N 8\n__device__ double sum(const double* p, int n) {\n"
    head += "double s = 0; for (int k = 0; k < n; ++k) s += p[k] * p[k]; return s; }\n__global__ void f("
    body = POINTS_TO_ROWS[case].replace("{", "{ int i = threadIdx.x, j = threadIdx.y;")
    made, rng = mg.adjoint(f"{head}{body} }}", wrt=["x"], name="f"), np.random.default_rng(2)
    oracle.check(made, [rng.random(64) + 0.2, rng.random(64)], 1, (8, 8))


def test_a_pointer_to_rows_that_moves_is_refused():
    head, text = "__global__ void f(", "{ int i = threadIdx.x;"
    wrong = "const double x[][4], double* y) { x++; y[i] = x[i][0] * x[i][1]; }"
    right = "const double* x, double* y) { x += 4; y[i] = x[i * 4 + 0] * x[i * 4 + 1]; }"
    told = r"f\.cu:1:\d+: x points to rows, and changes; let it point to elements, x\[i \* width"
    with pytest.raises(mg.adjoint.NotDifferentiable, match=told):
        mg.adjoint(f"{head}{wrong.replace('{', text)}", name="f")
    assert mg.adjoint(f"{head}{right.replace('{', text)}", name="f").wrt == ("x",)
