#include "conv2d/wgmma_backward_x.cuh"

// dx of windows that move by a stride. w: turned. turned: the window over dy of a parity.
extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_tf32_backward_x(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap dy, float* dx, Window at, Window turned, int images) {
    Parities parities(at, turned.channels / DEPTH<float>);
    product<float, false>(w, w, dy, dy, {}, dx, nullptr, turned, at.channels, images, parities);
}

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_bf16_backward_x(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap dy, bfloat16* dx, Window at, Window turned,
    int images) {
    Parities parities(at, turned.channels / DEPTH<bfloat16>);
    product<bfloat16, false>(w, w, dy, dy, {}, dx, nullptr, turned, at.channels, images, parities);
}
