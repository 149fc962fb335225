"""Blocks of two axes, and tiles in shared memory as kernels have them, against the complex step."""

import adjoint_oracle as oracle
import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import LaunchError

RNG = np.random.default_rng(3)


def test_every_thread_of_a_block_of_two_axes_has_its_own_tape():
    """The grid has one axis, and the block two, whose extents the index implies."""
    made = mg.adjoint("""
#define T 4
extern "C" __global__ void f(const double* x, double* y, int rounds) {
    int i = (blockIdx.x * T + threadIdx.y) * T + threadIdx.x;
    double p = 1;
    for (int r = 0; r < rounds; ++r) p = p * sin(p + x[i * rounds + r]);
    y[i] = p;
}""")
    oracle.check(made, [RNG.standard_normal(96), np.zeros(32), 3], 2, (4, 4))


PRODUCT = """
#define T 4
extern "C" __global__ void f(const double* a, const double* b, double* y, int m, int n, int k) {
    __shared__ double s[ROWS], r[COLUMNS];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty, column = blockIdx.x * T + tx;
    double sum = 0, more = 0;
    for (int start = 0; start < k; start += T) {
        LOAD
        __syncthreads();
        ROUNDS
        __syncthreads();
    }
    if (row < m && column < n) y[row * n + column] = sum;
    LAST
}
"""
A = "row < m && start + tx < k ? a[row * k + start + tx] : 0"
B = "start + ty < k && column < n ? b[(start + ty) * n + column] : 0"
ROW = "blockIdx.y * T + Y < m && start + X < k ? a[(blockIdx.y * T + Y) * k + start + X] : 0"
DEPTH = "start + Y < k && blockIdx.x * T + X < n ? b[(start + Y) * n + blockIdx.x * T + X] : 0"
SQUARE, SUM = f"s[ty][tx] = {A}; r[ty][tx] = {B};", "for (int j = 0; j < T; ++j) sum += s[ty][j] * r[j][tx];"
LOOP = f"s[Y][X] = {ROW}; r[Y][X] = {DEPTH};"
TWO = f"for (int h = 0; h < 2; ++h) {{ int X = tx, Y = ty + h * T / 2; {LOOP} }}"
BOTH = "for (int j = 0; j < T; ++j) { sum += s[ty][j] * r[j][tx]; more += s[ty + T / 2][j] * r[j][tx]; }"
LOWER = "if (row + T / 2 < m && column < n) y[(row + T / 2) * n + column] = more;"
TILES = {  # extents of the tiles, how they are stored, how they are read; how many launches, and the block
    "as large as the block": ("T][T", "T][T", SQUARE, SUM, 2),
    "extents as numbers": ("4][4", "4][4", SQUARE, SUM, 2),
    "a column left free": ("T][T + 1", "T][T + 1", SQUARE, SUM, 2),
    "one axis": (
        "T * T", "T * T", f"s[ty * T + tx] = {A}; r[ty * T + tx] = {B};",
        "for (int j = 0; j < T; ++j) sum += s[ty * T + j] * r[j * T + tx];", 1,
    ),
    "one axis, a column left free": (
        "T * (T + 1)", "T * T", f"s[ty * (T + 1) + tx] = {A}; r[ty * T + tx] = {B};",
        "for (int j = 0; j < T; ++j) sum += s[ty * (T + 1) + j] * r[j * T + tx];", 1,
    ),
    "larger than the block": ("T][2 * T", "3 * T][T", SQUARE, SUM, 2),
    "stored transposed": (
        "T][T + 1", "T][T + 1", f"s[tx][ty] = {A}; r[ty][tx] = {B};",
        "for (int j = 0; j < T; ++j) sum += s[j][ty] * r[j][tx];", 2,
    ),
    "a loop over all elements": (
        "T][T", "T][T", f"for (int q = ty * blockDim.x + tx; q < T * T; q += blockDim.x * blockDim.y) {{ "
        f"int Y = q / T, X = q % T; {LOOP} }}", SUM, 1,
    ),
    "both ways of a branch": (
        "T][T", "T][T + 1", f"if (row < m) {{ s[ty][tx] = {A}; }} else {{ s[ty][tx] = 0; }} r[ty][tx] = {B};", SUM, 2,
    ),
    "a round fewer than the tile has columns": (
        "T][T + 1", "T + 1][T", SQUARE, SUM.replace("j < T", "j < T && start + j < k"), 1,
    ),
    "two rows a thread": ("T][T", "T][T", TWO, BOTH, 1),
}  # fmt: skip


