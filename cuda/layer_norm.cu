#include "row_in_warps.cuh"

// layer_norm, and with CENTER 0 rms_norm, whose mean is 0: rows of n numbers. A row has two statistics of its own, mean
// and inverse = 1 / sqrt(var + eps); weight and bias are those of a column, and null where they are left out.

__device__ inline wide affine(wide normal, const wide* weight, const wide* bias, int i) {
    wide y = weight ? normal * weight[i] : normal;
    return bias ? y + bias[i] : y;
}

// --- block -> a row of any length; thread -> every BLOCK-th number of it ---

// y = (x - mean) * inverse * weight + bias
extern "C" __global__ void layer_norm_forward(
    const real* x, const wide* weight, const wide* bias, real* y, wide* mean, wide* inverse, wide eps, int n) {
    const real* row = x + blockIdx.x * n;
    // [statistics] in one pass, of what differs from the first number: of large numbers that are close to each other,
    // the squares would agree in all digits
    wide first = CENTER ? wide(row[0]) : 0, sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        wide apart = row[i] - first;
        sum += apart, squares += apart * apart;
    }
    sum = block_reduce(sum, Add()) / n, squares = block_reduce(squares, Add()) / n;
    wide center = CENTER ? first + sum : 0, scale = 1 / sqrt((CENTER ? squares - sum * sum : squares) + eps);
    // [write]
    if (threadIdx.x == 0) mean[blockIdx.x] = center, inverse[blockIdx.x] = scale;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[blockIdx.x * n + i] = affine((row[i] - center) * scale, weight, bias, i);
    }
}

// dx = inverse * (g - mean(g) - normal * mean(g * normal)), g = dy * weight, normal = (x - mean) * inverse; in rms_norm
// without mean(g)
extern "C" __global__ void layer_norm_backward(
    const real* dy, const real* x, const wide* weight, const wide* mean, const wide* inverse, real* dx, int n) {
    int start = blockIdx.x * n;
    wide center = mean[blockIdx.x], scale = inverse[blockIdx.x], sum = 0, dot = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        wide g = affine(dy[start + i], weight, nullptr, i);
        sum += g, dot += g * (x[start + i] - center) * scale;
    }
    sum = CENTER ? block_reduce(sum, Add()) / n : 0, dot = block_reduce(dot, Add()) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        wide g = affine(dy[start + i], weight, nullptr, i), normal = (x[start + i] - center) * scale;
        dx[start + i] = scale * (g - sum - normal * dot);
    }
}

// parts (2, parts, n) = the sums of dy * normal, for weight, and of dy, for bias, over `chunk` rows. thread -> a column of
// a chunk of rows
extern "C" __global__ void layer_norm_backward_sums(
    const real* dy, const real* x, const wide* mean, const wide* inverse, wide* parts, int rows, int n, int chunk) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * chunk, end = min(rows, first + chunk);
    if (i >= n) return;
    wide dweight = 0, dbias = 0;
    for (int row = first; row < end; ++row) {
        wide d = dy[row * n + i];
        dweight += d * (x[row * n + i] - mean[row]) * inverse[row], dbias += d;
    }
    parts[blockIdx.y * n + i] = dweight;
    parts[(gridDim.y + blockIdx.y) * n + i] = dbias;
}

// --- a warp -> a row of up to 128 QUADS numbers, a multiple of four, in its registers: it waits for no other warp ---

#ifndef QUADS
#define QUADS 8
#endif

// Lane -> four neighbors of every 128. Behind the row's end a lane has the last four of the row once more, which it leaves
// out of sums and does not write: so no load waits for a branch, and all are issued before the first number is used.
struct HeldRow {
    int n;
    Four<wide> own[QUADS];

