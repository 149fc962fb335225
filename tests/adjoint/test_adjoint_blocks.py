"""Blocks exchanged with the iterations of a loop, so that no atomics are needed; and stores that need no zeros."""

import adjoint_oracle as oracle
import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import ladder

ROUND = "sum += a_tile[ty][j] * b_tile[j][tx];"
COSTLY = " + ".join(f"sin({k} * p) * cos(0.{k} * p)" for k in range(1, 6))
FORMS = {  # what stands in the innermost loop, what is stored; and how many launches there are
    "a product": (ROUND, "sum", 2),
    "squares of differences": ("double d = a_tile[ty][j] - b_tile[j][tx]; sum += d * d;", "sum", 2),
    "its exponential": (ROUND, "exp(0.1 * sum)", 1),  # the sum is computed again: not twice
    "a round too costly to be run twice": (f"double p = a_tile[ty][j] * b_tile[j][tx]; sum += {COSTLY};", "sum", 1),
    "a round needs the one before": ("sum = 0.5 * sum + a_tile[ty][j] * b_tile[j][tx];", "sum", 1),
}


def product(inner=ROUND, last="sum", first=""):
    """The adjoint of the ladder's product in tiles of 3, with other statements in it, at the store and in front."""
    text = ladder("matmul_tiled").source.text
    assert ROUND in text and "column] = sum;" in text
    text = text.replace(ROUND, inner).replace("column] = sum;", f"column] = {last};")
    text = text.replace("real sum = 0;", f"{first} real sum = 0;")
    return mg.adjoint(mg.kernel(text, "matmul_tiled", defines={"TILE": 3}), wrt=["a", "b"])


def tiles(m, n, k):
    rng = np.random.default_rng(1)
    return [rng.random(m * k), rng.random(k * n), np.zeros(m * n), m, n, k]


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_tiles(form):
    inner, last, launches = FORMS[form]
    made = product(inner, last)
    assert len(made.kernels) == launches
    assert ("atomicAdd" in made.source) == (launches == 1)
    oracle.check(made, tiles(7, 5, 8), (2, 3), (3, 3))


def test_a_local_array_begins_with_numbers_of_the_block():
    """In a loop over blocks, its initial values are those of each block."""
    made = product(last="sum * (w[0] + w[1])", first="real w[2] = {1 + blockIdx.y, 0.5 * blockIdx.x};")
    assert len(made.kernels) == 2
    oracle.check(made, tiles(7, 5, 8), (2, 3), (3, 3))


