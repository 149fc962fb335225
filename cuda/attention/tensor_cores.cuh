// A warp's share of attention on tensor cores. The scores that one product leaves in the registers of a warp are the first
// factor of the next one: they never leave them.
#pragma once
#include "attention/flash.cuh"
#include "matmul/arithmetic.cuh"

#ifndef TALL
#define TALL 2
#endif
#ifndef HELD
#define HELD (WIDTH <= 64)  // strips are held in registers, if their numbers have 16 bits
#endif

// warp -> a strip of TALL times 16 rows. A lane holds rows lane / 4 + 8 i of a result and pairs of its columns.
template <class Arithmetic>
struct TensorCores {
    using T = typename Arithmetic::T;
    static constexpr int STRIP = 16 * TALL, R = 2 * TALL, C = PASSING / 4, SUMS = WIDTH / 4;
    static constexpr int RUN = 16 / sizeof(T), SLICE = 32 / sizeof(T), PITCH = WIDTH + RUN;
    static constexpr int SLICES = WIDTH / SLICE, HOLDS = HELD && sizeof(T) == 2 ? SLICES : 0;
    static constexpr int BETWEEN = PASSING + RUN, EXCHANGE = STRIP * BETWEEN;

    // A result in pieces of 16 x 8, as the instruction leaves them.
    template <int N, int M = TALL>
    struct Result {
        float at[M][N / 8][4];
        __device__ float& operator()(int i, int j) { return at[i / 2][j / 2][i % 2 * 2 + j % 2]; }
    };
    using Scores = Result<PASSING>;
    using Sums = Result<WIDTH>;

