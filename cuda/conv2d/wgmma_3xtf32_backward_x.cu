#define PIXELS 128  // a lane holds two sums of each element
#include "conv2d/wgmma_backward_x.cuh"

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_3xtf32_backward_x(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap w_rest, const __grid_constant__ TensorMap dy,
    const __grid_constant__ TensorMap dy_rest, float* dx, Window at, Window turned, int images) {
    Parities parities(at, turned.channels / DEPTH<float>);
    product<float, true>(w, w_rest, dy, dy_rest, {}, dx, nullptr, turned, at.channels, images, parities);
}
