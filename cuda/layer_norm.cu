#include "reduce.cuh"
#include "vector.cuh"

// layer_norm, and with CENTER 0 rms_norm, whose mean is 0: rows of n numbers. A row has two statistics of its own, mean
// and inverse = 1 / sqrt(var + eps); weight and bias are those of a column, and null where they are left out.
#ifndef CENTER
#define CENTER 1
#endif
#ifndef ROWS
#define ROWS 8
#endif
#ifndef FOURS
#define FOURS 8
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

// --- warp -> a row in its registers, of up to 128 FOURS numbers, a multiple of four ---

// The vectors of a lane: every 32nd of a row. `Beyond` the row there are zeros.
struct Held {
    wide at[FOURS * LANES];

    static __device__ int column(int j) { return (j / LANES * 32 + threadIdx.x) * LANES + j % LANES; }

    template <class T>
    __device__ void read(const T* row, int n) {
#pragma unroll
        for (int j = 0; j < FOURS * LANES; j += LANES) {
            Four<wide> four = {};
            if (column(j) < n) four = as<wide>(vec(row + column(j)));
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) at[j + lane] = four.at[lane];
        }
    }
    __device__ void write(real* row, int n) const {
#pragma unroll
        for (int j = 0; j < FOURS * LANES; j += LANES) {
            if (column(j) < n) put(row, column(j), Four<wide>{at[j], at[j + 1], at[j + 2], at[j + 3]});
        }
    }
    // Times weight plus bias, those of the columns, where they are given.
    __device__ void scale(const wide* weight, const wide* bias, int n) {
#pragma unroll
        for (int j = 0; j < FOURS * LANES; j += LANES) {
            if (column(j) >= n) continue;
            Four<wide> factors = {1, 1, 1, 1}, terms = {};
            if (weight) factors = vec(weight + column(j));
            if (bias) terms = vec(bias + column(j));
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) at[j + lane] = at[j + lane] * factors.at[lane] + terms.at[lane];
        }
    }
    // Adds up those of all warps of the block, and the first warp gets the sum: in each step the second half of them hands
    // its rows to the first half. sums: memory for half of the rows.
    __device__ void add_up(wide* sums, int n) {
        for (int half = ROWS / 2; half > 0; half /= 2) {
            wide* own = sums + threadIdx.y % half * n;
            if (threadIdx.y / half == 1) each(n, [&](int j, int i) { own[i] = at[j]; });
            __syncthreads();
            if (threadIdx.y < half) each(n, [&](int j, int i) { at[j] += own[i]; });
            __syncthreads();
        }
    }
    template <class F>
    static __device__ void each(int n, F f) {
#pragma unroll
        for (int j = 0; j < FOURS * LANES; ++j) {
            if (column(j) < n) f(j, column(j));
        }
    }
    // The sum over the row of f(j), j the number of an element of this lane; all lanes get it.
    template <class F>
    static __device__ wide sum(int n, F f) {
        wide total = 0;
#pragma unroll
        for (int j = 0; j < FOURS * LANES; ++j) {
            if (column(j) < n) total += f(j);
        }
        return lanes_reduce<32>(total, Add());
    }
};

// The row is in registers, so the squares can wait for the mean: a second pass costs no memory.
extern "C" __global__ void layer_norm_warp(
    const real* x, const wide* weight, const wide* bias, real* y, wide* mean, wide* inverse, wide eps, int rows,
    int n) {
    int row = blockIdx.x * ROWS + threadIdx.y;
    if (row >= rows) return;
    Held own;
    own.read(x + row * n, n);
    wide center = CENTER ? Held::sum(n, [&](int j) { return own.at[j]; }) / n : 0;
    wide squares = Held::sum(n, [&](int j) { return (own.at[j] - center) * (own.at[j] - center); });
    wide scale = 1 / sqrt(squares / n + eps);
    if (threadIdx.x == 0) mean[row] = center, inverse[row] = scale;
#pragma unroll
    for (int j = 0; j < FOURS * LANES; ++j) own.at[j] = (own.at[j] - center) * scale;
    own.scale(weight, bias, n);
    own.write(y + row * n, n);
}

// All gradients, with dy and x read once: a warp walks through rows gridDim.x * ROWS apart, and keeps its part of the
// sums for weight and bias in registers. At the end the warps of a block add theirs up, and the first one writes them as
// a row of parts (2, gridDim.x, n).
extern "C" __global__ void layer_norm_warp_backward(
    const real* dy, const real* x, const wide* weight, const wide* mean, const wide* inverse, real* dx, wide* parts,
    int rows, int n) {
    extern __shared__ wide sums[];  // (ROWS / 2, n)
    Held dweight = {}, dbias = {};
    for (int row = blockIdx.x * ROWS + threadIdx.y; row < rows; row += gridDim.x * ROWS) {
        Held own, normal;
        own.read(dy + row * n, n);
        normal.read(x + row * n, n);
        wide center = mean[row], scale = inverse[row];
#pragma unroll
        for (int j = 0; j < FOURS * LANES; ++j) {
            normal.at[j] = (normal.at[j] - center) * scale;
            dweight.at[j] += own.at[j] * normal.at[j], dbias.at[j] += own.at[j];
        }
        own.scale(weight, nullptr, n);
        wide sum = CENTER ? Held::sum(n, [&](int j) { return own.at[j]; }) / n : 0;
        wide dot = Held::sum(n, [&](int j) { return own.at[j] * normal.at[j]; }) / n;
#pragma unroll
        for (int j = 0; j < FOURS * LANES; ++j) own.at[j] = scale * (own.at[j] - sum - normal.at[j] * dot);
        if (dx) own.write(dx + row * n, n);
    }
    // [the sums of the block]
    dweight.add_up(sums, n), dbias.add_up(sums, n);
    if (threadIdx.y > 0) return;
    wide* to = parts + blockIdx.x * n;
    Held::each(n, [&](int j, int i) { to[i] = dweight.at[j], to[gridDim.x * n + i] = dbias.at[j]; });
}