def tiled(name):
    rows, columns, load, rounds, _ = TILES[name]
    text = PRODUCT.replace("ROWS", rows).replace("COLUMNS", columns).replace("LOAD", load).replace("ROUNDS", rounds)
    return mg.adjoint(text.replace("LAST", LOWER if "more" in rounds else ""), wrt=["a", "b"])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TILES)
def test_tiles_of_a_product(name):
    made = tiled(name)
    assert len(made.kernels) == TILES[name][-1]
    args = [RNG.standard_normal(6 * 9), RNG.standard_normal(9 * 7), np.zeros(6 * 7), 6, 7, 9]
    oracle.check(made, args, (2, 2), (4, 2) if "two rows" in name else (4, 4))


def test_a_block_that_does_not_store_what_it_reads():
    """The indices do not imply the extent of a block whose threads store two rows each; each launch is checked."""
    args = [np.ones(54), np.ones(63), np.ones(42), 6, 7, 9]
    with pytest.raises(LaunchError, match=r"block of \(4, 1, 1\), an iteration of the loop at line 7 reads "):
        tiled("two rows a thread").vjp(*args, dy=[np.ones(42)], grid=(2, 2), block=(4, 1))


@pytest.mark.parametrize("block", [4, 5, 8])
def test_a_block_smaller_than_its_array(block):
    """The range of a thread's index implies the number of elements, not of threads."""
    made = mg.adjoint("""extern "C" __global__ void f(const double* x, double* y, int n) {
    __shared__ double s[9];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    double v = x[i];
    for (int k = 0; k < n; ++k) {
        s[t] = v;
        __syncthreads();
        v += 0.1 * s[blockDim.x - 1 - t] * v;
        __syncthreads();
    }
    y[i] = v;
}""")
    oracle.check(made, [RNG.standard_normal(2 * block), np.zeros(2 * block), 3], 2, block)


def test_a_tile_of_which_some_elements_stay():
    """Two of four threads store in the first half of an iteration; the other two elements are on a tape."""
    made = mg.adjoint("""
#define T 4
extern "C" __global__ void f(const double* x, double* y, int n) {
    __shared__ double s[2 * T];
    int t = threadIdx.x, i = blockIdx.x * T + t;
    double v = x[i];
    s[t] = v;
    for (int k = 0; k < n; ++k) {
        if (t < 2) s[t] = x[t] * k;
        __syncthreads();
        v += s[t] * s[t];
        __syncthreads();
        s[t] = v * 0.5;
        __syncthreads();
    }
    y[i] = v;
}""")
    assert not made.derived.fills
    oracle.check(made, [RNG.standard_normal(8), np.zeros(8), 3], 2, 4)


HALO = """
#define T 8
extern "C" __global__ void f(const double* x, const double* w, double* y, int n, int channels) {
    __shared__ double tile[T + 2];
    int t = threadIdx.x, i = blockIdx.x * T + t;
    double sum = 0;
    for (int c = 0; c < channels; ++c) {
        tile[t + 1] = i < n ? x[c * n + i] : 0;
        if (t == 0) tile[0] = i > 0 ? x[c * n + i - 1] : 0;
        if (t == T - 1) tile[T + 1] = i + 1 < n ? x[c * n + i + 1] : 0;
        __syncthreads();
        for (int j = 0; j < 3; ++j) sum += w[c * 3 + j] * tile[t + j] * tile[t + j];
        __syncthreads();
    }
    if (i < n) y[i] = sum;
}
"""
WHOLE = "for (int q = t; q < T + 2; q += blockDim.x) { int at = blockIdx.x * T + q - 1; "
WHOLE += "tile[q] = at >= 0 && at < n ? x[c * n + at] : 0; }"


@pytest.mark.parametrize("whole", [False, True], ids=["three stores", "a loop"])
def test_a_border_that_is_loaded_for_each_channel(whole):
    before, behind = HALO.index("tile[t + 1]"), HALO.index("__syncthreads")
    text = HALO[:before] + WHOLE + HALO[behind:] if whole else HALO
    args = [RNG.standard_normal(26), RNG.standard_normal(6), np.zeros(13), 13, 2]
    oracle.check(mg.adjoint(text, wrt=["x", "w"]), args, 2, 8)


