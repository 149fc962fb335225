#include "attention/register_tile.cuh"

extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) attention_register_tile(
    const float* q, const float* k, const float* v, float* y, float* peaks, float* inverses, float scale, int group, int queries, int keys,
    int width, int causal) {
    flash_forward<Registers>(q, k, v, y, peaks, inverses, scale, {group, queries, keys, width, causal});
}
