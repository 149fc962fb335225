#include "attention/register_tile.cuh"

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) attention_register_tile_backward_all(
    const float* dy, const float* q, const float* k, const float* v, const float* peaks, const float* inverses, const float* dots, float* dq,
    float* dk, float* dv, float scale, int group, int queries, int keys, int width, int causal) {
    flash_backward_keys<Registers, true>(dy, q, k, v, peaks, inverses, dots, dq, dk, dv, scale, {group, queries, keys, width, causal});
}