TILE = "{ s[t] = x[q * 4 + t]; __syncthreads(); f += s[3 - t] * s[t]; __syncthreads(); }"
LOOP = f"for (int q = 0; q < n; ++q) {TILE}"
READ_BEHIND_THE_LOOP = {
    "a copy": "for (int q = 0; q < n; ++q) s[t] = x[q * 4 + t]; y[t] = s[t];",
    "a tile": f"{LOOP} y[t] = f + s[t] * s[3 - t];",
    "downwards": f"for (int q = n - 1; q >= 0; --q) {TILE} y[t] = f + s[t];",
    "a loop around both": f"for (int p = 0; p < 2; ++p) {{ for (int q = p; q < n; ++q) {TILE} f *= s[t]; }} y[t] = f;",
    "a loop around that reads it first": (
        f"s[t] = x[t]; for (int p = 0; p < 2; ++p) {{ f += s[t]; for (int q = p; q < n; ++q) {TILE} }} y[t] = f;"
    ),
    "two loops": f"{LOOP} f *= s[t]; for (int q = 1; q < n; ++q) {TILE} y[t] = f;",
    "a number of the block": (
        "__shared__ double c; for (int q = 0; q < n; ++q) {"
        " if (t == 0) c = x[q * 4]; __syncthreads(); f += c * x[q * 4 + t]; __syncthreads(); } y[t] = f * c;"
    ),
    "an array of the thread": (
        "double r[2]; for (int q = 0; q < n; ++q) for (int j = 0; j < 2; ++j) r[j] = x[q * 4 + (t + j) % 4];"
        " y[t] = r[0] * r[1];"
    ),
    "a function's loop": "fill(s, x, n); y[t] = s[t] * s[3 - t];",
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("body", READ_BEHIND_THE_LOOP.values(), ids=READ_BEHIND_THE_LOOP)
def test_a_gradient_from_behind_a_loop_enters_its_last_iteration(body):
    """Only where nothing but the loop reads an array does each iteration find its gradient 0, and may come first."""
    made = mg.adjoint(
        f"""
__device__ void fill(double* s, const double* x, int n) {{
    for (int q = 0; q < n; ++q) {{ s[threadIdx.x] = x[q * 4 + threadIdx.x]; __syncthreads(); }}
}}
__global__ void f(const double* x, double* y, int n) {{
    __shared__ double s[4];
    int t = threadIdx.x;
    double f = 0;
    {body}
}}""",
        ["x"],
    )
    oracle.check(made, [RNG.standard_normal(12), np.zeros(4), 3], 1, 4)


@pytest.mark.parametrize("n, k", [(10, 7)])
def test_a_matrix_times_its_transpose_turns_ownership_around_twice(n, k):
    made = mg.adjoint("""
__global__ void gram(const double* A, double* C, int n, int k) {
    __shared__ double a[4][4], b[4][4];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 4 + ty, column = blockIdx.x * 4 + tx;
    double sum = 0;
    for (int s = 0; s < k; s += 4) {
        a[ty][tx] = row < n && s + tx < k ? A[row * k + s + tx] : 0;
        b[ty][tx] = column < n && s + ty < k ? A[column * k + s + ty] : 0;
        __syncthreads();
        for (int j = 0; j < 4; ++j) sum += a[ty][j] * b[j][tx];
        __syncthreads();
    }
    if (row < n && column < n) C[row * n + column] = sum;
}""")
    assert [e.name for e in made.assembled.entries] == ["gram_adjoint_A", "gram_adjoint_A_2"]
    oracle.check(made, [RNG.standard_normal(n * k), np.zeros(n * n), n, k], (3, 3), (4, 4))


def test_the_variable_of_a_loop_and_one_of_a_branch_have_one_name():
    made = mg.adjoint(
        """
__global__ void f(const double* x, double* y, int n) {
    __shared__ double s[8];
    int i = threadIdx.x;
    for (int c = i; c < 8; c += 8) s[c] = 0;
    __syncthreads();
    if (i < n) { int c = (int)x[i]; atomicAdd(&s[c], (x[i] - c) * x[i]); }
    else { const int c = i; atomicAdd(&s[c], x[i] * c); }
    __syncthreads();
    y[i] = 0;
    for (int c = 0; c < 3; ++c) { double e = s[(i + c) % 8]; y[i] += e * e * c; }
}""",
        ["x"],
    )
    oracle.check(made, [RNG.uniform(0, 8, 8), np.zeros(8), 5], 1, 8, 1e-9)
