#include "conv2d/wgmma.cuh"

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_tf32(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const float* bias, const float* residual,
    float* y, float* sums, Window at, int kernels, int images, int chunk, int relu) {
    product<float, false>(w, w, x, x, {bias, residual, relu != 0}, y, sums, at, kernels, images, chunk);
}

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_bf16(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const bfloat16* bias,
    const bfloat16* residual, bfloat16* y, float* sums, Window at, int kernels, int images, int chunk, int relu) {
    product<bfloat16, false>(w, w, x, x, {bias, residual, relu != 0}, y, sums, at, kernels, images, chunk);
}
