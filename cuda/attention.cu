#include "philox.cuh"
#include "reduce.cuh"

// Attention of queries q (pairs, queries, WIDTH numbers) to keys k and values v (pairs / group, keys, as many): a pair is a
// sequence and a head, and `group` neighboring heads of q share a head of k and v. All kernels: warp -> a query or a key,
// a row of width numbers; lane -> every 32nd of them. Scores are never written: they are made again where needed.
#ifndef WARPS
#define WARPS 4
#endif

constexpr int PER = 8;    // numbers of a lane: a row has up to 32 PER
constexpr int PART = 16;  // rows of a sum that are added up by themselves

// A row of width numbers in the registers of a warp. Steps beyond it are skipped by all lanes.
struct Row {
    wide at[PER];

    template <class F>
    static __device__ void each(int width, F f) {
#pragma unroll
        for (int j = 0; j < PER; ++j) {
            if (32 * j < width) f(j);
        }
    }
    template <class T>
    __device__ void read(const T* from, int width) {
        each(width, [&](int j) { at[j] = threadIdx.x + 32 * j < width ? wide(from[threadIdx.x + 32 * j]) : 0; });
    }
    __device__ void write(real* to, int width) const {
        each(width, [&](int j) {
            if (threadIdx.x + 32 * j < width) to[threadIdx.x + 32 * j] = at[j];
        });
    }
    // The product with another row; all lanes get it.
    __device__ wide dot(const Row& other, int width) const {
        wide sum = 0;
        each(width, [&](int j) { sum += at[j] * other.at[j]; });
        return lanes_reduce<32>(sum, Add());
    }
    // own * kept + factor * other
    __device__ void add(wide kept, wide factor, const Row& other, int width) {
        each(width, [&](int j) { at[j] = at[j] * kept + factor * other.at[j]; });
    }
    // True if no lane has an infinity or NaN; all lanes get it.
    __device__ bool finite(int width) const {
        wide zero = 0;
        each(width, [&](int j) { zero += at[j] * 0; });
        return __all_sync(0xffffffff, zero == 0);
    }
};

// factor * row of many rows, and the sum of the factors. Each term rounds the sum so far: PART of them are added up by
// themselves, and then to the whole, so that what is rounded is small.
struct RowSum {
    Row whole = {}, part = {};
    wide total = 0, of_part = 0, kept = 1;
    int count = 0;

    // What was added before counts `keep` times as much. The factor counts in the total, `share` of it for the row.
    __device__ void add(wide keep, wide factor, const Row& row, int width, wide share = 1) {
        part.add(keep, factor * share, row, width);
        of_part = of_part * keep + factor, kept *= keep;
        if (++count % PART == 0) close(width);
    }
    __device__ void close(int width) {
        whole.add(kept, 1, part, width), total = total * kept + of_part;
        part = {}, of_part = 0, kept = 1;
    }
};

// True if rows are to be made: there are none, or some of those that are there were spoiled.
__device__ bool wanted(const int* repair) { return !repair || *repair; }

// True if this row, of rows some of which were spoiled, is not to be made again. Where it stands in sums, it is rounded.
__device__ bool intact(const int* repair, real* to, int width, const float* sums = nullptr) {
    if (!repair) return false;
    Row row = {};
    if (sums) row.read(sums, width);
    else row.read(to, width);
    bool finite = row.finite(width);
    if (sums && finite) row.write(to, width);
    return finite;
}

// Which keys a query sees: mask (null: all), a view of the shape (pairs, queries, keys), and with `causal` no key that is
// further from its last than the query from its own: where there are more keys than queries, these are the last ones.
struct Seen {
    const bool* mask;
    const View& at;
    int queries, keys, causal;

    __device__ bool operator()(int pair, int query, int key) const {
        if (causal && key > query + keys - queries) return false;
        return !mask || mask[at((pair * queries + query) * keys + key)];
    }
};

// Dropout of weights. Each is 0, or else times `scale`, by its place among all scores: the same numbers are drawn again on
// the way back. Four neighbors share a counter, and one is kept where its word is at least `threshold`, of 2^32 that a word
// can be. state is the seed and the number of the mask; null: all weights stay.
struct Dropped {
    const unsigned long long* state;
    unsigned long long threshold;
    wide scale;

    __device__ wide operator()(long long row, int keys, int key) const {
        if (!state) return 1;
        unsigned long long i = row * keys + key;
        return philox(state[0], i / 4, state[1]).at[i % 4] < threshold ? 0 : scale;
    }
};

// The state that gradients need, and that of the next mask.
extern "C" __global__ void attention_next_mask(
    const unsigned long long* state, unsigned long long* used, unsigned long long* next) {
    used[0] = next[0] = state[0], used[1] = state[1], next[1] = state[1] + 1;
}

