#include "matmul/tensor_cores.cuh"

// c = a @ b, of floats rounded to TF32, with a relative error of at most 2^-11.
extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_tf32(
    const float* a, const float* b, float* c, int m, int n, int k, View a_at, View b_at) {
    matrices<Tf32, ALONG, DOWN>(a, b, c, m, n, k, a_at, b_at);
}

// c = a @ b, of bfloat16, summed in float and rounded at the end.
extern "C" __global__ void __launch_bounds__(THREADS, 1) matmul_mma_bf16(
    const bfloat16* a, const bfloat16* b, bfloat16* c, int m, int n, int k, View a_at, View b_at) {
    matrices<Bf16, ALONG, DOWN>(a, b, c, m, n, k, a_at, b_at);
}
