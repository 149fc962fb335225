// Attention in tiles: softmax(scale q k^T) v and its gradients, without scores in memory. The kernels are the same for all
// arithmetics. W, a warp's share of the work, multiplies two matrices in shared memory; of the result, scores or sums,
// each thread holds W::R rows and some columns.
#pragma once
#include "async_copy.cuh"

// block -> WARPS strips of rows, which it holds; tiles of PASSING rows pass by, in two stages.
#ifndef WIDTH
#define WIDTH 64
#endif
#ifndef PASSING
#define PASSING 64
#endif
#ifndef WARPS
#define WARPS 4
#endif

// The lengths of a problem. A pair is a sequence and a head of q; `group` neighboring heads share a head of k and v.
// With `causal` both lengths end together: query i sees key i + keys - queries, and none after it.
struct Lengths {
    int group, queries, keys, width, causal;

    __device__ bool hidden(int query, int key) const { return key >= keys || (causal && key > query + keys - queries); }
    // The keys that at least one query before `end` sees, and the first query that sees a key.
    __device__ int seen(int end) const { return causal ? max(0, min(keys, min(end, queries) + keys - queries)) : keys; }
    __device__ int first(int key) const { return causal ? max(0, key + queries - keys) : 0; }
};

constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

// 2^x, with two wrong bits at most: exp(x) is one multiplication more, which the scale takes up.
__device__ inline float power_of_two(float x) {
#ifdef MINIGRAD_SIM
    return exp2f(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// N neighbors in memory, which one instruction moves where they are aligned to their size.
template <class T, int N = 16 / sizeof(T)> struct alignas(N * sizeof(T)) Run { T at[N]; };

// Writes, or adds, the neighbors of a row from column `to` on, those within the width. Where others add as well, Hopper
// does it by one instruction.
template <class T, int N>
__device__ void write_run(T* row, int to, int width, const Run<T, N>& run) {
    if (width % N == 0) {
        if (to < width) *reinterpret_cast<Run<T, N>*>(row + to) = run;
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (to + i < width) row[to + i] = run.at[i];
        }
    }
}
template <int N>
__device__ void add_run(float* row, int to, int width, const Run<float, N>& run) {
#if __CUDA_ARCH__ >= 900
    if (width % N == 0) {
        if constexpr (N == 4) {
            if (to < width) atomicAdd(reinterpret_cast<float4*>(row + to), make_float4(run.at[0], run.at[1], run.at[2], run.at[3]));
        } else {
            if (to < width) atomicAdd(reinterpret_cast<float2*>(row + to), make_float2(run.at[0], run.at[1]));
        }
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (to + i < width) atomicAdd(row + to + i, run.at[i]);
    }
}

// Starts to copy COUNT rows from `first` on to a tile, with zeros beyond the last row and beyond the width. Rows that do
// not begin at multiples of 16 bytes are copied number by number.
template <int COUNT, class W>
__device__ void copy_tile(typename W::T* tile, const typename W::T* from, int first, int rows, int width) {
    using T = typename W::T;
    constexpr int ACROSS = WIDTH / W::RUN;
#pragma unroll
    for (int i = 0; i < COUNT * ACROSS; i += 32 * WARPS) {
        int at = i + threadIdx.x, row = at / ACROSS, column = at % ACROSS * W::RUN;
        if (COUNT * ACROSS % (32 * WARPS) && at >= COUNT * ACROSS) break;
        bool inside = first + row < rows && column < width;
        T* to = tile + row * W::PITCH + column;
        const T* source = from + (inside ? (first + row) * width + column : 0);
        if (width % W::RUN == 0) {
            copy_async(reinterpret_cast<Run<T>*>(to), reinterpret_cast<const Run<T>*>(source), inside);
        } else {
            for (int j = 0; j < W::RUN; ++j) to[j] = inside && column + j < width ? source[j] : T(0);
        }
    }
}

// The first bytes of shared memory, which hold OWN tiles of the block's rows, two stages of two tiles that pass by and
// of three numbers for each of their rows, and for each warp the memory for an exchange.
template <class W, int OWN>
struct Memory {
    using T = typename W::T;
    static constexpr int ROWS = WARPS * W::STRIP, TILE = PASSING * W::PITCH;
    T *own, *stages, *exchange;
    float* numbers;

    __device__ Memory() {
        extern __shared__ __align__(16) unsigned char memory[];
        own = reinterpret_cast<T*>(memory), stages = own + OWN * ROWS * W::PITCH;
        numbers = reinterpret_cast<float*>(stages + 4 * TILE);
        exchange = reinterpret_cast<T*>(numbers + 6 * PASSING) + threadIdx.x / 32 * W::EXCHANGE;
    }
    __device__ T* strip(int tile) const { return own + (tile * ROWS + threadIdx.x / 32 * W::STRIP) * W::PITCH; }
    __device__ T* all() const { return exchange - threadIdx.x / 32 * W::EXCHANGE; }
    __device__ T* tile(int stage, int i) const { return stages + (stage * 2 + i) * TILE; }
};

// block -> W's strips of queries of a pair; keys and values pass by. The softmax is made as in attention_forward, but the
// sums are scaled down only where a maximum has grown by more than 2^8: until then weights are too large by as much, and
// so is their total.
template <class W>
__device__ void flash_forward(
    const typename W::T* q, const typename W::T* k, const typename W::T* v, typename W::T* y, float* peaks, float* inverses,
    float scale, const Lengths& of) {
    // [own]
    using M = Memory<W, 1>;
    M memory;
    int pair = blockIdx.y, top = (gridDim.x - 1 - blockIdx.x) * M::ROWS;  // causal: the longest rows first
    int own = top + threadIdx.x / 32 * W::STRIP, end = of.seen(top + M::ROWS), last = of.seen(own + W::STRIP);
    q += pair * of.queries * of.width, k += pair / of.group * of.keys * of.width, v += pair / of.group * of.keys * of.width;
    auto copy = [&](int stage, int start) {
        copy_tile<PASSING, W>(memory.tile(stage, 0), k, start, of.keys, of.width);
        copy_tile<PASSING, W>(memory.tile(stage, 1), v, start, of.keys, of.width);
        copy_commit();
    };
    copy_tile<M::ROWS, W>(memory.own, q, top, of.queries, of.width);
    copy(0, 0);
    float unit = scale * LOG2_E, most[W::R], total[W::R] = {};
#pragma unroll
    for (int i = 0; i < W::R; ++i) most[i] = -INFINITY;
    typename W::Sums sum = {};
    typename W::Strip queries(memory.strip(0));
    for (int start = 0, stage = 0; start < end; start += PASSING, stage ^= 1) {
        // [copy the next stage]
        copy_wait<0>();
        __syncthreads();
        if (start + PASSING < end) copy(stage ^ 1, start + PASSING);
        if (start == 0) queries.hold();
        if (start >= last) continue;  // other warps' queries see more
        // [scores]
        typename W::Scores score = {};
        W::along(score, queries, memory.tile(stage, 0));
        if (of.hidden(own, start + PASSING - 1)) {
            W::each(score, [&](int i, int j, float& s) {
                if (of.hidden(own + W::row(i), start + W::column(j))) s = -INFINITY;
            });
        }
        // [softmax]
        float best[W::R];
        bool grows = false;
#pragma unroll
        for (int i = 0; i < W::R; ++i) {
            best[i] = -INFINITY;
#pragma unroll
            for (int j = 0; j < W::C; ++j) best[i] = fmaxf(best[i], score(i, j));
            best[i] = W::across(best[i], [](float a, float b) { return fmaxf(a, b); }) * unit;
            grows |= best[i] > most[i] + 8;
        }
        if (__any_sync(0xffffffff, grows)) {
#pragma unroll
            for (int i = 0; i < W::R; ++i) {
                float larger = fmaxf(most[i], best[i]), kept = larger == -INFINITY ? 1 : power_of_two(most[i] - larger);
                most[i] = larger, total[i] *= kept;
#pragma unroll
                for (int j = 0; j < W::SUMS; ++j) sum(i, j) *= kept;
            }
        }
#pragma unroll
        for (int i = 0; i < W::R; ++i) {
            float zero = most[i] == -INFINITY ? 0 : most[i], part = 0;
#pragma unroll
            for (int j = 0; j < W::C; ++j) part += score(i, j) = power_of_two(score(i, j) * unit - zero);
            total[i] += part;
        }
        // [add]
        W::down(sum, score, memory.tile(stage, 1), memory.exchange);
    }
    copy_wait<0>();
    // [store]
#pragma unroll
    for (int i = 0; i < W::R; ++i) {
        int query = own + W::row(i);
        total[i] = W::across(total[i], [](float a, float b) { return a + b; });
        bool none = most[i] == -INFINITY;
        if (query >= of.queries) continue;
        W::store(y + (pair * of.queries + query) * of.width, sum, i, of.width, none ? 0 : 1 / total[i]);
        if (W::column(0) != 0) continue;
        // [weights] those of gradients begin from the rounded maximum
        float peak = none ? 0 : most[i] * LN_2;
        peaks[pair * of.queries + query] = peak;
        inverses[pair * of.queries + query] = none ? 0 : power_of_two(peak * LOG2_E - most[i]) / total[i];
    }
}

// dq = scale * the sum over keys of ds k, ds = p (dy v - dots). block -> W's strips of queries; keys and values pass by.
template <class W>
__device__ void flash_backward_queries(
    const typename W::T* dy, const typename W::T* q, const typename W::T* k, const typename W::T* v, const float* peaks,
    const float* inverses, const float* dots, typename W::T* dq, float scale, const Lengths& of) {
    // [own]
    using M = Memory<W, 2>;
    M memory;
    int pair = blockIdx.y, top = (gridDim.x - 1 - blockIdx.x) * M::ROWS;
    int own = top + threadIdx.x / 32 * W::STRIP, end = of.seen(top + M::ROWS), last = of.seen(own + W::STRIP);
    q += pair * of.queries * of.width, dy += pair * of.queries * of.width;
    k += pair / of.group * of.keys * of.width, v += pair / of.group * of.keys * of.width;
    auto copy = [&](int stage, int start) {
        copy_tile<PASSING, W>(memory.tile(stage, 0), k, start, of.keys, of.width);
        copy_tile<PASSING, W>(memory.tile(stage, 1), v, start, of.keys, of.width);
        copy_commit();
    };
    copy_tile<M::ROWS, W>(memory.own, q, top, of.queries, of.width);
    copy_tile<M::ROWS, W>(memory.own + M::ROWS * W::PITCH, dy, top, of.queries, of.width);
    copy(0, 0);
    float unit = scale * LOG2_E, most[W::R], inverse[W::R], dot[W::R];
#pragma unroll
    for (int i = 0; i < W::R; ++i) {
        int at = pair * of.queries + min(own + W::row(i), of.queries - 1);
        most[i] = peaks[at] * LOG2_E, inverse[i] = inverses[at], dot[i] = dots[at];
    }
    typename W::Sums sum = {};
    typename W::Strip queries(memory.strip(0)), upstream(memory.strip(1));
    for (int start = 0, stage = 0; start < end; start += PASSING, stage ^= 1) {
        // [copy the next stage]
        copy_wait<0>();
        __syncthreads();
        if (start + PASSING < end) copy(stage ^ 1, start + PASSING);
        if (start == 0) queries.hold(), upstream.hold();
        if (start >= last) continue;
        // [ds]
        typename W::Scores score = {}, slope = {};
        W::along(score, queries, memory.tile(stage, 0));
        W::along(slope, upstream, memory.tile(stage, 1));
        bool some = of.hidden(own, start + PASSING - 1);
        W::each(score, [&](int i, int j, float& s) {
            s = power_of_two(s * unit - most[i]) * inverse[i] * (slope(i, j) - dot[i]);
            if (some && of.hidden(own + W::row(i), start + W::column(j))) s = 0;
        });
        // [add]
        W::down(sum, score, memory.tile(stage, 0), memory.exchange);
    }
    copy_wait<0>();
    // [store]
#pragma unroll
    for (int i = 0; i < W::R; ++i) {
        int query = own + W::row(i);
        if (query < of.queries) W::store(dq + (pair * of.queries + query) * of.width, sum, i, of.width, scale);
    }
}

// dv = the sum over queries of p dy, dk = scale * that of ds q. block -> W's strips of keys of a head that `group` heads of
// q share; the queries of all of them pass by, so that the scores are those of keys and queries, (q k^T)^T. With ALL, the
// block adds its part of dq, which begins as 0, too: five products instead of seven, but sums in any order.
template <class W, bool ALL = false>
__device__ void flash_backward_keys(
    const typename W::T* dy, const typename W::T* q, const typename W::T* k, const typename W::T* v, const float* peaks,
    const float* inverses, const float* dots, float* dq, typename W::T* dk, typename W::T* dv, float scale, const Lengths& of) {
    // [own]
    using M = Memory<W, 2>;
    M memory;
    int shared = blockIdx.y, top = blockIdx.x * M::ROWS, own = top + threadIdx.x / 32 * W::STRIP;
    int first = of.first(top) / PASSING * PASSING, tiles = max(0, (of.queries - first + PASSING - 1) / PASSING);
    k += shared * of.keys * of.width, v += shared * of.keys * of.width;
    auto copy = [&](int stage, int number) {
        int start = first + number % tiles * PASSING, from = (shared * of.group + number / tiles) * of.queries;
        copy_tile<PASSING, W>(memory.tile(stage, 0), q + from * of.width, start, of.queries, of.width);
        copy_tile<PASSING, W>(memory.tile(stage, 1), dy + from * of.width, start, of.queries, of.width);
        for (int i = threadIdx.x; i < 3 * PASSING; i += 32 * WARPS) {
            int query = start + i % PASSING;
            bool inside = query < of.queries;
            const float* numbers = i < PASSING ? peaks : i < 2 * PASSING ? inverses : dots;
            copy_async(memory.numbers + stage * 3 * PASSING + i, numbers + (inside ? from + query : 0), inside);
        }
        copy_commit();
    };
    copy_tile<M::ROWS, W>(memory.own, k, top, of.keys, of.width);
    copy_tile<M::ROWS, W>(memory.own + M::ROWS * W::PITCH, v, top, of.keys, of.width);
    if (tiles > 0) copy(0, 0);
    float unit = scale * LOG2_E;
    typename W::Sums key_sum = {}, value_sum = {};
    typename W::Strip keys(memory.strip(0)), values(memory.strip(1));
    for (int number = 0, stage = 0; number < tiles * of.group; ++number, stage ^= 1) {
        // [copy the next stage]
        copy_wait<0>();
        __syncthreads();
        if (number + 1 < tiles * of.group) copy(stage ^ 1, number + 1);
        if (number == 0) keys.hold(), values.hold();
        int start = first + number % tiles * PASSING;
        if (!ALL && start + PASSING <= of.first(own)) continue;
        // [p]
        typename W::Scores score = {}, slope = {};
        const float *most = memory.numbers + stage * 3 * PASSING, *inverse = most + PASSING, *dot = inverse + PASSING;
        W::along(score, keys, memory.tile(stage, 0));
        bool some = of.hidden(start, own + W::STRIP - 1);  // also where keys end: with ALL these would show in dq
        W::each(score, [&](int i, int j, float& s) {
            s = power_of_two(s * unit - most[W::column(j)] * LOG2_E) * inverse[W::column(j)];
            if (some && of.hidden(start + W::column(j), own + W::row(i))) s = 0;
        });
        // [dv]
        W::down(value_sum, score, memory.tile(stage, 1), memory.exchange);
        // [dk]
        W::along(slope, values, memory.tile(stage, 1));
        W::each(score, [&](int i, int j, float& s) {
            s *= slope(i, j) - dot[W::column(j)];
            if (some && of.hidden(start + W::column(j), own + W::row(i))) s = 0;
        });
        W::down(key_sum, score, memory.tile(stage, 0), memory.exchange);
        // [dq]
        if constexpr (ALL) {
            W::expose(score, memory.exchange);
            __syncthreads();
            int from = (shared * of.group + number / tiles) * of.queries + start;
            W::scatter(dq + from * of.width, memory.all(), memory.own, of.queries - start, of.width, scale);
        }
    }
    copy_wait<0>();
    // [store]
#pragma unroll
    for (int i = 0; i < W::R; ++i) {
        int key = own + W::row(i);
        if (key >= of.keys) continue;
        W::store(dk + (shared * of.keys + key) * of.width, key_sum, i, of.width, scale);
        W::store(dv + (shared * of.keys + key) * of.width, value_sum, i, of.width, 1);
    }
}
