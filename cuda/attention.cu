#include "reduce.cuh"

// Attention of queries q (pairs, queries, WIDTH numbers) to keys k and values v (pairs / group, keys, as many): a pair is a
// sequence and a head, and `group` neighboring heads of q share a head of k and v. All kernels: warp -> a query or a key,
// a row of width numbers; lane -> every 32nd of them. Scores are never written: they are made again where needed.
#ifndef PER
#define PER 2  // numbers of a lane: a row has up to 32 PER
#endif
#ifndef ROWS
#define ROWS 4
#endif

using Row = wide[PER];

__device__ inline void read_row(Row& row, const real* from, int width) {
#pragma unroll
    for (int j = 0; j < PER; ++j) row[j] = threadIdx.x + 32 * j < width ? wide(from[threadIdx.x + 32 * j]) : 0;
}

__device__ inline void write_row(real* to, const Row& row, int width) {
#pragma unroll
    for (int j = 0; j < PER; ++j) {
        if (threadIdx.x + 32 * j < width) to[threadIdx.x + 32 * j] = row[j];
    }
}

// The product of two rows; all lanes get it.
__device__ inline wide dot(const Row& a, const Row& b) {
    wide sum = 0;
#pragma unroll
    for (int j = 0; j < PER; ++j) sum += a[j] * b[j];
    return lanes_reduce<32>(sum, Add());
}

// row += factor * other
__device__ inline void add(Row& row, wide factor, const Row& other) {
#pragma unroll
    for (int j = 0; j < PER; ++j) row[j] += factor * other[j];
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

// y = the sum over keys of softmax(scale q k) v, and logs = the logarithm of the sum of exp(scale q k). The softmax is made
// while the keys go by, as if each were the last: with a larger score, what was summed with the old maximum is scaled down.
// A query that sees no key gets 0, and logs = infinity, so that exp(score - logs) is 0.
extern "C" __global__ void attention_forward(
    const real* q, const real* k, const real* v, const bool* mask, real* y, wide* logs, View mask_at, wide scale,
    int group, int pairs, int queries, int keys, int width, int causal) {
    int i = blockIdx.x * ROWS + threadIdx.y, pair = i / max(queries, 1), query = i % max(queries, 1);
    if (pair >= pairs) return;
    Seen seen{mask, mask_at, queries, keys, causal};
    Row own, sum = {}, other;
    wide most = -INFINITY, total = 0;
    read_row(own, q + i * width, width);
    for (int key = 0; key < keys; ++key) {
        if (!seen(pair, query, key)) continue;  // the same for the whole warp
        int at = (pair / group * keys + key) * width;
        // [score]
        read_row(other, k + at, width);
        wide score = scale * dot(own, other);
        // [rescale]
        wide larger = score > most || score != score ? score : most;
        wide kept = larger == -INFINITY ? 1 : exp(most - larger), weight = larger == -INFINITY ? 0 : exp(score - larger);
        most = larger, total = total * kept + weight;
        // [add]
        read_row(other, v + at, width);
#pragma unroll
        for (int j = 0; j < PER; ++j) sum[j] = sum[j] * kept + weight * other[j];
    }
    bool none = most == -INFINITY;
#pragma unroll
    for (int j = 0; j < PER; ++j) sum[j] = none ? 0 : sum[j] / total;
    write_row(y + i * width, sum, width);
    if (threadIdx.x == 0) logs[i] = none ? INFINITY : most + log(total);
}

// dq = scale * the sum over keys of ds k, ds = p (dy v - dots), p = exp(score - logs), dots = dy y, which this kernel writes
// for the next one.
extern "C" __global__ void attention_backward_queries(
    const real* dy, const real* q, const real* k, const real* v, const bool* mask, const real* y, const wide* logs,
    wide* dots, real* dq, View mask_at, wide scale, int group, int pairs, int queries, int keys, int width, int causal) {
    int i = blockIdx.x * ROWS + threadIdx.y, pair = i / max(queries, 1), query = i % max(queries, 1);
    if (pair >= pairs) return;
    Seen seen{mask, mask_at, queries, keys, causal};
    Row own, upstream, other, sum = {};
    read_row(own, q + i * width, width);
    read_row(upstream, dy + i * width, width);
    read_row(other, y + i * width, width);
    wide mine = dot(upstream, other), log_total = logs[i];
    if (threadIdx.x == 0) dots[i] = mine;
    for (int key = 0; key < keys; ++key) {
        if (!seen(pair, query, key)) continue;
        int at = (pair / group * keys + key) * width;
        read_row(other, v + at, width);
        wide slope = dot(upstream, other) - mine;
        read_row(other, k + at, width);
        add(sum, exp(scale * dot(own, other) - log_total) * slope * scale, other);
    }
    write_row(dq + i * width, sum, width);
}

// dv = the sum over queries of p dy, dk = scale * that of ds q, over all heads of q that share this one.
extern "C" __global__ void attention_backward_keys(
    const real* dy, const real* q, const real* k, const real* v, const bool* mask, const wide* logs, const wide* dots,
    real* dk, real* dv, View mask_at, wide scale, int group, int pairs, int queries, int keys, int width, int causal) {
    int i = blockIdx.x * ROWS + threadIdx.y, shared = i / max(keys, 1), key = i % max(keys, 1);
    if (shared * group >= pairs) return;
    Seen seen{mask, mask_at, queries, keys, causal};
    Row own, value, other, upstream, key_sum = {}, value_sum = {};
    read_row(own, k + i * width, width);
    read_row(value, v + i * width, width);
    for (int j = 0; j < group * queries; ++j) {
        int pair = shared * group + j / queries, query = j % queries, at = pair * queries + query;
        if (!seen(pair, query, key)) continue;
        read_row(other, q + at * width, width);
        read_row(upstream, dy + at * width, width);
        wide p = exp(scale * dot(own, other) - logs[at]);
        add(value_sum, p, upstream);
        add(key_sum, p * (dot(upstream, value) - dots[at]) * scale, other);
    }
    write_row(dk + i * width, key_sum, width);
    write_row(dv + i * width, value_sum, width);
}
