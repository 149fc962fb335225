#include "common.cuh"

// The same images with another number of channels, which are last: those beyond the first `channels` are 0. Tensor cores
// take rows of 16 bytes, and a photograph has three channels. last: x has its channels last, too.
// thread -> one element of y.
extern "C" __global__ void conv2d_recount(const real* x, real* y, int channels, int wanted, int pixels, bool last, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int c = i % wanted, pixel = i / wanted;
    int from = last ? pixel * channels + c : (pixel / pixels * channels + c) * pixels + pixel % pixels;
    y[i] = c < channels ? x[from] : real(0);
}