    static __device__ int lane() { return threadIdx.x % 32; }
    static __device__ int row(int i) { return lane() / 4 + i * 8; }
    static __device__ int column(int j) { return j / 2 * 8 + lane() % 4 * 2 + j % 2; }
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
        return combine(value, __shfl_xor_sync(0xffffffff, value, 2));
    }

    // Rows of the block in shared memory, or in registers once they are there.
    struct Strip {
        const T* from;
        unsigned held[HOLDS ? HOLDS : 1][TALL][4];

        __device__ explicit Strip(const T* from) : from(from) {}
        __device__ void read(unsigned (&to)[TALL][4], int slice) const {
#pragma unroll
            for (int i = 0; i < TALL; ++i) {
                load_matrices(to[i], from + (i * 16 + lane() % 16) * PITCH + slice * SLICE + lane() / 16 * RUN);
                Arithmetic::round(to[i]);
            }
        }
        __device__ void hold() {
#pragma unroll
            for (int slice = 0; slice < HOLDS; ++slice) read(held[slice], slice);
        }
        __device__ void fetch(unsigned (&to)[TALL][4], int slice) const {
            if constexpr (HOLDS == 0) read(to, slice);
            else for (int i = 0; i < TALL * 4; ++i) to[i / 4][i % 4] = held[slice][i / 4][i % 4];
        }
    };

    // scores += strip @ tile^T: the sum goes along the rows of both.
    static __device__ void along(Scores& scores, const Strip& strip, const T* tile) {
        int half = lane() % 8 + lane() / 16 * 8, other = lane() / 8 % 2;
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice) {
            unsigned tall[TALL][4], flat[4];
            strip.fetch(tall, slice);
#pragma unroll
            for (int x = 0; x < PASSING; x += 16) {
                load_matrices(flat, tile + (x + half) * PITCH + slice * SLICE + other * RUN);
                Arithmetic::round(flat);
                multiply(scores, x / 8, tall, flat);
            }
        }
    }
    template <int N, int M>
    static __device__ void multiply(Result<N, M>& sums, int x, const unsigned (&tall)[M][4], const unsigned (&flat)[4]) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < M; ++i) Arithmetic::multiply(sums.at[i][x + half], tall[i], flat + half * 2);
        }
    }

    // sums += first @ tile: the sum goes down TERMS rows of the tile. first(tall, start) gives a slice of the first factor. In
    // floats the terms of a slice are taken in the order 0, 2, 4, 6, 1, 3, 5, 7, of both factors, and the columns in one
    // in which a lane reads 16 bytes at once.
    template <int TERMS, int N, int M, class First>
    static __device__ void sum_down(Result<N, M>& sums, First first, const T* tile) {
#pragma unroll
        for (int start = 0; start < TERMS; start += SLICE) {
            unsigned tall[M][4], flat[4];
            first(tall, start);
            if constexpr (sizeof(T) == 2) {
#pragma unroll
                for (int x = 0; x < N; x += 16) {
                    load_transposed(flat, tile + (start + lane() % 16) * PITCH + x + lane() / 16 * 8);
                    multiply(sums, x / 8, tall, flat);
                }
            } else {
                const T* from = tile + (start + lane() % 4 * 2) * PITCH + lane() / 4 * 4;
#pragma unroll
                for (int x = 0; x < N; x += 32) {
                    Run<T> even = *reinterpret_cast<const Run<T>*>(from + x), odd = *reinterpret_cast<const Run<T>*>(from + PITCH + x);
#pragma unroll
                    for (int j = 0; j < 4; j += 2) {
#pragma unroll
                        for (int i = 0; i < 4; ++i) flat[i] = __float_as_uint(i % 2 ? odd.at[j + i / 2] : even.at[j + i / 2]);
                        Arithmetic::round(flat);
                        multiply(sums, x / 8 + j, tall, flat);
                    }
                }
            }
        }
    }

    // sums += scores @ tile. What a lane holds of the scores is what it needs of a first factor; in floats it holds
    // neighbors where it would need terms 4 apart, hence their order.
    static __device__ void down(Sums& sums, const Scores& scores, const T* tile, T*) {
        auto first = [&](unsigned (&tall)[TALL][4], int start) {
#pragma unroll
            for (int i = 0; i < TALL; ++i) {
                const float(*from)[4] = scores.at[i] + start / 8;
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    if constexpr (sizeof(T) == 2) tall[i][j] = pair(from[j / 2][j % 2 * 2], from[j / 2][j % 2 * 2 + 1]);
                    else tall[i][j] = __float_as_uint(from[0][j % 2 * 2 + j / 2]);
                }
                Arithmetic::round(tall[i]);
            }
        };
        sum_down<PASSING>(sums, first, tile);
    }

    // Writes the scores of a warp to shared memory.
    static __device__ void expose(Scores& scores, T* exchange) {
#pragma unroll
        for (int i = 0; i < R; ++i) {
#pragma unroll
            for (int j = 0; j < C; j += 2) {
                T* to = exchange + row(i) * BETWEEN + column(j);
                if constexpr (sizeof(T) == 2) *reinterpret_cast<unsigned*>(to) = pair(scores(i, j), scores(i, j + 1));
                else *reinterpret_cast<float2*>(to) = {scores(i, j), scores(i, j + 1)};
            }
        }
    }

    // out += scale * scores^T @ own, from the scores of all warps. Others add to the same rows, in any order.
    static __device__ void scatter(float* out, const T* scores, const T* own, int rows, int width, float scale) {
        constexpr int M = PASSING * WIDTH / 1024 % WARPS ? 1 : 2, N = 32, ACROSS = WIDTH / N, JOBS = PASSING / (16 * M) * ACROSS;
        for (int job = threadIdx.x / 32; job < JOBS; job += WARPS) {
            int top = job / ACROSS * 16 * M, left = job % ACROSS * N;
            Result<N, M> sums = {};
            auto first = [&](unsigned (&tall)[M][4], int start) {
#pragma unroll
                for (int i = 0; i < M; ++i) {
                    const T* from = scores + start * BETWEEN + top + i * 16;
                    if constexpr (sizeof(T) == 2) {
                        load_transposed(tall[i], from + (lane() % 8 + lane() / 16 * 8) * BETWEEN + lane() / 8 % 2 * 8);
                    } else {
                        from += lane() % 4 * 2 * BETWEEN + lane() / 4;
#pragma unroll
                        for (int j = 0; j < 4; ++j) tall[i][j] = __float_as_uint(from[j / 2 * BETWEEN + j % 2 * 8]);
                    }
                    Arithmetic::round(tall[i]);
                }
            };
            sum_down<WARPS * STRIP>(sums, first, own + left);
#pragma unroll
            for (int i = 0; i < 2 * M; ++i) {
                int to = top + row(i);
                if (to < rows) add_row(out + to * width + left, sums, i, width - left, scale);
            }
        }
    }
    // The neighbors that a lane has in a row of sums with N columns: f(the first one's number, the step to the next, the
    // column).
    static constexpr int NEIGHBORS = sizeof(T) == 2 ? 2 : 4;
    template <int N, class F>
    static __device__ void each_run(F f) {
#pragma unroll
        for (int i = 0; i < N / 4 / NEIGHBORS; ++i) {
            if constexpr (sizeof(T) == 2) f(i * 2, 1, column(i * 2));
            else f(i / 2 * 8 + i % 2, 2, i / 2 * 32 + lane() % 4 * 8 + i % 2 * 4);
        }
    }
    // out += scale times row i of 32 columns of sums.
    template <int M>
    static __device__ void add_row(float* out, Result<32, M>& sums, int i, int width, float scale) {
        each_run<32>([&](int j, int step, int to) {
            Run<float, NEIGHBORS> run;
#pragma unroll
            for (int n = 0; n < NEIGHBORS; ++n) run.at[n] = sums(i, j + n * step) * scale;
            add_run(out, to, width, run);
        });
    }
    // Two numbers as bfloat16, the first one in the lower half.
    static __device__ unsigned pair(float first, float second) {
#ifdef MINIGRAD_SIM
        return bfloat16(first).bits | bfloat16(second).bits << 16;
#else
        unsigned both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
        return both;
#endif
    }

    // Writes factor times row i of the sums.
    static __device__ void store(T* row, Sums& sums, int i, int width, float factor) {
        each_run<WIDTH>([&](int j, int step, int to) {
            Run<T, NEIGHBORS> run;
#pragma unroll
            for (int n = 0; n < NEIGHBORS; ++n) run.at[n] = T(sums(i, j + n * step) * factor);
            write_run(row, to, width, run);
        });
    }
};
