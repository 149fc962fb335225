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
