#define WIDE 32  // a warp holds both parts of its factors, so it has registers for half as many sums
#define COLUMNS 128
#include "matmul/tensor_cores.cuh"

// c = a @ b, of floats, with the error of float32: three products in TF32.
extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_3xtf32(
    const float* a, const float* b, float* c, int m, int n, int k, View a_at, View b_at) {
    matrices<Tf32x3, ALONG, DOWN>(a, b, c, m, n, k, a_at, b_at);
}

// da = dy @ b^T.
extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_3xtf32_backward_a(
    const float* dy, const float* b, float* da, int m, int n, int k, View dy_at, View b_at) {
    matrices<Tf32x3, ALONG, ALONG>(dy, b, da, m, k, n, dy_at, b_at);
}

// db = a^T @ dy.
extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_3xtf32_backward_b(
    const float* a, const float* dy, float* db, int m, int n, int k, View a_at, View dy_at) {
    matrices<Tf32x3, DOWN, DOWN>(a, dy, db, k, n, m, a_at, dy_at);
}
