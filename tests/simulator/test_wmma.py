"""Fragments of mma.h against NumPy: every shape, types of factors and sums, both layouts; and where they race."""

import numpy as np
import pytest

import minigrad as mg

TEXT = """#include <mma.h>
using namespace nvcuda;
__device__ bool by_rows(wmma::row_major*) { return true; }
__device__ bool by_rows(wmma::col_major*) { return false; }
template <int M, int N, int K, typename T, typename P, typename S, typename LA, typename LB>
__global__ void product(const P* a, const P* b, S* c, float scale) {
    wmma::fragment<wmma::matrix_a, M, N, K, T, LA> x;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LB> y;
    wmma::fragment<wmma::accumulator, M, N, K, S> sum, old;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < 2; ++k) {
        bool rows = by_rows((LA*)nullptr), across = by_rows((LB*)nullptr);
        wmma::load_matrix_sync(x, a + k * (rows ? K : K * M), rows ? 2 * K : M);
        wmma::load_matrix_sync(y, b + k * (across ? K * N : K), across ? N : 2 * K);
        wmma::mma_sync(sum, x, y, sum);
    }
    wmma::load_matrix_sync(old, c, N, wmma::mem_row_major);
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] + S(scale) * old.x[i];
    wmma::store_matrix_sync(c, sum, N, wmma::mem_row_major);
}
"""
ROWS, COLUMNS = "nvcuda::wmma::row_major", "nvcuda::wmma::col_major"
CASES = [
    ((16, 16, 16), "half", "half", "float", ROWS, ROWS),
    ((16, 16, 16), "half", "half", "half", COLUMNS, ROWS),
    ((32, 8, 16), "half", "half", "float", ROWS, COLUMNS),
    ((8, 32, 16), "__nv_bfloat16", "__nv_bfloat16", "float", COLUMNS, COLUMNS),
    ((16, 16, 8), "nvcuda::wmma::precision::tf32", "float", "float", ROWS, COLUMNS),
    ((8, 8, 4), "double", "double", "double", ROWS, COLUMNS),
    ((16, 16, 16), "signed char", "signed char", "int", ROWS, COLUMNS),
    ((8, 32, 16), "unsigned char", "unsigned char", "int", ROWS, ROWS),
]
NUMPY = {"half": "f2", "float": "f4", "double": "f8", "signed char": "i1", "unsigned char": "u1", "int": "i4"}


@pytest.mark.sample(3)
@pytest.mark.parametrize(("shape", "kind", "stored", "total", "rows", "columns"), CASES)
def test_a_product_of_fragments(shape, kind, stored, total, rows, columns, kernel_device):
    (m, n, k), rng = shape, np.random.default_rng(0)
    low = 0 if "unsigned" in kind else -8
    a, b, c = (rng.integers(low, 9, size) for size in ((m, 2 * k), (2 * k, n), (m, n)))
    dtype = (
        mg.tensor([1.0], dtype="bfloat16", device="numpy").numpy().dtype if "bf" in stored else np.dtype(NUMPY[stored])
    )
    given = [x.astype(dtype) for x in (a if rows == ROWS else a.T, b if columns == ROWS else b.T)]
    out = mg.tensor(c.astype(NUMPY[total]), device=kernel_device)
    name = f"product<{m}, {n}, {k}, {kind}, {stored}, {total}, {rows}, {columns}>"
    mg.kernel(TEXT, name)(*(mg.tensor(x.copy(), device=kernel_device) for x in given), out, 2.0, grid=1, block=32)
    assert (out.numpy() == a @ b + 2 * c).all()


def test_a_fragment_that_is_loaded_without_a_barrier_is_a_race():
    text = """#include <mma.h>
__global__ void k(const float* x, float* y) {
    using namespace nvcuda::wmma;
    __shared__ half s[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = x[i];
    BARRIER
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, col_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(c, 0);
    load_matrix_sync(a, s, 16);  // here
    load_matrix_sync(b, s, 16);
    mma_sync(c, a, b, c);
    if (threadIdx.x < 32) store_matrix_sync(y, c, 16, mem_row_major);
}"""
    x, y = np.arange(256, dtype=np.float32) % 7, np.zeros((16, 16), np.float32)
    assert mg.inspect(text.replace("BARRIER", "__syncthreads();"), x, y, grid=1, block=64).problems == []
    assert (y == x.reshape(16, 16) @ x.reshape(16, 16).T).all()
    races = mg.inspect(text.replace("BARRIER", ""), x, y, grid=1, block=64).problems
    assert {problem.kind for problem in races} == {"race"} and races[0].variable == "s"
