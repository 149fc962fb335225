"""Kernels that look harmless, against central differences of the kernel itself."""

import numpy as np
import pytest

import minigrad as mg

N = 8
I = "int i = threadIdx.x; "  # noqa: E741
TWO = "__shared__ double s[16]; s[i] = x[i]; s[i + 8] = x[7 - i]; __syncthreads(); "
KERNELS = {
    "a choice of the value itself": "double v = x[i] * x[i]; v = i < 5 ? v : 0.0; y[i] = v;",
    "a cast of the value itself": "double v = x[i] * x[i]; v = (double)v; y[i] = v;",
    "an element chosen again": "y[i] = x[i] * x[i]; y[i] = i < 5 ? y[i] : 0.5;",
    "overwritten by the same thread": "y[i] = x[i]; double v = x[i] * x[i]; y[i] = v;",
    "a neighbor's element after a barrier": "y[i] = x[i]; __syncthreads(); double v = y[(i + 1) % 8]; "
    "__syncthreads(); y[i] = v * v;",
    "stores of neighbors": "y[i] = x[i]; __syncthreads(); if (i < 7) { y[i + 1] = x[i] * x[i]; }",
    "an array not filled in each round": "double a[3] = {1, 1, 1}; double s = 0; for (int j = 0; j < 4; ++j) { "
    "for (int k = 0; k < 3; ++k) { if (k == j) { continue; } a[k] = x[i] * (j + 1); } "
    "for (int k = 0; k < 3; ++k) { s += a[k] * a[k]; } } y[i] = s;",
    "a real that is halved": "double p = x[i]; double s = 1; while (s > 1e-20) { p = p * (1 + s * 1e-3); "
    "s = s / 2; } y[i] = p;",
    "a bound that is real": "double p = 1; int last = (int)(3.0 * x[i]); for (int j = 0; j < 3.0 * x[i]; ++j) { "
    "p = p * x[i]; } y[i] = p + last;",
    "the rest of a division": "y[i] = fmod(x[i] * 7, x[i] + 0.3) + fmod(-x[i], 0.31)"
    " + remainder(x[i] * 7, x[i] + 0.3) * x[0];",
    "a sign from elsewhere": "y[i] = copysign(x[i] * x[i], x[(i + 1) % 8] - 0.75);",
    "an unsigned number carried around": "unsigned s = 1; double v = x[i]; int c = 0; while (c < 3 && v < 9) { "
    "v = v * s * 0.5 * v; s = s * 3u; c += 1; } y[i] = v;",
    "a counter from before its loop": "int j; double v = x[i]; for (j = 0; j < 3; ++j) { v = v * v; } y[i] = v * j;",
    "names like those of the adjoint": "double d_x = x[i] * 2; double d_v = d_x * x[i]; double trips_1 = sin(d_v); "
    "double y_tape = 1; for (int k = 0; k < 3; ++k) { y_tape = y_tape * trips_1 * d_x; } y[i] = y_tape;",
    "a hidden variable and one of its second name": "double v = x[i]; { double v = x[i] * x[i]; double v_2 = 3 * v; "
    "y[i] = v * v_2; } y[i] = y[i] + v;",
    "one name in blocks side by side": "{ int k = 2; double v = x[i] * k; y[i] = v * v; } { int k = 3; "
    "double v = x[i] * k; y[i] = y[i] + v * v * v; } int k = i; double v = x[i] * k; y[i] = y[i] + v * v;",
    "a store in a branch of each round": "for (int j = 0; j < 3; ++j) { if (x[i] > 0.1) { y[i] = x[i] * (j + 1); } }",
    "two elements of a thread": "if (i < 4) { y[2 * i] = x[i] * x[i]; y[2 * i + 1] = x[i] * x[i + 4]; }",
    "elements shared out in two ways": "double v = 0; if (i < 2) { for (int j = i; j < 8; j += 2) { v += x[j] * x[j]; "
    "} for (int j = 4 * i; j < 4 * i + 4; ++j) { v += x[j] * x[j] * x[j]; } } y[i] = v;",
    "a first value of an array overwritten": "double q[2] = {x[i], x[i] * x[i]}; q[1] = sin(x[i]); y[i] = q[0] * q[1];",
    "a bound that the loop around overwrites": "__shared__ int c[8]; c[i] = 2; double v = x[i]; "
    "for (int r = 0; r < 2; ++r) { for (int j = 0; j < c[i]; ++j) { v = v * v; } c[i] = 1; } y[i] = v;",
    "a condition that the loop around overwrites": "__shared__ double c[8]; c[i] = 2.5; double v = x[i]; "
    "for (int r = 0; r < 2; ++r) { int j = 0; while (j < c[i]) { ++j; v = v * v; } c[i] -= 1; } y[i] = v;",
    "a start that the loop around overwrites": "__shared__ int c[8]; c[i] = 2; double v = x[i]; "
    "for (int r = 0; r < 2; ++r) { for (int j = c[i]; j > 0; --j) { v = v * x[j]; } c[i] = 1; } y[i] = v;",
    "a bound of all threads, overwritten": "__shared__ int c[1]; double v = x[i]; for (int r = 0; r < 2; ++r) { "
    "if (i == 0) { c[0] = r + 1; } __syncthreads(); for (int j = 0; j < c[0]; ++j) { v += x[j] * x[j]; } "
    "__syncthreads(); } y[i] = v;",
    "an index of a store that the loop around overwrites": "__shared__ int c[8]; c[i] = 2; double v = x[i]; "
    "double q[3] = {1, 2, 3}; for (int r = 0; r < 3; ++r) { q[c[i]] = v; v = q[0] * q[1] * q[2] * v; c[i] = r; } "
    "y[i] = v;",
    "first values that the loop around overwrites": "__shared__ int c[8]; c[i] = 2; double v = x[i]; "
    "for (int r = 0; r < 3; ++r) { int q[2] = {c[i], 1}; v = v * x[q[0]] * v; c[i] = r; } y[i] = v;",
    "an index that is a comparison": "__shared__ double s[8]; for (int r = 0; r < 3; ++r) { s[i] = x[i]; "
    "__syncthreads(); if (i == 7) { s[i > 3] = x[0]; } __syncthreads(); y[i] += s[i] * x[i]; __syncthreads(); }",
    "a bound without a sign": "unsigned u = 2; double s = 1; for (int j = -1; j < u; ++j) { s = s * x[i]; } "
    "for (int j = 1; j < u; ++j) { s = s * x[j]; } y[i] = s + x[i];",
    "a tile that a loop without a sign leaves as it was": "__shared__ double s[8]; s[i] = x[i]; __syncthreads(); "
    "double v = x[i]; for (int r = 0; r < 3; ++r) { for (int j = i - 8; j < 8u; j += 8) { s[j] = v; } __syncthreads(); "
    "v = v * 0.5 + s[i] * s[7 - i]; __syncthreads(); } y[i] = v;",
    "a bound that is overwritten, ahead of a branch": "double s = 0; int k = 1 + i % 2; for (int j = k; j > 0; --j) { "
    "s += x[i] * x[i]; } k = i; if (k > 5) { y[i] = 3; return; } y[i] = s * k;",
    "a bound that a side of a branch overwrites": "double s = 0; int k = 3; if (x[i] < 0.7) { s = x[i]; } else { "
    "for (int j = 0; j < k; ++j) { s += x[i] * x[i]; } k = 1; } y[i] = s * k;",
    "a return behind other sides": "double v = x[i]; if (v > 0.8) { v = v * v; } else if (v > 0.7) { v = 3 * v; } "
    "else { return; } y[i] = v * x[i];",
    "jumps deep inside a branch": "double v = 1; for (int j = 0; j < 8; ++j) { if (x[j] > 0.7) { if (v > 3) { break; } "
    "if (v < 0.9) { v += 0.2; continue; } v = v * x[j] + 0.5; } else if (x[j] < 0.65) { if (v > 1) { continue; } "
    "v = sin(v); } v = v * 1.1 + x[i]; } y[i] = v;",
    "a jump three branches deep": "double stopped = 1; for (int j = 0; j < 8; ++j) { if (j > 0) { if (x[j] > 0.7) { "
    "if (stopped > 3) { break; } stopped += x[j]; if (j % 3 == 1) { continue; } stopped *= 0.9; } stopped += x[i]; } "
    "stopped *= x[j]; } y[i] = stopped;",
    "loops behind a jump": "double v = x[i]; for (int j = 0; j < 3; ++j) { v = v * v; if (2 > 1) { continue; } "
    "for (int k = 0; k < 2; ++k) { v += x[k]; } } y[i] = v; return; for (int j = 0; j < 3; ++j) { y[i] += v * v; }",
    "a return inside loops": "double v = 1; for (int j = 0; j < 2; ++j) { for (int k = 0; k < 4; ++k) { "
    "v = v * (0.5 + x[j + k]) + x[i]; if (v > 3) { y[i] = v * v; return; } } v += 0.2; } y[i] = 3 * v;",
    "a number of the block that changes between sums": f"{TWO}int q = 0, m = q + i; q = 1; y[i] = s[m] * s[q + i];",
    "a number of the block that changes in a loop": f"{TWO}double v = 1; for (int r = 0; r < 3; ++r) {{ "
    "int q = (3 * r + 1) % 5; for (int k = 0; k < 2; ++k) { v += s[i + q]; __syncthreads(); } "
    "v += s[i + q]; } y[i] = v;",
    "an index from which a changing number cancels": "int e = 0; e += i / 8; int a = e; e = i; "
    "y[i] = x[i + a - e] * x[i];",
    "a barrier under a condition": f"{TWO}for (int k = 4; k > 0; k /= 2) {{ if (i < k) s[i] += s[i + k] * s[i]; "
    "if (k > 1) __syncthreads(); } __syncthreads(); y[i] = s[0] * x[i];",
    "a barrier in a loop of no other use": "__shared__ double s[8]; double v = 0; s[i] = x[i]; "
    "for (int k = 0; k < 3; ++k) { v += x[k]; __syncthreads(); } y[i] = v + s[7 - i] * s[7 - i];",
    "elements stored again by a loop that starts anew": "double a[4] = {1, 1, 1, 1}; int c = 0; "
    "for (int j = 0; j < 4; ++j) { a[j] = x[i] * (c + 1) + x[j]; c++; if (j == 2 && c < 4) j = -1; } "
    "y[i] = a[0] * a[1] * a[2] * a[3];",
    "elements stored again by a counter alone": "int c = 0; if (i == 0) { for (int j = 0; j < 4; ++j) { "
    "y[j] = x[j] * (c + 1); c++; if (j == 2 && c < 4) j = -1; } } if (i > 3) y[i] = x[i];",
    "elements by a real number": "double f = i * 0.5; if (i % 2 == 0) { y[(int)(2 * f)] = x[i] * x[i]; f += 0.5; "
    "y[(int)(2 * f) - 1] = x[i + 1] * 3; y[(int)(2 * f)] = x[i]; }",
    "an element that two threads read": "if (i == 0) y[0] = x[5] * 2; if (i == 1) y[1] = x[5] * x[5];",
    "an element that one thread reads twice": "if (i == 1) y[0] = x[5] * 2; if (i == 1) y[1] = x[5] * x[5];",
    "shared elements that two threads read": f"{TWO}if (i == 2) y[0] = s[5] * 2; if (i == 1) y[1] = s[5] * s[5];",
    "a step that turns a loop around": "double v = 0; int s = i > 8 ? 1 : -1; if (i < 5) { "
    "for (int j = 0; j >= 0 && j < 4; j -= s) { v += x[i + j] * x[i + j]; } } y[i] = v;",
    "an index that the thread it names changes": "__shared__ double s[8]; s[i] = x[i]; __syncthreads(); "
    "for (int k = 1; k < 8; ++k) { int r = k; if (i == r) { r = r - 1; s[r] = s[r] * x[i]; } __syncthreads(); "
    "s[i] = tanh(s[i] * s[i] * 0.7 + x[i]); __syncthreads(); } y[i] = s[i];",
    "an atomic that reads its own element": "y[i] = x[i]; atomicAdd(&y[i], fma(2.0, y[i], x[i] * x[i]));",
    "neighbors on both sides": "y[i] = x[i]; if (i > 0 && i < 7) y[i] = (x[i + 1] - x[i - 1]) * x[i + 1];",
    "an unsigned index that wraps around": "for (unsigned k = 0; k < 2; ++k) { "
    "unsigned o = k * 2147483648u * 2u + threadIdx.x; y[o] = x[i] * x[i] + k; }",
    "one element under two names": "int o = i > 9; double v = i + 1; y[i] = v; if (i == 3) y[i] = v * x[0] * x[o];",
    "a bound that grows behind its test": "double v = 0; int l = i % 3; y[i] = 0; if (i < 3 && l < 2) { l++; "
    "for (int j = 0; j < l; ++j) v += x[i * 2 + j] * x[i * 2 + j]; y[i] = v; }",
    "an atomic that a loop runs again": "__shared__ double s[8]; double q[2] = {x[i], 1}, v = 0.5; s[i] = x[7 - i]; "
    "__syncthreads(); for (int k = 0; k < 2; ++k) { atomicAdd(&q[i % 2], tanh(v - s[i])); v += tanh(q[0] * x[i]); } "
    "__syncthreads(); s[i] = tanh(v); y[i] = v * q[0] + s[i];",
    "an unsigned index by a step that doubles": f"{TWO}for (unsigned h = 1; h < blockDim.x; h *= 2) {{ "
    "unsigned k = 2 * h * i; if (k < blockDim.x) s[k] += s[k + h] * s[k]; __syncthreads(); } y[i] = s[0] * x[i];",
    "an array that a smaller type does not fill": "double q[4] = {1, 2, 3, x[i]}; double v = 0; "
    "for (int k = 0; k < 3; ++k) { for (int j = 0; j < 4; ++j) q[(bool)j] = x[j + k] * x[i]; v += q[1] * q[3]; "
    "q[3] = v * 0.1; } y[i] = v;",
    "an array larger than the block, which a loop only stores": f"{TWO}double v = x[i]; "
    "for (int k = 0; k < 3; ++k) { s[i] = v * x[k]; __syncthreads(); v = v * 0.5 + x[i]; } y[i] = s[7 - i] * s[i + 8];",
    "a loop of which only the start counts": "int k = 5; double v = 0; for (k = 2; v > 9;) v += x[i]; "
    "y[i] = x[k] * x[i];",
    "a bound of each thread": "double p = x[i]; for (int j = 0; j <= i; ++j) { p = p * p * 0.9; } y[i] = p;",
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("body", KERNELS.values(), ids=KERNELS)
def test_slopes(body):
    check(f'extern "C" __global__ void f(const double* x, double* y) {{ {I}{body} }}')


RETURNS = """
__device__ double g(double u, double r) {
    double v = u;
    for (int j = 0; j < 6; ++j) {
        if (j == 4) return 7 * v;
        v = v * r + 0.3;
        if (v > 1) return v * v;
    }
    return v;
}
__device__ double h(double u, double r) {
    double v = u;
    if (u > r) {
        if (u > 1.2 * r) return v * r;
        v = v * v;
    } else if (u < 0.7) {
        return 3 * u;
    }
    v = v + r;
    return v * r;
}
"""


@pytest.mark.parametrize("function", "gh")
def test_a_function_returns_from_its_loop_or_from_deep_inside_a_branch(function):
    body = f"y[i] = {function}(x[i], x[7 - i]);"
    check(f'{RETURNS}extern "C" __global__ void f(const double* x, double* y) {{ {I}{body} }}')


TAPED = """
__device__ double h(double v, int n) {
    double s = 1;
    for (int j = 0; j < n; ++j) s = s * v + 0.1 * j;
    return s;
}
__device__ double g(double v, int n) {
    double s = 1 + v * v, q[2] = {v, 1};
    while (s < 6) {
        s = s * 1.3 + 0.1;
        q[0] = q[1] * sin(q[0] * s);
        q[1] = q[1] + q[0] * h(v, n);
    }
    return q[0] * q[1] * h(s, 2);
}
"""


@pytest.mark.parametrize("body", [
    "y[i] = h(x[i], i) * h(x[7 - i], 70);",
    "double v = x[i]; for (int j = 0; j < i; ++j) { v = tanh(g(v, j)) + x[j]; } y[i] = v;",
])  # fmt: skip
def test_loops_of_a_function_have_tapes_that_the_kernel_hands_over(body):
    check(f'{TAPED}extern "C" __global__ void f(const double* x, double* y) {{ {I}{body} }}')


def check(text):
    """The gradient of x in f(x, y), of one block of N threads, against central differences; and no race in it."""
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


@pytest.mark.sample(3)
@pytest.mark.parametrize("lo, hi, step", [(2, 2, -1), (2, 0, -1), (2, 2, 0), (9, 4, 1), (-1, 0, 1), (1, 8, 3)])
@pytest.mark.parametrize("head", [
    "int j = lo; j < hi; j += step", "int j = hi; j > lo; j -= step", "int j = lo; j < blockDim.x; j += 2",
    "int j = lo; j < hi; j += blockDim.x",
])  # fmt: skip
def test_a_loop_that_makes_no_round_has_none_in_its_adjoint(head, lo, hi, step):
    """A step of another sign, or a header in unsigned arithmetic: iterations are counted as in C++."""
    first, end = (hi, lo) if ">" in head else (lo, hi)
    by = {"j += step": step, "j -= step": -step, "j += 2": 2, "j += blockDim.x": 4}[head.split("; ")[2]]
    end = 4 if "< blockDim" in head else end
    none = first <= end if ">" in head else first >= end or (first < 0 and "< blockDim" in head)
    rounds = [] if none else [j + 1 for j in range(first, end, by)]
    head = f'extern "C" __global__ void f(const double* x, double* y, int lo, int hi, int step) {{ for ({head})'
    text = f"{head} y[threadIdx.x] = y[threadIdx.x] * x[j + 1]; }}"
    x, y = np.arange(1.0, 11), mg.tensor(np.ones(4), device="sim")
    (dx,) = mg.adjoint(text, ["x"]).vjp(mg.tensor(x, device="sim"), y, lo, hi, step, dy=[y], grid=1, block=4)
    want = np.zeros(10)
    want[rounds] = 4 * np.prod(x[rounds]) / x[rounds]
    np.testing.assert_allclose(dx.numpy(), want)


@pytest.mark.parametrize(
    ("body", "slope"),
    [
        ("v = v * v * at(c, 0);", 16 * 1.1**3),  # y = (2 x^2)^2
        ("if (at(c, 0) > 1) v = v * v;", 2 * 1.1),  # y = x^2
        ("int m = at(c, 0); for (int j = 0; j < m; ++j) v = v * v;", 8 * 1.1**7),  # y = (x^4)^2
    ],
)
def test_a_function_reads_an_array_that_the_loop_overwrites(body, slope):
    """c[0] is 2 in the first iteration and 1 in the second."""
    head = "__device__ int at(const int* c, int n) { return c[n]; }\n"
    head += 'extern "C" __global__ void f(const double* x, int* c, double* y) { double v = x[0]; '
    text = head + f"for (int r = 0; r < 2; ++r) {{ {body} c[0] = 1; }} y[0] = v; }}"
    x, dy, c = (mg.tensor(np.array([value]), device="sim") for value in (1.1, 1.0, np.int32(2)))
    (dx,) = mg.adjoint(text, ["x"]).vjp(x, c, dy, dy=[dy], grid=1, block=1)
    np.testing.assert_allclose(dx.numpy(), slope)


def test_what_only_rounds_read_is_not_read_before_a_loop_that_makes_none():
    """The sum over the warp is ahead of the loop; the index is far outside, as no iteration uses it."""
    head = 'extern "C" __global__ void f(const double* w, const double* x, const int* at, double* y, int m) {'
    text = f"{head} {I}double s = 0; for (int j = 0; j < m; ++j) {{ s += w[at[i]] * w[at[i]] * x[j]; }} y[i] = s; }}"
    w, y, at = (mg.tensor(v, device="sim") for v in (np.ones(2), np.ones(4), np.full(4, -100000000, np.int32)))
    (dx,) = mg.adjoint(text, ["x"]).vjp(w, w, at, y, 0, dy=[y], grid=1, block=4)
    np.testing.assert_array_equal(dx.numpy(), 0)


@pytest.mark.parametrize(
    ("value", "slope"),
    [
        ("pow(x[i], 2.0)", 0),
        ("pow(x[i], x[i])", 0),  # x^0 is 1 for every x, 0^y is 0 for every y > 0
        ("pow(2.0, x[i])", np.log(2)),
        ("sqrt(x[i])", 0),
        ("cbrt(x[i])", 0),
        ("hypot(x[i], x[i])", 0),
        ("atan2(x[i], x[i])", 0),
        ("copysign(x[i], -1.0)", 0),
        ("fabs(x[i])", 1),
        ("max(x[i], 0.0)", 1),
    ],
)
def test_where_there_is_no_slope_one_is_chosen(value, slope):
    """At 0: as in the ops of the package and in PyTorch, and 0 where a one-sided limit is infinite."""
    text = f'extern "C" __global__ void f(const double* x, double* y) {{ {I}y[i] = {value}; }}'
    (dx,) = mg.adjoint(text, ["x"]).vjp(np.zeros(4), np.zeros(4), dy=[np.ones(4)], grid=1, block=4)
    np.testing.assert_allclose(dx, slope)


def test_two_branches_that_add_to_each_others_elements():
    """Nothing separates the two loops: each index belongs to one thread, but an element to two."""
    text = """
extern "C" __global__ void f(const double* x, double* y) {
    __shared__ double s[4][4];
    int i = threadIdx.x, j = threadIdx.y;
    s[j][i] = x[j * 4 + i];
    __syncthreads();
    double v = 0;
    if (x[j * 4 + i] > 0.1) v += s[j][i] * s[j][i];
    if (x[j * 4 + i] > 0.2) v += 3 * s[i][j];
    y[j * 4 + i] = v;
}"""
    x = 0.3 + np.random.default_rng(2).random(16)
    inputs = [mg.tensor(a, device="sim") for a in (x, np.zeros(16))]
    with mg.microscope.watching() as report:
        (dx,) = mg.adjoint(text).vjp(*inputs, dy=[mg.tensor(np.ones(16), device="sim")], grid=1, block=(4, 4))
    assert not report.problems
    np.testing.assert_allclose(dx.numpy(), 2 * x + 3)


WHOLE = {
    "t -= t / 3;": 2 / 3,
    "t += t / 3;": 4 / 3,
    "t = 2 * t / 3;": 2 / 3,
    "t = t / 2 / 3;": 1 / 6,
    "t = -t / 3;": -1 / 3,
    "t = 3 * t - 2 * t / 4;": 2.5,
    "int k = 5; t = t * k / 2;": 2.5,
    "int k = 5; t = t * (k / 2);": 2,
    "for (int k = 1; k < 4; ++k) t += t / k;": 2 * 3 / 2 * 4 / 3,
    "unsigned u = 2; t -= t * u;": -1,
    "unsigned u = 2; t = -(t * u);": -2,
    "unsigned u = 2; t = -t * u;": -2,
    "unsigned u = 2; t = t * -u;": 4294967294,
    "unsigned u = 2; double v = -u * t; t = v;": 4294967294,
    "unsigned u = 3; double v = t / 5 * (-u / 2) + t * (-(-u)); t = v;": 2147483646 / 5 + 3,
    "int k = 100000; double v = atan2(k, t * k) * 3.25; t = v;": -1,
    "int k = 100000, l = 100000; t = t * k * l;": 1e10,
    "t = 100000 * t * 100000 * 100000;": 1e15,
    "t = t * 1; t /= 1u; t *= 0x10; t /= -2;": -8,
    "double q[2] = {t, 1}; q[0] -= q[0] / 4; t = q[0];": 3 / 4,
    "y[i] = t; y[i] -= y[i] / 4; t = y[i];": 3 / 4,
    "t = third(t) * THREE / 2;": 1,
    "t = t * THREE / 2;": 1.5,
}


@pytest.mark.parametrize("kind", ["double", "float", "real"])
def test_whole_numbers_beside_a_real_are_converted(kind):
    """The factor of `t = a * t` is computed as in the kernel, not in integers."""
    head = "#define THREE 3\n__device__ double third(double v) { double w = v; w -= w / 3; return w; }\n"
    bodies = [body.replace("y[i]", f"y[{n}]") for n, body in enumerate(WHOLE)]
    parts = [f"{{ double t = x[{n}]; {body} y[{n}] = t; }}" for n, body in enumerate(bodies)]
    code = f'{head}extern "C" __global__ void f(const double* x, double* y) {{\n' + "\n".join(parts) + "\n}"
    code = code.replace("double", kind)
    dtype = np.float64 if kind == "double" else np.float32
    x, y, dy = (mg.tensor(np.full(len(WHOLE), v, dtype), device="sim") for v in (1.5, 0, 1))
    (dx,) = mg.adjoint(code, ["x"]).vjp(x, y, dy=[dy], grid=1, block=1)
    found = dict(zip(WHOLE, dx.numpy(), strict=True))
    assert found == pytest.approx(WHOLE, rel=1e-6 if dtype == np.float32 else 1e-14, abs=0)


def test_the_larger_of_a_number_and_nan_is_the_number():
    text = "y[i] = fmax(x[i], z[i]) + 2 * fmax(z[i], x[i]) + 4 * fmin(x[i], z[i]) + 8 * fmin(z[i], x[i]);"
    made = mg.adjoint(
        f"__global__ void f(const double* x, const double* z, double* y) {{ int i = threadIdx.x; {text} }}"
    )
    x, z = np.array([1.0, 2, np.nan]), np.array([2.0, np.nan, 1])
    dx, dz = made.vjp(x, z, 0 * x, dy=[np.ones(3)], grid=1, block=3)
    np.testing.assert_array_equal([dx, dz], [[12, 15, 0], [3, 0, 15]])
