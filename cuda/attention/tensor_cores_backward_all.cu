#define HELD 0  // a block has two strips, too many for the registers beside the sums
#include "attention/tensor_cores.cuh"

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) attention_mma_bf16_backward_all(
    const bfloat16* dy, const bfloat16* q, const bfloat16* k, const bfloat16* v, const float* peaks, const float* inverses, const float* dots, float* dq, bfloat16* dk,
    bfloat16* dv, float scale, int group, int queries, int keys, int width, int causal) {
    flash_backward_keys<TensorCores<Bf16>, true>(dy, q, k, v, peaks, inverses, dots, dq, dk, dv, scale, {group, queries, keys, width, causal});
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) attention_mma_tf32_backward_all(
    const float* dy, const float* q, const float* k, const float* v, const float* peaks, const float* inverses, const float* dots, float* dq, float* dk,
    float* dv, float scale, int group, int queries, int keys, int width, int causal) {
    flash_backward_keys<TensorCores<Tf32>, true>(dy, q, k, v, peaks, inverses, dots, dq, dk, dv, scale, {group, queries, keys, width, causal});
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) attention_mma_3xtf32_backward_all(
    const float* dy, const float* q, const float* k, const float* v, const float* peaks, const float* inverses, const float* dots, float* dq, float* dk,
    float* dv, float scale, int group, int queries, int keys, int width, int causal) {
    flash_backward_keys<TensorCores<Tf32x3>, true>(dy, q, k, v, peaks, inverses, dots, dq, dk, dv, scale, {group, queries, keys, width, causal});
}
