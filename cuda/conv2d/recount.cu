#include "vector.cuh"

// The same images with another number of channels, which are last, and with `wide` columns, of which number `left` is the
// first one of x: what x does not have is 0. Tensor cores take rows of 16 bytes, and a photograph has three channels.
// last: x has its channels last, too. thread -> four channels of a pixel of y.
extern "C" __global__ void conv2d_recount(
    const real* x, real* y, int channels, int wanted, int height, int width, int wide, int left, bool last, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int fours = (wanted + LANES - 1) / LANES, c = i % fours * LANES, place = i / fours, row = place / wide;
    int column = place % wide - left, next = last ? 1 : height * width;  // from one channel to the next
    int pixel = last ? (row * width + column) * channels
                     : (row / height * channels * height + row % height) * width + column;
    bool inside = (unsigned)column < width;
    Vec own;
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) {
        own.at[lane] = inside && c + lane < channels ? x[pixel + (c + lane) * next] : real(0);
    }
    real* to = y + place * wanted + c;
    if (wanted % LANES == 0) {
        vec(to) = own;
    } else {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) {
            if (c + lane < wanted) to[lane] = own.at[lane];
        }
    }
}
