#include "conv2d/epilogue.cuh"
#include "vector.cuh"

// Adds up the parts of each sum, always in the same order: y = relu(their sum + bias + residual), channels last. thread ->
// four neighbors of y; kernels is a multiple of four.
extern "C" __global__ void conv2d_finish(
    const float* sums, const real* bias, const real* residual, real* y, int kernels, int parts, int relu, int size) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) * LANES;
    if (i >= size) return;
    Epilogue<real> epilogue{bias, residual, relu != 0};
    Four<float> sum = vec(&sums[i]);
    for (int part = 1; part < parts; ++part) {
        Four<float> more = vec(&sums[part * size + i]);
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) sum.at[lane] += more.at[lane];
    }
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) {
        sum.at[lane] = epilogue.cut(sum.at[lane] + epilogue.start(i % kernels + lane) + epilogue.more(i + lane));
    }
    vec(&y[i]) = as<real>(sum);
}