// y = the sum over keys of softmax(scale q k) v; most = the largest scale q k, and inverse = 1 / the sum of
// exp(scale q k - most), from which gradients make the weights again. The softmax is made while the keys go by, as if each
// were the last: with a larger score, what was summed with the old maximum is scaled down. A query that sees no key gets 0,
// and so are its most and inverse. repair, here and below: not 0 if another kernel has written rows that are not finite,
// and then only these are made again. It has multiplied weights of 0 by what is hidden, and 0 times NaN is NaN. y has the rows
// of `heads` neighboring pairs side by side.
extern "C" __global__ void __launch_bounds__(32 * WARPS) attention_forward(
    const real* q, const real* k, const real* v, const bool* mask, real* y, wide* peaks, wide* inverses, View mask_at,
    wide scale, int group, int pairs, int queries, int keys, int width, int causal, const unsigned long long* state,
    unsigned long long threshold, wide kept_scale, const int* repair, int heads) {
    Seen seen{mask, mask_at, queries, keys, causal};
    Dropped dropped{state, threshold, kept_scale};
    for (int i = blockIdx.x * WARPS + threadIdx.y; i < pairs * queries && wanted(repair); i += gridDim.x * WARPS) {
        int pair = i / queries, query = i % queries;
        real* to = y + ((pair / heads * queries + query) * heads + pair % heads) * width;
        if (intact(repair, to, width)) continue;
        Row own = {}, other = {};
        RowSum sum;
        wide most = -INFINITY;
        own.read(q + i * width, width);
        for (int key = 0; key < keys; ++key) {
            if (!seen(pair, query, key)) continue;  // the same for the whole warp
            int at = (pair / group * keys + key) * width;
            // [score]
            other.read(k + at, width);
            wide score = scale * own.dot(other, width);
            // [rescale]
            wide larger = score > most || score != score ? score : most;
            wide kept = larger == -INFINITY ? 1 : exp(most - larger), weight = larger == -INFINITY ? 0 : exp(score - larger);
            most = larger;
            // [add]
            other.read(v + at, width);
            sum.add(kept, weight, other, width, dropped(i, keys, key));
        }
        sum.close(width);
        bool none = most == -INFINITY;
        Row::each(width, [&](int j) { other.at[j] = none ? 0 : sum.whole.at[j] / sum.total; });
        other.write(to, width);
        if (threadIdx.x == 0) peaks[i] = none ? 0 : most, inverses[i] = none ? 0 : 1 / sum.total;
    }
}

// dots = dy y: of a query, the mean of the slopes of its weights.
extern "C" __global__ void __launch_bounds__(32 * WARPS) attention_backward_dots(
    const real* dy, const real* y, wide* dots, int queries, int width) {
    int i = blockIdx.x * WARPS + threadIdx.y;
    if (i >= queries) return;
    Row upstream = {}, other = {};
    upstream.read(dy + i * width, width);
    other.read(y + i * width, width);
    wide dot = upstream.dot(other, width);
    if (threadIdx.x == 0) dots[i] = dot;
}

// dq = scale * the sum over keys of ds k, ds = p (dy v - dots), p = exp(score - most) * inverse.
extern "C" __global__ void __launch_bounds__(32 * WARPS) attention_backward_queries(
    const real* dy, const real* q, const real* k, const real* v, const bool* mask, const wide* peaks, const wide* inverses,
    const wide* dots, real* dq, View mask_at, wide scale, int group, int pairs, int queries, int keys, int width, int causal,
    const unsigned long long* state, unsigned long long threshold, wide kept_scale, const int* repair, const float* sums) {
    Seen seen{mask, mask_at, queries, keys, causal};
    Dropped dropped{state, threshold, kept_scale};
    for (int i = blockIdx.x * WARPS + threadIdx.y; i < pairs * queries && wanted(repair); i += gridDim.x * WARPS) {
        int pair = i / queries, query = i % queries;
        if (intact(repair, dq + i * width, width, sums ? sums + i * width : sums)) continue;
        Row own = {}, upstream = {}, other = {};
        RowSum sum;
        own.read(q + i * width, width);
        upstream.read(dy + i * width, width);
        for (int key = 0; key < keys; ++key) {
            if (!seen(pair, query, key)) continue;
            int at = (pair / group * keys + key) * width;
            other.read(v + at, width);
            wide slope = dropped(i, keys, key) * upstream.dot(other, width) - dots[i];
            other.read(k + at, width);
            sum.add(1, exp(scale * own.dot(other, width) - peaks[i]) * inverses[i] * slope * scale, other, width);
        }
        sum.close(width);
        sum.whole.write(dq + i * width, width);
    }
}

// dv = the sum over queries of p dy, dk = scale * that of ds q, over all heads of q that share this one.
extern "C" __global__ void __launch_bounds__(32 * WARPS) attention_backward_keys(
    const real* dy, const real* q, const real* k, const real* v, const bool* mask, const wide* peaks, const wide* inverses,
    const wide* dots, real* dk, real* dv, View mask_at, wide scale, int group, int pairs, int queries, int keys, int width,
    int causal, const unsigned long long* state, unsigned long long threshold, wide kept_scale, const int* repair) {
    Seen seen{mask, mask_at, queries, keys, causal};
    Dropped dropped{state, threshold, kept_scale};
    int rows = pairs / max(group, 1) * keys;
    for (int i = blockIdx.x * WARPS + threadIdx.y; i < rows && wanted(repair); i += gridDim.x * WARPS) {
        int shared = i / keys, key = i % keys;
        if (intact(repair, dk + i * width, width) && intact(repair, dv + i * width, width)) continue;
        Row own = {}, value = {}, other = {}, upstream = {};
        RowSum key_sum, value_sum;
        own.read(k + i * width, width);
        value.read(v + i * width, width);
        for (int j = 0; j < group * queries; ++j) {
            int pair = shared * group + j / queries, query = j % queries, at = pair * queries + query;
            if (!seen(pair, query, key)) continue;
            other.read(q + at * width, width);
            upstream.read(dy + at * width, width);
            wide p = exp(scale * own.dot(other, width) - peaks[at]) * inverses[at], stays = dropped(at, keys, key);
            value_sum.add(1, p * stays, upstream, width);
            key_sum.add(1, p * (stays * upstream.dot(value, width) - dots[at]) * scale, other, width);
        }
        key_sum.close(width), value_sum.close(width);
        key_sum.whole.write(dk + i * width, width);
        value_sum.whole.write(dv + i * width, width);
    }
}
