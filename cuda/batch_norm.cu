#include "batch_norm.cuh"

// x is seen as (images, channels, inner), or with the channels last as (pixels, channels). All arrays but x, y and their
// gradients have a number for each channel.
//
// Statistics and sums are made in two launches. Many blocks add up a part of a channel each, parts[part][2][channel]; then
// `finish` adds up the parts. The order of all additions is fixed.

// The sums of x - shift and of its square, in one pass. The shift is the channel's first element: without it, a variance
// would be lost beside a large mean. block -> `chunk` elements of a channel.
extern "C" __global__ void batch_norm_statistics(
    const real* x, wide* parts, int images, int channels, int inner, int chunk) {
    int c = blockIdx.x, begin = blockIdx.y * chunk, end = min(begin + chunk, images * inner);
    wide shift = x[c * inner], sum = 0, squares = 0;
#pragma unroll 4
    for (int i = begin + threadIdx.x; i < end; i += blockDim.x) {
        wide beyond = x[place(c, i, channels, inner)] - shift;
        sum += beyond;
        squares += beyond * beyond;
    }
    sum = block_reduce(sum, Add()), squares = block_reduce(squares, Add());
    if (threadIdx.x == 0) {
        parts[2 * blockIdx.y * channels + c] = sum;
        parts[(2 * blockIdx.y + 1) * channels + c] = squares;
    }
}

// The same with the channels last. block -> strip of pixels, thread -> four channels of pairs of pixels.
extern "C" __global__ void batch_norm_statistics_nhwc(const real* x, wide* parts, int channels, int pixels, int pairs) {
    Strip strip(channels, pixels, pairs);
    Vec shift = {};
    Four<wide> sum = {}, squares = {};
    if (strip.c < channels) shift = vec(&x[strip.c]);
    strip.each_pair([&](int i, bool both, int) {
        Vec in[2];
        strip.load(in, x, i, both);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            if (j && !both) break;
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) {
                wide beyond = in[j].at[lane] - shift.at[lane];
                sum.at[lane] += beyond;
                squares.at[lane] += beyond * beyond;
            }
        }
    });
    put_parts(parts, strip, sum, squares);
}

// The two sums of channel c over all parts. The first row of threads gets them.
struct Totals {
    wide first = 0, second = 0;

    __device__ Totals(const wide* parts, int count, int channels, int c) {
#pragma unroll 4
        for (int i = threadIdx.y; i < count && c < channels; i += blockDim.y) {
            first += parts[2 * i * channels + c];
            second += parts[(2 * i + 1) * channels + c];
        }
        first = add_rows(first), second = add_rows(second);
    }
};

// mean and var of each channel, of `terms` elements. The running ones move towards them by `momentum`, with the variance
// over terms - 1. threadIdx.x -> channel, threadIdx.y -> every blockDim.y-th part.
extern "C" __global__ void batch_norm_finish_statistics(
    const wide* parts, const real* x, wide* mean, wide* var, wide* running_mean, wide* running_var, wide momentum,
    int count, int channels, int inner, int terms) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    Totals total(parts, count, channels, c);
    if (threadIdx.y > 0 || c >= channels) return;
    wide beyond = total.first / terms, center = x[c * inner] + beyond;
    wide spread = total.second - total.first * beyond;
    if (spread < 0) spread = 0;  // by rounding; NaN stays
    mean[c] = center;
    var[c] = spread / terms;
    running_mean[c] = (1 - momentum) * running_mean[c] + momentum * center;
    running_var[c] = (1 - momentum) * running_var[c] + momentum * (spread / (terms - 1));
}

// y = (x - mean) / sqrt(var + eps) * weight + bias. thread -> one element.
extern "C" __global__ void batch_norm_forward(
    const real* x, const wide* mean, const wide* var, const wide* weight, const wide* bias, real* y, wide eps,
    int channels, int inner, int size) {
    normalize<false>(x, {mean, var, weight, bias, eps}, nullptr, y, nullptr, channels, inner, size);
}

// The same with the channels last. block -> strip of pixels, thread -> four channels of pairs of pixels.
extern "C" __global__ void batch_norm_forward_nhwc(
    const real* x, const wide* mean, const wide* var, const wide* weight, const wide* bias, real* y, wide eps,
    int channels, int pixels, int pairs) {
    normalize<false>(x, {mean, var, weight, bias, eps}, nullptr, y, nullptr, {channels, pixels, pairs, true});
}

// The parts of the sums of dy and of dy * (x - mean), of which all gradients are made. block -> `chunk` elements of a
// channel.
extern "C" __global__ void batch_norm_sums(
    const real* dy, const real* x, const wide* mean, const wide* var, wide* parts, wide eps, int images, int channels,
    int inner, int chunk) {
    Channels of = {mean, var, nullptr, nullptr, eps};
    add_up<OPEN>(dy, x, of, nullptr, nullptr, parts, images, channels, inner, chunk);
}

// The same with the channels last. block -> strip of pixels, thread -> four channels of pairs of pixels.
extern "C" __global__ void batch_norm_sums_nhwc(
    const real* dy, const real* x, const wide* mean, const wide* var, wide* parts, wide eps, int channels, int pixels,
    int pairs) {
    add_up<OPEN>(dy, x, {mean, var, nullptr, nullptr, eps}, nullptr, nullptr, parts, {channels, pixels, pairs});
}

// dbias = sum of dy, dweight = sum of dy (x - mean) / sqrt(var + eps). threadIdx.x -> channel, threadIdx.y -> every
// blockDim.y-th part.
extern "C" __global__ void batch_norm_finish_sums(
    const wide* parts, const wide* var, wide* dweight, wide* dbias, wide eps, int count, int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    Totals total(parts, count, channels, c);
    if (threadIdx.y > 0 || c >= channels) return;
    dbias[c] = total.first;
    dweight[c] = total.second * rsqrt(var[c] + eps);
}

// dx = weight / sqrt(var + eps) * (dy - part * (dbias + dweight * normalized x)), with part = 1 / elements of a
// channel, or 0 in evaluation. thread -> one element.
extern "C" __global__ void batch_norm_backward(
    const real* dy, const real* x, const wide* mean, const wide* var, const wide* weight, const wide* dweight,
    const wide* dbias, real* dx, wide eps, wide part, int channels, int inner, int size) {
    Channels of = {mean, var, weight, nullptr, eps};
    differentiate<OPEN>(dy, x, of, dweight, dbias, dx, part, channels, inner, size);
}

// The same with the channels last. block -> strip of pixels, thread -> four channels of pairs of pixels.
extern "C" __global__ void batch_norm_backward_nhwc(
    const real* dy, const real* x, const wide* mean, const wide* var, const wide* weight, const wide* dweight,
    const wide* dbias, real* dx, wide eps, wide part, int channels, int pixels, int pairs) {
    Channels of = {mean, var, weight, nullptr, eps};
    differentiate<OPEN>(dy, x, of, dweight, dbias, dx, part, {channels, pixels, pairs, true});
}

// The gradients of the running statistics, with which a batch is normalized in evaluation. thread -> channel.
extern "C" __global__ void batch_norm_backward_running(
    const wide* var, const wide* weight, const wide* dweight, const wide* dbias, wide* dmean, wide* dvar, wide eps,
    int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    wide scale = (weight ? weight[c] : wide(1)) / sqrt(var[c] + eps);
    dmean[c] = -scale * dbias[c];
    dvar[c] = -scale * dweight[c] / (2 * sqrt(var[c] + eps));
}
