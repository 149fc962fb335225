#include "reduce.cuh"
#include "vector.cuh"

// layer_norm, and with CENTER 0 rms_norm, whose mean is 0: rows of n numbers. A row has two statistics of its own, mean
// and inverse = 1 / sqrt(var + eps); weight and bias are those of a column, and null where they are left out.
#ifndef CENTER
#define CENTER 1
#endif
#ifndef WARPS
#define WARPS 8
#endif

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

// --- WARPS warps -> a row in their registers, of up to 128 WARPS numbers, a multiple of four; thread -> four of them ---

// A block has 8 warps, so TEAMS rows at a time, and walks through rows gridDim.x * TEAMS apart. The next ones are on
// their way from memory while it computes.
constexpr int TEAMS = 8 / WARPS, SPAN = 32 * LANES;  // rows of a block at a time, numbers of a row in a warp
constexpr bool SINGLE = sizeof(wide) == 4;
#if __CUDA_ARCH__ >= 800
constexpr int BLOCKS_AT_ONCE = SINGLE ? 6 : 1;  // on a multiprocessor: its registers are shared out for as many
#else
constexpr int BLOCKS_AT_ONCE = SINGLE ? 4 : 1;
#endif

struct Pair {
    wide a, b;
};

// The pairs of all warps of a row, after one barrier. turn: 0 and 1 by turns, so no warp writes what another reads.
__device__ inline const Pair* of_warps(Pair own, int turn) {
    __shared__ Pair pairs[2][TEAMS][WARPS];
    if (threadIdx.x % 32 == 0) pairs[turn][threadIdx.y][threadIdx.x / 32] = own;
    __syncthreads();
    return pairs[turn][threadIdx.y];
}

template <class T>
__device__ inline Four<wide> part(const T* x, int row, int rows, int n) {
    Four<wide> own = {};
    int i = threadIdx.x * LANES;
    if (row < rows && i < n) own = as<wide>(vec(x + row * n + i));
    return own;
}

template <class F>
__device__ inline wide warp_sum(F f) { return lanes_reduce<32>(f(0) + f(1) + f(2) + f(3), Add()); }

// The mean of a row, 0 without CENTER, and the sum of the squares around it. Each warp has both for its part of the
// row: the squares around another mean are those around the own one, and the distance squared for each number.
__device__ inline Pair statistics(const Four<wide>& own, int n, int turn) {
    bool in = threadIdx.x * LANES < n;
    int first = threadIdx.x / 32 * SPAN;
    wide mean = CENTER ? warp_sum([&](int j) { return own.at[j]; }) / max(1, min(n - first, SPAN)) : 0;
    wide squares = warp_sum([&](int j) { return in ? (own.at[j] - mean) * (own.at[j] - mean) : 0; });
    if (WARPS == 1) return {mean, squares};
    const Pair* warps = of_warps({mean, squares}, turn);
    Pair all = {};
    for (int w = 0; CENTER && w < WARPS; ++w) all.a += warps[w].a * max(0, min(n - w * SPAN, SPAN));
    all.a /= n;
    for (int w = 0; w < WARPS; ++w) {
        wide apart = warps[w].a - all.a;
        all.b += warps[w].b + apart * apart * max(0, min(n - w * SPAN, SPAN));
    }
    return all;
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS_AT_ONCE) layer_norm_warp(
    const real* x, const wide* weight, const wide* bias, real* y, wide* mean, wide* inverse, wide eps, int rows,
    int n) {
    int row = blockIdx.x * TEAMS + threadIdx.y, step = gridDim.x * TEAMS, i = threadIdx.x * LANES, turn = 0;
    Four<wide> own = part(x, row, rows, n), factors = {1, 1, 1, 1}, terms = {};
    if (weight && i < n) factors = vec(weight + i);
    if (bias && i < n) terms = vec(bias + i);
    for (int first = row - threadIdx.y; first < rows; first += step, row += step, turn ^= 1) {
        Four<wide> next = part(x, row + step, rows, n);
        Pair all = statistics(own, n, turn);
        wide scale = 1 / sqrt(all.b / n + eps);
        if (row < rows && i < n) {
            if (threadIdx.x == 0) mean[row] = all.a, inverse[row] = scale;
#pragma unroll
            for (int j = 0; j < LANES; ++j) own.at[j] = (own.at[j] - all.a) * scale * factors.at[j] + terms.at[j];
            put(y, row * n + i, own);
        }
        own = next;
    }
}

// All gradients, with dy and x read once. A thread keeps its columns' sums for weight and bias in registers; at the end
// those of the block's other rows join the first one's, which writes them as a row of parts (2, gridDim.x, n).
extern "C" __global__ void __launch_bounds__(256, SINGLE ? 4 : 1) layer_norm_warp_backward(
    const real* dy, const real* x, const wide* weight, const wide* mean, const wide* inverse, real* dx, wide* parts,
    int rows, int n) {
    extern __shared__ wide sums[];  // (2, n), where a block has several rows
    int row = blockIdx.x * TEAMS + threadIdx.y, step = gridDim.x * TEAMS, i = threadIdx.x * LANES, turn = 0;
    Four<wide> own = part(dy, row, rows, n), normal = part(x, row, rows, n), factors = {1, 1, 1, 1};
    Four<wide> dweight = {}, dbias = {};
    if (weight && i < n) factors = vec(weight + i);
    wide center = row < rows ? mean[row] : 0, scale = row < rows ? inverse[row] : 0;
    for (int first = row - threadIdx.y; first < rows; first += step, row += step, turn ^= 1) {
        bool more = row + step < rows;
        Four<wide> next = part(dy, row + step, rows, n), next_normal = part(x, row + step, rows, n);
        wide next_center = more ? mean[row + step] : 0, next_scale = more ? inverse[row + step] : 0;
#pragma unroll
        for (int j = 0; j < LANES; ++j) {
            normal.at[j] = (normal.at[j] - center) * scale;
            dweight.at[j] += own.at[j] * normal.at[j], dbias.at[j] += own.at[j], own.at[j] *= factors.at[j];
        }
        Pair all = {CENTER ? warp_sum([&](int j) { return own.at[j]; }) : 0,
                    warp_sum([&](int j) { return own.at[j] * normal.at[j]; })};
        if (WARPS > 1) {
            const Pair* warps = of_warps(all, turn);
            all = {};
            for (int w = 0; w < WARPS; ++w) all.a += warps[w].a, all.b += warps[w].b;
        }
#pragma unroll
        for (int j = 0; j < LANES; ++j) own.at[j] = scale * (own.at[j] - all.a / n - normal.at[j] * (all.b / n));
        if (dx && row < rows && i < n) put(dx, row * n + i, own);
        own = next, normal = next_normal, center = next_center, scale = next_scale;
    }
    // [the sums of the block]
    for (int other = 1; other < TEAMS; ++other) {
        if (threadIdx.y == other && i < n) put(sums, i, dweight), put(sums, n + i, dbias);
        __syncthreads();
        for (int j = 0; threadIdx.y == 0 && i < n && j < LANES; ++j) {
            dweight.at[j] += sums[i + j], dbias.at[j] += sums[n + i + j];
        }
        __syncthreads();
    }
    if (threadIdx.y > 0 || i >= n) return;
    put(parts, blockIdx.x * n + i, dweight), put(parts, (gridDim.x + blockIdx.x) * n + i, dbias);
}
