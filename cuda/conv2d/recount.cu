#include "vector.cuh"

// The same images with out_channels channels, which are last, and out_width columns, of which column `left` is the first of
// x; the others are 0. Tensor cores take rows of 16 bytes, and a photograph has three channels. last: x has its channels
// last, too. thread -> four channels of a pixel of y.
extern "C" __global__ void conv2d_recount(
    const real* x, real* y, int channels, int out_channels, int height, int width, int out_width, int left, bool last, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int fours = (out_channels + LANES - 1) / LANES, c = i % fours * LANES, place = i / fours, row = place / out_width;
    int column = place % out_width - left, next = last ? 1 : height * width;  // from one channel to the next
    int pixel = last ? (row * width + column) * channels
                     : (row / height * channels * height + row % height) * width + column;
    bool inside = (unsigned)column < width;
    Vec own;
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) {
        own.at[lane] = inside && c + lane < channels ? x[pixel + (c + lane) * next] : real(0);
    }
    real* to = y + place * out_channels + c;
    if (out_channels % LANES == 0) {
        vec(to) = own;
    } else {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) {
            if (c + lane < out_channels) to[lane] = own.at[lane];
        }
    }
}
