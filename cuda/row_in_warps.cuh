// A row of up to 128 WARPS numbers, a multiple of four, in the registers of WARPS warps: thread -> four neighbors. A block has
// 8 warps, so TEAMS rows at a time, and walks through rows gridDim.x * TEAMS apart; the next ones are on their way from memory
// while it computes.
#pragma once
#include "async_copy.cuh"
#include "reduce.cuh"
#include "vector.cuh"

#ifndef CENTER
#define CENTER 1
#endif
#ifndef WARPS
#define WARPS 8
#endif

constexpr int TEAMS = 8 / WARPS, SPAN = 32 * LANES;  // rows of a block at a time, numbers of a row in a warp
constexpr bool SINGLE = sizeof(wide) == 4;
constexpr int STAGES = SINGLE ? 2 : 1;  // rows of a team in shared memory

// The rows of a thread's team, one at each turn, and the place of its numbers in each.
struct Walk {
    int rows, n, step = gridDim.x * TEAMS, row = blockIdx.x * TEAMS + threadIdx.y, i = threadIdx.x * LANES, turn = 0;

    __device__ Walk(int rows, int n) : rows(rows), n(n) {}
    // True as long as any team of the block has a row: all of them meet at its barriers.
    __device__ bool goes_on() const { return row - (int)threadIdx.y < rows; }
    __device__ void next() { row += step, ++turn; }
    __device__ bool inside(int at) const { return at < rows && i < n; }
    __device__ Four<wide> columns(const wide* x, wide missing) const {
        Four<wide> own = {missing, missing, missing, missing};
        if (x && i < n) own = vec(x + i);
        return own;
    }
    template <class T>
    __device__ void write(T* y, const Four<wide>& own) const {
        if (inside(row)) put(y, row * n + i, own);
    }
};

// The rows of an array on their way to shared memory, STAGES - 1 of them while another is summed: so the memory is busy. A thread
// copies its own numbers and waits for no other. Zeros outside of the array.
template <class T>
struct Rows {
    const T* x;
    Four<T> (*places)[256];

    __device__ Four<T>& place(int turn) const { return places[turn % STAGES][threadIdx.y * blockDim.x + threadIdx.x]; }
    __device__ void fetch(const Walk& walk, int ahead) const {
        int at = walk.row + ahead * walk.step;
        bool inside = walk.inside(at);
        copy_async(&place(walk.turn + ahead), &vec(x + (inside ? at * walk.n + walk.i : 0)), inside);
    }
    __device__ Four<wide> take(const Walk& walk) const { return as<wide>(place(walk.turn)); }
};

// Starts the first copies.
template <class... T>
__device__ void begin(const Walk& walk, const Rows<T>&... arrays) {
#pragma unroll
    for (int ahead = 0; ahead < STAGES - 1; ++ahead) {
        (arrays.fetch(walk, ahead), ...);
        copy_commit();
    }
}
// Starts the copies of one more row, and waits for those of the walk's own.
template <class... T>
__device__ void advance(const Walk& walk, const Rows<T>&... arrays) {
    (arrays.fetch(walk, STAGES - 1), ...);
    copy_commit();
    copy_wait<STAGES - 1>();
}

template <class F>
__device__ inline wide warp_sum(F f) { return lanes_reduce<32>(f(0) + f(1) + f(2) + f(3), Add()); }

template <int N>
struct Sums {
    wide at[N];
};

// The sums of all warps of a row, after one barrier. At every other turn in another place, so no warp writes what one reads.
template <int N>
__device__ const Sums<N>* of_warps(const Sums<N>& own, int turn) {
    __shared__ Sums<N> all[2][TEAMS][WARPS];
    if (threadIdx.x % 32 == 0) all[turn % 2][threadIdx.y][threadIdx.x / 32] = own;
    __syncthreads();
    return all[turn % 2][threadIdx.y];
}

__device__ inline int numbers_of(int warp, int n) { return max(0, min(n - warp * SPAN, SPAN)); }

// The mean of a row, 0 without CENTER, and the sum of the squares around it.
struct Moments {
    wide mean, squares;

    // Of the warp's own part of the row.
    __device__ Moments(const Four<wide>& own, int n) {
        bool in = threadIdx.x * LANES < n;
        mean = CENTER ? warp_sum([&](int j) { return own.at[j]; }) / max(1, numbers_of(threadIdx.x / 32, n)) : 0;
        squares = warp_sum([&](int j) { return in ? (own.at[j] - mean) * (own.at[j] - mean) : 0; });
    }
    // Of all of it, from the first two sums of each warp: the squares around another mean are those around the own one,
    // and the distance squared for each number.
    template <int N>
    __device__ void join(const Sums<N>* warps, int n) {
        mean = squares = 0;
        for (int w = 0; CENTER && w < WARPS; ++w) mean += warps[w].at[0] * numbers_of(w, n);
        mean /= n;
        for (int w = 0; w < WARPS; ++w) {
            wide apart = warps[w].at[0] - mean;
            squares += warps[w].at[1] + apart * apart * numbers_of(w, n);
        }
    }
    __device__ wide inverse(wide eps, int n) const { return 1 / sqrt(squares / n + eps); }
};

__device__ inline Moments moments(const Four<wide>& own, int n, int turn) {
    Moments found(own, n);
    if (WARPS > 1) found.join(of_warps(Sums<2>{found.mean, found.squares}, turn), n);
    return found;
}

// (x - mean) * scale * factors + terms
__device__ inline void normalize(Four<wide>& own, wide mean, wide scale, const Four<wide>& factors, const Four<wide>& terms) {
#pragma unroll
    for (int j = 0; j < LANES; ++j) own.at[j] = (own.at[j] - mean) * scale * factors.at[j] + terms.at[j];
}

// The columns' sums of a block, as rows of parts (N, gridDim.x, n): those of its other teams join the first one's through
// the places of rows that have gone by, (N, n) of them.
template <int N, class Places>
__device__ void write_sums(Four<wide> (&sums)[N], Places& places, wide* parts, const Walk& walk) {
    static_assert(TEAMS == 1 || N * WARPS * SPAN * sizeof(wide) <= sizeof(places), "the sums have room");
    wide* shared = reinterpret_cast<wide*>(&places);
    int i = walk.i, n = walk.n;
    copy_wait<0>();
    __syncthreads();
    for (int other = 1; other < TEAMS; ++other) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            if (threadIdx.y == other && i < n) put(shared, k * n + i, sums[k]);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < N; ++k) {
            for (int j = 0; threadIdx.y == 0 && i < n && j < LANES; ++j) sums[k].at[j] += shared[k * n + i + j];
        }
        __syncthreads();
    }
    if (threadIdx.y > 0 || i >= n) return;
#pragma unroll
    for (int k = 0; k < N; ++k) put(parts, (k * gridDim.x + blockIdx.x) * n + i, sums[k]);
}
