#include "matmul/wgmma.cuh"

// c = a @ b, of bfloat16, summed in float and rounded at the end. n and k are multiples of 8, since the copy engine takes
// rows that are multiples of 16 bytes. matmul_mma_bf16 multiplies all other matrices.
extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) matmul_wgmma(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, bfloat16* c, int m, int n, int k, int count,
    View a_at, View b_at) {
    product<bfloat16, true, false>(a, b, c, m, n, k, count, a_at, b_at);
}
