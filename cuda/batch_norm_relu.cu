#include "batch_norm.cuh"

// batch_norm.cu makes the statistics and finishes the sums of both ops. The gradient passes where z + residual > 0.
// Without a residual z is made again from x, which is read anyway; with one the forward pass notes it: with the channels
// last by a bit, which takes 1/32 of the memory that y takes, else by a byte.

// y = relu((x - mean) / sqrt(var + eps) * weight + bias + residual). thread -> one element.
extern "C" __global__ void batch_norm_relu_forward(
    const real* x, const wide* mean, const wide* var, const wide* weight, const wide* bias, const real* residual,
    real* y, unsigned char* noted, wide eps, int channels, int inner, int size) {
    normalize<true>(x, {mean, var, weight, bias, eps}, residual, y, noted, channels, inner, size);
}

// The same with the channels last. block -> strip of pixels, thread -> four channels of pairs of pixels.
extern "C" __global__ void batch_norm_relu_forward_nhwc(
    const real* x, const wide* mean, const wide* var, const wide* weight, const wide* bias, const real* residual,
    real* y, unsigned char* noted, wide eps, int channels, int pixels, int pairs) {
    normalize<true>(x, {mean, var, weight, bias, eps}, residual, y, noted, {channels, pixels, pairs, true});
}

// The parts of the sums of dz and of dz * (x - mean), where dz is dy where it passes, else 0. With a residual dz is
// stored: it is the gradient of the residual. block -> `chunk` elements of a channel.
extern "C" __global__ void batch_norm_relu_sums(
    const real* dy, const real* x, const wide* mean, const wide* var, const wide* weight, const wide* bias,
    const unsigned char* noted, real* dz, wide* parts, wide eps, int images, int channels, int inner, int chunk) {
    Channels of = {mean, var, weight, bias, eps};
    if (noted) {
        add_up<NOTED>(dy, x, of, noted, dz, parts, images, channels, inner, chunk);
    } else {
        add_up<POSITIVE>(dy, x, of, nullptr, nullptr, parts, images, channels, inner, chunk);
    }
}

// The same with the channels last. block -> strip of pixels, thread -> four channels of pairs of pixels.
extern "C" __global__ void batch_norm_relu_sums_nhwc(
    const real* dy, const real* x, const wide* mean, const wide* var, const wide* weight, const wide* bias,
    const unsigned char* noted, real* dz, wide* parts, wide eps, int channels, int pixels, int pairs) {
    Channels of = {mean, var, weight, bias, eps};
    Strip strip(channels, pixels, pairs);
    if (noted) {
        add_up<NOTED>(dy, x, of, noted, dz, parts, strip);
    } else {
        add_up<POSITIVE>(dy, x, of, nullptr, nullptr, parts, strip);
    }
}

// dx without a residual: see Gradient. With one, batch_norm_backward makes it of dz. thread -> one element.
extern "C" __global__ void batch_norm_relu_backward(
    const real* dy, const real* x, const wide* mean, const wide* var, const wide* weight, const wide* bias,
    const wide* dweight, const wide* dbias, real* dx, wide eps, wide part, int channels, int inner, int size) {
    Channels of = {mean, var, weight, bias, eps};
    differentiate<POSITIVE>(dy, x, of, dweight, dbias, dx, part, channels, inner, size);
}

// The same with the channels last. block -> strip of pixels, thread -> four channels of pairs of pixels.
extern "C" __global__ void batch_norm_relu_backward_nhwc(
    const real* dy, const real* x, const wide* mean, const wide* var, const wide* weight, const wide* bias,
    const wide* dweight, const wide* dbias, real* dx, wide eps, wide part, int channels, int pixels, int pairs) {
    Channels of = {mean, var, weight, bias, eps};
    differentiate<POSITIVE>(dy, x, of, dweight, dbias, dx, part, {channels, pixels, pairs, true});
}
