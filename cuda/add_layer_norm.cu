#include "reduce.cuh"
#include "vector.cuh"

// The residual stream and its norm. h = x + y + bias, n = (h - mean(h)) / sqrt(var(h) + eps) * weight + shift, and with
// CENTER 0, in add_rms_norm, the mean is 0 and the shift null: rows of up to
// 128 FOURS numbers, a multiple of four. The stream, x and h, is in the type of arithmetic, what a layer reads and writes,
// n and y, in bfloat16 where the network computes in that. warp -> a row in its registers.
#ifndef CENTER
#define CENTER 1
#endif
#ifndef ROWS
#define ROWS 8
#endif
#ifndef FOURS
#define FOURS 8
#endif

constexpr int OWN = FOURS * LANES;  // numbers of a lane

// The vectors of a lane: every 32nd of a row. Beyond the row there are zeros.
struct Lane {
    wide at[OWN];

    static __device__ int column(int j) { return (j / LANES * 32 + threadIdx.x) * LANES + j % LANES; }

    // f(j, first column) for each vector inside the row.
    template <class F>
    static __device__ void vectors(int n, F f) {
#pragma unroll
        for (int j = 0; j < OWN; j += LANES) {
            if (column(j) < n) f(j, column(j));
        }
    }
    template <class T>
    __device__ void add(const T* row, int n) {
        vectors(n, [&](int j, int i) {
            Four<wide> four = as<wide>(vec(row + i));
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) at[j + lane] += four.at[lane];
        });
    }
    template <class T>
    __device__ void write(T* row, int n) const {
        vectors(n, [&](int j, int i) { put(row, i, Four<wide>{at[j], at[j + 1], at[j + 2], at[j + 3]}); });
    }
    // Adds the row to one in memory, or writes it there first.
    __device__ void join(wide* row, int n, bool first) const {
        vectors(n, [&](int j, int i) {
            Four<wide> sum = {};
            if (!first) sum = vec(row + i);
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) sum.at[lane] += at[j + lane];
            put(row, i, sum);
        });
    }
    // The sum over the row of f(j), j the number of an element of this lane; all lanes get it.
    template <class F>
    static __device__ wide sum(int n, F f) {
        wide total = 0;
        vectors(n, [&](int j, int i) { total += f(j) + f(j + 1) + f(j + 2) + f(j + 3); });
        return lanes_reduce<32>(total, Add());
    }
    // (x - mean) / sqrt(var + eps), in place; returns 1 / sqrt(var + eps). Beyond the row there is anything now.
    __device__ wide normalize(wide eps, int n) {
        wide mean = CENTER ? sum(n, [&](int j) { return at[j]; }) / n : 0;
#pragma unroll
        for (int j = 0; j < OWN; ++j) at[j] -= mean;
        wide inverse = 1 / sqrt(sum(n, [&](int j) { return at[j] * at[j]; }) / n + eps);
#pragma unroll
        for (int j = 0; j < OWN; ++j) at[j] *= inverse;
        return inverse;
    }
};

extern "C" __global__ void __launch_bounds__(32 * ROWS) add_layer_norm_forward(
    const wide* x, const real* y, const wide* weight, const wide* shift, const wide* bias, wide* h, real* normed, wide eps,
    int rows, int n) {
    int row = blockIdx.x * ROWS + threadIdx.y;
    if (row >= rows) return;
    Lane own = {};
    own.add(x + row * n, n);
    own.add(y + row * n, n);
    if (bias) own.add(bias, n);
    own.write(h + row * n, n);
    own.normalize(eps, n);
    Lane factors = {};
    factors.add(weight, n);
#pragma unroll
    for (int j = 0; j < OWN; ++j) own.at[j] *= factors.at[j];
    if (shift) own.add(shift, n);
    own.write(normed + row * n, n);
}

// dx = dh + inverse (g - mean(g) - normal mean(g normal)), g = dn weight; dy is the same in the type of y, null where that is
// the same array. parts (3, gridDim.x, n) = of each block the sums for weight, shift and bias. A warp walks through rows
// gridDim.x * ROWS apart; at the end one warp after the other adds its sums to those of the block.
extern "C" __global__ void __launch_bounds__(32 * ROWS) add_layer_norm_backward(
    const wide* dh, const real* dn, const wide* h, const wide* weight, wide* dx, real* dy, wide* parts, wide eps, int rows,
    int n) {
    extern __shared__ __align__(16) unsigned char memory[];
    wide* sums = reinterpret_cast<wide*>(memory);  // (3, n)
    Lane of_weight = {}, of_shift = {}, of_bias = {};
    for (int row = blockIdx.x * ROWS + threadIdx.y; row < rows; row += gridDim.x * ROWS) {
        Lane own = {}, normal = {}, factors = {};
        own.add(dn + row * n, n);
        normal.add(h + row * n, n);
        wide inverse = normal.normalize(eps, n);
        factors.add(weight, n);
#pragma unroll
        for (int j = 0; j < OWN; ++j) {
            of_weight.at[j] += own.at[j] * normal.at[j], of_shift.at[j] += own.at[j], own.at[j] *= factors.at[j];
        }
        wide sum = CENTER ? Lane::sum(n, [&](int j) { return own.at[j]; }) / n : 0;
        wide dot = Lane::sum(n, [&](int j) { return own.at[j] * normal.at[j]; }) / n;
#pragma unroll
        for (int j = 0; j < OWN; ++j) own.at[j] = inverse * (own.at[j] - sum - normal.at[j] * dot);
        own.add(dh + row * n, n);
#pragma unroll
        for (int j = 0; j < OWN; ++j) of_bias.at[j] += own.at[j];
        own.write(dx + row * n, n);
        if (dy) own.write(dy + row * n, n);
    }
    // [sums of the block]
    for (int warp = 0; warp < ROWS; ++warp) {
        if (threadIdx.y == warp) {
            of_weight.join(sums, n, warp == 0);
            of_shift.join(sums + n, n, warp == 0);
            of_bias.join(sums + 2 * n, n, warp == 0);
        }
        __syncthreads();
    }
    for (int i = threadIdx.y * 32 + threadIdx.x; i < 3 * n; i += 32 * ROWS) {
        parts[(i / n * gridDim.x + blockIdx.x) * n + i % n] = sums[i];
    }
}
