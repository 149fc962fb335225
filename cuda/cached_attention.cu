#include "reduce.cuh"

// Attention of the newest place of each text to all places up to it. keys and values (pairs, length, width) are a cache: a
// pair is a text and a head.
#ifndef WARPS
#define WARPS 8
#endif

constexpr int NUMBERS = 8;  // of a lane: a row has up to 32 NUMBERS

// x (texts, 3, heads, width): the query of each head, its key and its value, of which the last two are written into the
// cache at *place. y (texts, heads, width) = softmax(q keys^T * factor) values over the places 0 to *place. block -> a pair;
// warp -> every WARPS-th place, as if these were all; the first one then puts their results together. lane -> every 32nd
// number of a row.
extern "C" __global__ void __launch_bounds__(32 * WARPS) cached_attention_forward(
    const real* x, real* keys, real* values, const long long* place, real* y, wide factor, int heads, int length, int width) {
    __shared__ wide peaks[WARPS], totals[WARPS], sums[WARPS][32 * NUMBERS];
    int pair = blockIdx.x, text = pair / heads, head = pair % heads, lane = threadIdx.x, part = heads * width;
    const real* own = x + text * 3 * part + head * width;
    long long last = *place;
    bool inside = 0 <= last && last < length;
    keys += pair * length * width, values += pair * length * width;
    // [write]
    for (int i = threadIdx.y * 32 + lane; inside && i < width; i += 32 * WARPS) {
        keys[last * width + i] = own[part + i], values[last * width + i] = own[2 * part + i];
    }
    __syncthreads();
    // [online softmax]
    wide q[NUMBERS] = {}, sum[NUMBERS] = {}, most = -INFINITY, total = 0;
#pragma unroll
    for (int j = 0; j < NUMBERS; ++j) q[j] = lane + 32 * j < width ? own[lane + 32 * j] * factor : 0;
#pragma unroll 4
    for (int key = threadIdx.y; inside && key <= last; key += WARPS) {
        wide score = 0, v[NUMBERS];
#pragma unroll
        for (int j = 0; j < NUMBERS; ++j) {
            if (32 * j < width) {
                int at = key * width + lane + 32 * j;
                score += lane + 32 * j < width ? q[j] * keys[at] : 0, v[j] = lane + 32 * j < width ? wide(values[at]) : 0;
            }
        }
        score = lanes_reduce<32>(score, Add());
        wide larger = Max()(score, most), kept = most == larger ? 1 : exp(most - larger), weight = exp(score - larger);
        most = larger, total = total * kept + weight;
#pragma unroll
        for (int j = 0; j < NUMBERS; ++j) {
            if (32 * j < width) sum[j] = sum[j] * kept + weight * v[j];
        }
    }
    // [put together]
#pragma unroll
    for (int j = 0; j < NUMBERS; ++j) sums[threadIdx.y][lane + 32 * j] = sum[j];
    if (lane == 0) peaks[threadIdx.y] = most, totals[threadIdx.y] = total;
    __syncthreads();
    most = -INFINITY, total = 0;
    for (int warp = 0; warp < WARPS; ++warp) most = Max()(peaks[warp], most);
    for (int warp = 0; warp < WARPS; ++warp) total += totals[warp] > 0 ? totals[warp] * exp(peaks[warp] - most) : totals[warp];
    for (int i = threadIdx.y * 32 + lane; i < width; i += 32 * WARPS) {
        wide all = 0;
        for (int warp = 0; warp < WARPS; ++warp) all += totals[warp] == 0 ? 0 : sums[warp][i] * exp(peaks[warp] - most);
        y[(text * heads + head) * width + i] = inside ? all / total : NAN;
    }
}
