#include "matmul/wgmma.cuh"

// c = a @ b^T, of floats that the copy engine rounds to TF32: (m, k) @ (k, n), where b is stored as (n, k), since the
// instruction takes TF32 with the sum along the rows of both factors alone. k is a multiple of 4.
extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) matmul_wgmma_tf32(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c, int m, int n, int k, int count,
    View a_at, View b_at) {
    product<float, true, true>(a, b, c, m, n, k, count, a_at, b_at);
}