    __device__ int column(int k) const { return (k * 32 + threadIdx.x) * LANES; }
    __device__ int readable(int k) const { return min(column(k), n - LANES); }
    __device__ HeldRow(const real* row, int n) : n(n) {
#pragma unroll
        for (int k = 0; k < QUADS; ++k) own[k] = as<wide>(once(row + readable(k)));
    }
    // The sum over the row of f(number), in all lanes.
    template <class F>
    __device__ wide sum(F f) const {
        wide all = 0;
#pragma unroll
        for (int k = 0; k < QUADS; ++k) {
            wide four = f(own[k].at[0]) + f(own[k].at[1]) + f(own[k].at[2]) + f(own[k].at[3]);
            all += column(k) < n ? four : 0;
        }
        return lanes_reduce<32>(all, Add());
    }
};

extern "C" __global__ void __launch_bounds__(128, SINGLE ? 8 : 1) layer_norm_warp(
    const real* x, const wide* weight, const wide* bias, real* y, wide* mean, wide* inverse, wide eps, int rows, int n) {
    int number = blockIdx.x * blockDim.y + threadIdx.y;
    if (number >= rows) return;
    HeldRow row(x + number * n, n);
    wide center = CENTER ? row.sum([](wide x) { return x; }) / n : 0;
    wide scale = 1 / sqrt(row.sum([=](wide x) { return (x - center) * (x - center); }) / n + eps);
    if (threadIdx.x == 0) mean[number] = center, inverse[number] = scale;
#pragma unroll
    for (int k = 0; k < QUADS; ++k) {
        Four<wide> factors = {1, 1, 1, 1}, terms = {0, 0, 0, 0};
        if (weight) factors = vec(weight + row.readable(k));
        if (bias) terms = vec(bias + row.readable(k));
        normalize(row.own[k], center, scale, factors, terms);
        if (row.column(k) < n) put(y, number * n + row.column(k), row.own[k]);
    }
}

// --- WARPS warps -> a row in their registers: see row_in_warps.cuh ---

// All gradients, with dy and x read once. A thread keeps its columns' sums for weight and bias in registers; parts
// (2, gridDim.x, n) are those of each block.
extern "C" __global__ void __launch_bounds__(256, SINGLE ? 4 : 1) layer_norm_warp_backward(
    const real* dy, const real* x, const wide* weight, const wide* mean, const wide* inverse, real* dx, wide* parts,
    int rows, int n) {
    __shared__ alignas(16) Four<real> places[2][STAGES][256];  // also of sums, vectors of floats
    Walk walk(rows, n);
    Rows<real> dys{dy, places[0]}, xs{x, places[1]};
    Four<wide> factors = walk.columns(weight, 1), sums[2] = {};  // for weight and bias
    wide center = walk.row < rows ? mean[walk.row] : 0, scale = walk.row < rows ? inverse[walk.row] : 0;
    for (begin(walk, dys, xs); walk.goes_on(); walk.next()) {
        int then = walk.row + walk.step;
        wide next_center = then < rows ? mean[then] : 0, next_scale = then < rows ? inverse[then] : 0;
        advance(walk, dys, xs);
        Four<wide> own = dys.take(walk), normal = xs.take(walk);
#pragma unroll
        for (int j = 0; j < LANES; ++j) {
            normal.at[j] = (normal.at[j] - center) * scale;
            sums[0].at[j] += own.at[j] * normal.at[j], sums[1].at[j] += own.at[j], own.at[j] *= factors.at[j];
        }
        wide sum = CENTER ? warp_sum([&](int j) { return own.at[j]; }) : 0;
        wide dot = warp_sum([&](int j) { return own.at[j] * normal.at[j]; });
        if (WARPS > 1) {
            const Sums<2>* warps = of_warps(Sums<2>{sum, dot}, walk.turn);
            sum = dot = 0;
            for (int w = 0; w < WARPS; ++w) sum += warps[w].at[0], dot += warps[w].at[1];
        }
#pragma unroll
        for (int j = 0; j < LANES; ++j) own.at[j] = scale * (own.at[j] - sum / n - normal.at[j] * (dot / n));
        if (dx) walk.write(dx, own);
        center = next_center, scale = next_scale;
    }
    write_sums(sums, places, parts, walk);
}
