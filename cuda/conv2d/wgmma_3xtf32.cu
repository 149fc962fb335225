#define PIXELS 128  // a lane holds two sums of each element
#include "conv2d/wgmma.cuh"

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_3xtf32(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap w_rest, const __grid_constant__ TensorMap x,
    const __grid_constant__ TensorMap x_rest, const float* bias, const float* residual, float* y, float* sums, Window at,
    int kernels, int images, int chunk, int relu) {
    Parts parts(at, DEPTH<float>, chunk);
    product<float, true>(w, w_rest, x, x_rest, {bias, residual, relu != 0}, y, sums, at, kernels, images, parts);
}
