#include "reduce.cuh"

// y = the largest x along an axis, with x seen as (rows, n, inner), in passes as in sum.cu. NaN stays.

// block -> one piece of one output; thread -> every BLOCK-th element of it.
extern "C" __global__ void max_warp(const real* x, real* y, int outputs, int n, int inner, int chunk) {
    int row = blockIdx.x / inner, column = blockIdx.x % inner;
    int first = blockIdx.y * chunk, count = min(chunk, n - first);
    x += (row * n + first) * inner + column;
    real most = block_max(count, [=](int i) { return x[i * inner]; });
    if (threadIdx.x == 0) y[(row * gridDim.y + blockIdx.y) * inner + column] = most;
}

// thread -> one piece of one output, alone; neighbouring threads read neighbouring columns.
extern "C" __global__ void max_columns(const real* x, real* y, int outputs, int n, int inner, int chunk) {
    int output = blockIdx.x * blockDim.x + threadIdx.x;
    if (output < outputs) {
        int row = output / inner, column = output % inner;
        int first = blockIdx.y * chunk, count = min(chunk, n - first);
        x += (row * n + first) * inner + column;
        real most = -INFINITY;
        for (int i = 0; i < count; ++i) {
            most = Max()(most, x[i * inner]);
        }
        y[(row * gridDim.y + blockIdx.y) * inner + column] = most;
    }
}

// ties = 1 where x is its maximum, else 0. thread -> one element of x; the view y_at finds its y.
extern "C" __global__ void max_ties(const real* x, const real* y, real* ties, View y_at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        ties[i] = x[i] == y[y_at(i)] ? 1 : 0;
    }
}

// dx = dy / (number of ties) where there is a tie, else 0: chosen, as 0 * dy is NaN where dy is infinite. thread -> one element of dx.
extern "C" __global__ void max_backward(
    const real* dy, const real* ties, const real* number, real* dx, View dy_at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        dx[i] = (ties[i] ? dy[dy_at(i)] : 0) / number[dy_at(i)];
    }
}
