// A short row in the registers of SHARE neighboring lanes of a warp: a warp holds several rows at a time.
#pragma once
#include "reduce.cuh"
#include "vector.cuh"

constexpr int MINE = 8;  // elements per lane: a row is at most MINE * SHARE long, and SHARE at most 32

struct Short {
    int row, share, count;  // this lane's row, its number among the lanes of the row, and the length of the row

    __device__ Short(int rows, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        row = i / SHARE, share = i % SHARE, count = row < rows ? n : 0;  // lanes without a row still take part in shuffles
    }

    // The index in the row of the lane's j-th element. They are fours of neighbors.
    __device__ int at(int j) const { return (share + j / LANES * SHARE) * LANES + j % LANES; }

    // own = this lane's elements of a row, `beyond` past its end. The row begins at a multiple of its length.
    __device__ void hold(wide (&own)[MINE], const real* row, wide beyond) const {
#pragma unroll
        for (int j = 0; j < MINE; j += LANES) {
            Four<wide> four = {beyond, beyond, beyond, beyond};
            if (count % LANES == 0) {
                if (at(j) < count) {
                    Vec loaded = vec(&row[at(j)]);
                    four = as<wide>(loaded);
                }
            } else {
#pragma unroll
                for (int lane = 0; lane < LANES; ++lane) {
                    if (at(j + lane) < count) four.at[lane] = row[at(j + lane)];
                }
            }
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) own[j + lane] = four.at[lane];
        }
    }

    // Stores the row again.
    __device__ void release(const wide (&own)[MINE], real* row) const {
#pragma unroll
        for (int j = 0; j < MINE; j += LANES) {
            if (count % LANES == 0) {
                if (at(j) < count) put(row, at(j), Four<wide>{own[j], own[j + 1], own[j + 2], own[j + 3]});
            } else {
#pragma unroll
                for (int lane = 0; lane < LANES; ++lane) {
                    if (at(j + lane) < count) row[at(j + lane)] = own[j + lane];
                }
            }
        }
    }
};

// Reduces the row; all its lanes get the result.
template <class Combine>
__device__ wide lanes_reduce(const wide (&own)[MINE], Combine combine) {
    wide value = own[0];
#pragma unroll
    for (int j = 1; j < MINE; ++j) value = combine(value, own[j]);
    return lanes_reduce<SHARE>(value, combine);
}

// own = exp(own - most); returns their sum.
__device__ inline wide lanes_exp(wide (&own)[MINE], wide most) {
#pragma unroll
    for (int j = 0; j < MINE; ++j) own[j] = exp(own[j] - most);
    return lanes_reduce(own, Add());
}
