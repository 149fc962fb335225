#include "conv2d/wgmma.cuh"

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_tf32(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const float* bias, float* y, Window at,
    int kernels, int images) {
    product<float, false>(w, w, x, x, bias, y, at, kernels, images);
}

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_bf16(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const bfloat16* bias, bfloat16* y, Window at,
    int kernels, int images) {
    product<bfloat16, false>(w, w, x, x, bias, y, at, kernels, images);
}