@pytest.mark.parametrize("extents", [(1, 1, 1), (3, 3, 3), (7, 5, 0), (2, 9, 4)])
@pytest.mark.parametrize("more", [0, 2])
def test_extents_of_the_product(extents, more):
    m, n, k = extents
    made = product()
    grid = ((n + 2) // 3 + more, (m + 2) // 3 + more)
    if k:
        oracle.check(made, tiles(m, n, k), grid, (3, 3))
    else:
        found = made.vjp(*tiles(m, n, k), dy=[np.ones(m * n)], grid=grid, block=(3, 3))
        assert [d.shape for d in found] == [(0,), (0,)]


def test_a_grid_too_small_leaves_zeros():
    """Elements that the kernel does not reach have no gradient, and no memory is read before it is written."""
    made = product()
    m, n, k = 7, 5, 4
    a, b, y = np.ones(m * k), np.ones(k * n), np.zeros(m * n)
    da, db = made.vjp(a, b, y, m, n, k, dy=[np.ones(m * n)], grid=(1, 2), block=(3, 3))
    np.testing.assert_array_equal(da.reshape(m, k), np.repeat([[3.0]] * 6 + [[0.0]], k, axis=1))
    np.testing.assert_array_equal(db.reshape(k, n), np.tile([6.0] * 3 + [0.0] * 2, (k, 1)))


def test_a_launch_of_its_own_that_stores_less_than_all():
    """The first 8 of 12 elements; the others are 0, although 3 blocks of 4 threads would be as many as there are."""
    made = mg.adjoint(
        """
#define T 4
extern "C" __global__ void f(const double* a, double* y, int k) {
    __shared__ double s[T];
    int t = threadIdx.x, i = blockIdx.x * T + t;
    double sum = 0;
    for (int start = 0; start < k; start += T) {
        s[t] = a[start + t];
        __syncthreads();
        for (int j = 0; j < T; ++j) {
            sum += s[j];
        }
        __syncthreads();
    }
    y[i] = sum;
}
""",
        wrt=["a"], name="f",
    )  # fmt: skip
    assert [kernel.name for kernel in made.kernels] == ["f_adjoint_a"]
    (d_a,) = made.vjp(np.ones(12), np.zeros(12), 8, dy=[np.arange(12.0)], grid=3, block=4)
    np.testing.assert_array_equal(d_a, [66.0] * 8 + [0.0] * 4)


def test_a_gradient_from_inside_and_outside_of_the_loop():
    """One launch for the sums in the loop, and one for the others, which adds to those."""
    made = mg.adjoint(
        """
#define T 4
extern "C" __global__ void f(const double* a, const double* b, double* y, int n) {
    __shared__ double s[T];
    int t = threadIdx.x, i = blockIdx.x * T + t;
    double sum = 0;
    for (int start = 0; start < n; start += T) {
        s[t] = start + t < n ? a[start + t] : 0;
        __syncthreads();
        for (int j = 0; j < T; ++j) {
            sum += s[j] * s[j] * s[j];
        }
        __syncthreads();
    }
    if (i < n) y[i] = sum + a[i] * b[i];
}
""",
        wrt=["a", "b"], name="f",
    )  # fmt: skip
    rng = np.random.default_rng(3)
    assert [kernel.name for kernel in made.kernels] == ["f_adjoint_a", "f_adjoint_others"]
    assert "atomicAdd" not in made.source and "d_a[i] += " in made.source
    oracle.check(made, [rng.random(11), rng.random(11), np.zeros(11), 11], 3, 4)


STORES = {  # a body, and whether it fills d_a in a launch of 3 blocks of 8 threads over 20 elements
    "i < n": ("if (i < n) y[i] = a[i] * b[i];", True),
    "no guard": ("y[i] = a[i] * b[i];", False),  # launched with 24 elements it does
    "another guard": ("if (i < n && b[i] > 0.5) y[i] = a[i] * b[i];", False),
    "the first of two": ("if (i < n) { double u = a[i]; y[i] = u * b[i]; y[i] += a[i]; }", True),
    "a branch": ("if (i < n) { if (b[i] > 0.5) { y[i] = a[i]; } else { y[i] = 2 * a[i] * b[i]; } }", False),
    "a branch that reads the element": ("if (i < n) { if (a[i] > 0.5) { y[i] = a[i] * b[i]; } }", True),
    "its other side": ("if (i < n) { if (a[i] < 0.5) { y[i] = b[i]; } else { y[i] = a[i] * b[i]; } }", True),
    "both sides": ("if (i < n) { if (a[i] > 0.5) { y[i] = a[i] * b[i]; } else { y[i] = 2 * a[i]; } }", False),
    "a branch that reads another element": ("if (i < n) { if (a[n - 1 - i] > 0.5) { y[i] = a[i] * b[i]; } }", False),
    "a test that may leave it unread": ("if (i < n && a[i] > 0.5) y[i] = a[i] * b[i];", False),
    "an index that changes": (
        "if (i < n) { int k = i; if (a[k] > 0.5) { k = n - 1 - k; y[i] = a[k] * b[i]; } }",
        False,
    ),
    "every other": ("if (2 * i < n) y[2 * i] = a[2 * i] * b[2 * i];", False),
    "backwards": ("if (i < n) y[i] = a[n - 1 - i] * b[i];", False),
    "a bound of its own": ("int half = n / 2; if (i < half) y[i] = a[i] * b[i];", False),
    "a stride": ("for (int j = i; j < n; j += gridDim.x * blockDim.x) y[j] = a[j] * b[j];", False),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", STORES)
def test_zeros_are_left_out_where_all_is_stored(form):
    body, filled = STORES[form]
    text = f"""extern "C" __global__ void f(const double* a, const double* b, double* y, int n) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x; {body} }}"""
    made = mg.adjoint(text, wrt=["a", "b"], name="f")
    rng = np.random.default_rng(4)
    size = 24 if form == "no guard" else 20
    args = [rng.random(size), rng.random(size), np.zeros(size), size]
    oracle.check(made, args, 3, 8)
    on_sim = [mg.tensor(a, device="sim") if np.ndim(a) else a for a in args]
    run = made.prepared(on_sim, 3, 8)
    assert run.fills("a") == (filled or form == "no guard")
    fewer = made.vjp(*args, dy=[np.ones(size)], grid=1, block=8)  # threads than elements
    assert np.isfinite(np.concatenate(fewer)).all()
    larger = [rng.random(30), rng.random(30), np.zeros(30), size]  # more elements than threads: the rest is 0
    found = made.vjp(*larger, dy=[np.ones(30)], grid=3, block=8)
    assert not found[0][24:].any() and not found[1][24:].any()
