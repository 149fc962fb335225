#include "conv2d/wgmma.cuh"

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_tf32(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const float* bias, const float* residual,
    float* y, float* sums, Window at, int kernels, int images, int chunk, int relu) {
    Parts parts(at, DEPTH<float>, chunk);
    product<float, false>(w, w, x, x, {bias, residual, relu != 0}, y, sums, at, kernels, images, parts);
}

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_bf16(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const bfloat16* bias,
    const bfloat16* residual, bfloat16* y, float* sums, Window at, int kernels, int images, int chunk, int relu) {
    Parts parts(at, DEPTH<bfloat16>, chunk);
    product<bfloat16, false>(w, w, x, x, {bias, residual, relu != 0}, y, sums, at, kernels, images, parts);
}
