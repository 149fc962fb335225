#include "reduce.cuh"

// x is seen as (images, channels, inner). All arrays but x, y and their gradients have a number for each channel.

// mean[c] and var[c], the mean of (x - mean)^2. block -> channel; its threads read it twice: the squares of differences
// keep their digits where the mean is large, which E[x^2] - mean^2 would lose.
extern "C" __global__ void batch_norm_statistics(
    const real* x, real* mean, real* var, int images, int channels, int inner) {
    int c = blockIdx.x, count = images * inner;
    auto at = [=](int i) { return x[(i / inner * channels + c) * inner + i % inner]; };
    real center = block_reduce(thread_reduce(count, 0, at, Add()), Add()) / count;
    auto square = [=](int i) { return (at(i) - center) * (at(i) - center); };
    real total = block_reduce(thread_reduce(count, 0, square, Add()), Add());
    if (threadIdx.x == 0) {
        mean[c] = center;
        var[c] = total / count;
    }
}

// y = (x - mean) / sqrt(var + eps) * weight + bias. thread -> one element.
extern "C" __global__ void batch_norm_forward(
    const real* x, const real* mean, const real* var, const real* weight, const real* bias, real* y, real eps,
    int channels, int inner, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int c = i / inner % channels;
    real scale = (weight ? weight[c] : real(1)) / sqrt(var[c] + eps);
    y[i] = (x[i] - mean[c]) * scale + (bias ? bias[c] : real(0));
}

// The two sums that all gradients are made of: dbias = sum of dy, and dweight = sum of dy (x - mean) / sqrt(var + eps).
// block -> channel.
extern "C" __global__ void batch_norm_sums(
    const real* dy, const real* x, const real* mean, const real* var, real* dweight, real* dbias, real eps, int images,
    int channels, int inner) {
    int c = blockIdx.x, count = images * inner;
    real center = mean[c];
    auto place = [=](int i) { return (i / inner * channels + c) * inner + i % inner; };
    real sum = block_reduce(thread_reduce(count, 0, [=](int i) { return dy[place(i)]; }, Add()), Add());
    auto along = [=](int i) { return dy[place(i)] * (x[place(i)] - center); };
    real slope = block_reduce(thread_reduce(count, 0, along, Add()), Add());
    if (threadIdx.x == 0) {
        dbias[c] = sum;
        dweight[c] = slope / sqrt(var[c] + eps);
    }
}

// dx = weight / sqrt(var + eps) * (dy - (dbias + dweight * normalized x) / count). mean and var depend on x: the two sums
// are their share. With count = 0 they do not, as in evaluation. thread -> one element.
extern "C" __global__ void batch_norm_backward(
    const real* dy, const real* x, const real* mean, const real* var, const real* weight, const real* dweight,
    const real* dbias, real* dx, real eps, int count, int channels, int inner, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int c = i / inner % channels;
    real inverse = 1 / sqrt(var[c] + eps), normal = (x[i] - mean[c]) * inverse;
    real share = count ? (dbias[c] + dweight[c] * normal) / count : real(0);
    dx[i] = (weight ? weight[c] : real(1)) * inverse * (dy[i] - share);
}

// The gradients of the running statistics, with which a batch is normalized in evaluation. thread -> channel.
extern "C" __global__ void batch_norm_backward_running(
    const real* var, const real* weight, const real* dweight, const real* dbias, real* dmean, real* dvar, real eps,
    int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    real scale = (weight ? weight[c] : real(1)) / sqrt(var[c] + eps);
    dmean[c] = -scale * dbias[c];
    dvar[c] = -scale * dweight[c] / (2 * sqrt(var[c] + eps));
}
