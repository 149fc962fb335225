// A warp's share of attention in float32, without tensor cores: each thread owns a tile of the results.
#pragma once
#include "attention/flash.cuh"

#ifndef TALL
#define TALL 8
#endif

// warp -> a strip of 4 TALL rows, as 4 x 8 threads; thread -> TALL of its rows, and every eighth column of the scores, or
// of the sums groups of four.
struct Registers {
    using T = float;
    static constexpr int STRIP = 4 * TALL, R = TALL, C = PASSING / 8, SUMS = WIDTH / 8, RUN = 4, PITCH = WIDTH + RUN;
    static constexpr int BETWEEN = PASSING + 8, EXCHANGE = STRIP * BETWEEN;  // of scores; rows begin in different banks

    template <int N>
    struct Result {
        float at[TALL][N / 8];
        __device__ float& operator()(int i, int j) { return at[i][j]; }
    };
    using Scores = Result<PASSING>;
    using Sums = Result<WIDTH>;

    struct Strip {
        const float* from;
        __device__ explicit Strip(const float* from) : from(from) {}
        __device__ void hold() {}
    };
    using Four = Run<float>;
    static __device__ Four four(const float* from) { return *reinterpret_cast<const Four*>(from); }

    // Lanes i and i ^ 1 share their rows, i and i ^ 2 their columns: then the reads of half a warp are merged into one.
    static __device__ int y() { return (threadIdx.x >> 1 & 1) | (threadIdx.x >> 3 & 2); }
    static __device__ int x() { return (threadIdx.x & 1) | (threadIdx.x >> 1 & 6); }
    static __device__ int row(int i) { return y() + i * 4; }
    static __device__ int column(int j) { return x() + j * 8; }
    template <class F>
    static __device__ void each(Scores& scores, F f) {
#pragma unroll
        for (int i = 0; i < R; ++i) {
#pragma unroll
            for (int j = 0; j < C; ++j) f(i, j, scores(i, j));
        }
    }
    // Combines the values of the lanes that share a row.
    template <class F>
    static __device__ float across(float value, F combine) {
        value = combine(value, __shfl_xor_sync(0xffffffff, value, 1));
        value = combine(value, __shfl_xor_sync(0xffffffff, value, 4));
        return combine(value, __shfl_xor_sync(0xffffffff, value, 8));
    }

    // scores += strip @ tile^T. Where the registers suffice, every 16 terms are summed by themselves first: in one chain each
    // term would round the whole sum.
    static __device__ void along(Scores& scores, const Strip& strip, const float* tile) {
        constexpr int TERMS = TALL <= 4 ? 16 : WIDTH;
        for (int at = 0; at < WIDTH; at += TERMS) {
            if constexpr (TERMS == WIDTH) return add_terms<TERMS>(scores, strip, tile);
            Scores part = {};
            add_terms<TERMS>(part, strip, tile, at);
            each(scores, [&](int i, int j, float& s) { s += part(i, j); });
        }
    }
    template <int TERMS>
    static __device__ void add_terms(Scores& scores, const Strip& strip, const float* tile, int first = 0) {
#pragma unroll 4
        for (int at = first; at < first + TERMS; at += 4) {
            Four tall[TALL], flat[C];
#pragma unroll
            for (int j = 0; j < C; ++j) flat[j] = four(tile + column(j) * PITCH + at);
#pragma unroll
            for (int i = 0; i < TALL; ++i) tall[i] = four(strip.from + row(i) * PITCH + at);
#pragma unroll
            for (int i = 0; i < TALL * 4; ++i) {
#pragma unroll
                for (int j = 0; j < C; ++j) scores.at[i / 4][j] += tall[i / 4].at[i % 4] * flat[j].at[i % 4];
            }
        }
    }

    // sums += scores @ tile: a thread needs the scores of whole rows, which its neighbors have. The product is summed by
    // itself first: in one chain over all tiles each term would round the whole sum.
    static __device__ void down(Sums& sums, const Scores& scores, const float* tile, float* exchange) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < TALL; ++i) {
#pragma unroll
            for (int j = 0; j < C; ++j) exchange[row(i) * BETWEEN + column(j)] = scores.at[i][j];
        }
        __syncwarp();
        Sums part = {};
#pragma unroll 4
        for (int at = 0; at < PASSING; at += 4) {
            Four tall[TALL];
#pragma unroll
            for (int i = 0; i < TALL; ++i) tall[i] = four(exchange + row(i) * BETWEEN + at);
#pragma unroll
            for (int term = 0; term < 4; ++term) {
                Four flat[SUMS / 4];
#pragma unroll
                for (int j = 0; j < SUMS / 4; ++j) flat[j] = four(tile + (at + term) * PITCH + x() * 4 + j * 32);
#pragma unroll
                for (int i = 0; i < TALL; ++i) {
#pragma unroll
                    for (int j = 0; j < SUMS; ++j) part.at[i][j] += tall[i].at[term] * flat[j / 4].at[j % 4];
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TALL * SUMS; ++i) sums.at[i / SUMS][i % SUMS] += part.at[i / SUMS][i % SUMS];
    }

    // `down` has written the scores to shared memory.
    static __device__ void expose(Scores&, float*) {}

    // out += scale * scores^T @ own, from the scores of all warps. Others add to the same rows, in any order.
    static __device__ void scatter(float* out, const float* scores, const float* own, int rows, int width, float scale) {
        for (int job = threadIdx.x; job < PASSING / 4 * (WIDTH / 4); job += 32 * WARPS) {
            int top = job / (WIDTH / 4) * 4, left = job % (WIDTH / 4) * 4;
            float sum[4][4] = {};
#pragma unroll 4
            for (int key = 0; key < WARPS * STRIP; ++key) {
                Four tall = four(scores + key * BETWEEN + top), flat = four(own + key * PITCH + left);
#pragma unroll
                for (int i = 0; i < 16; ++i) sum[i / 4][i % 4] += tall.at[i / 4] * flat.at[i % 4];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                Run<float> run = {sum[i][0] * scale, sum[i][1] * scale, sum[i][2] * scale, sum[i][3] * scale};
                if (top + i < rows) add_run(out + (top + i) * width, left, width, run);
            }
        }
    }

    // Writes factor times row i of the sums.
    static __device__ void store(float* row, Sums& sums, int i, int width, float factor) {
#pragma unroll
        for (int j = 0; j < SUMS; j += 4) {
            Run<float> run = {sums(i, j) * factor, sums(i, j + 1) * factor, sums(i, j + 2) * factor, sums(i, j + 3) * factor};
            write_run(row, x() * 4 + j * 8, width, run);
        }
    }
};
