#include "matmul/wgmma.cuh"

// da = dy @ b^T. The sum, over n, goes along the rows of both.
extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) matmul_wgmma_backward_a(
    const __grid_constant__ TensorMap dy, const __grid_constant__ TensorMap b, bfloat16* da, int m, int n, int k, int count,
    View dy_at, View b_at) {
    product<bfloat16, true, true>(dy, b, da, m, k, n, count, dy_at, b_at);
}

// db = a^T @ dy. The sum, over m, goes down the columns of both. It stays float: a weight in bfloat16 is the copy of one in
// float, which has this gradient. A long sum of few tiles is made in parts, each like a matrix of a batch.
extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) matmul_wgmma_backward_b(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap dy, float* db, int m, int n, int k, int count,
    View a_at, View dy_at, int chunk) {
    product<bfloat16, false, false>(a, dy, db, k, n, m, count, a_at, dy_at, chunk);
}
