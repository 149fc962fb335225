#include "matmul/tensor_cores.cuh"

// da = dy @ b^T. The sum, over n, goes along the rows of both.
extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_tf32_backward_a(
    const float* dy, const float* b, float* da, int m, int n, int k, View dy_at, View b_at) {
    matrices<Tf32, ALONG, ALONG>(dy, b, da, m, k, n, dy_at, b_at);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_bf16_backward_a(
    const bfloat16* dy, const bfloat16* b, bfloat16* da, int m, int n, int k, View dy_at, View b_at) {
    matrices<Bf16, ALONG, ALONG>(dy, b, da, m, k, n, dy_at, b_at);
}

// db = a^T @ dy, not rounded. The sum, over m, goes down the columns of both.
extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_tf32_backward_b(
    const float* a, const float* dy, float* db, int m, int n, int k, View a_at, View dy_at) {
    matrices<Tf32, DOWN, DOWN>(a, dy, db, k, n, m, a_at, dy_at);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_bf16_backward_b(
    const bfloat16* a, const bfloat16* dy, float* db, int m, int n, int k, View a_at, View dy_at) {
    matrices<Bf16, DOWN, DOWN>(a, dy, db, k, n, m, a_at, dy_at);
}
