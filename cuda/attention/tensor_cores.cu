#include "attention/tensor_cores.cuh"

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) attention_mma_bf16(
    const bfloat16* q, const bfloat16* k, const bfloat16* v, bfloat16* y, float* peaks, float* inverses, float scale, int group, int queries,
    int keys, int width, int causal) {
    flash_forward<TensorCores<Bf16>>(q, k, v, y, peaks, inverses, scale, {group, queries, keys, width, causal});
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) attention_mma_tf32(
    const float* q, const float* k, const float* v, float* y, float* peaks, float* inverses, float scale, int group, int queries, int keys,
    int width, int causal) {
    flash_forward<TensorCores<Tf32>>(q, k, v, y, peaks, inverses, scale, {group, queries, keys, width, causal});
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) attention_mma_3xtf32(
    const float* q, const float* k, const float* v, float* y, float* peaks, float* inverses, float scale, int group, int queries, int keys,
    int width, int causal) {
    flash_forward<TensorCores<Tf32x3>>(q, k, v, y, peaks, inverses, scale, {group, queries, keys, width, causal});
}
