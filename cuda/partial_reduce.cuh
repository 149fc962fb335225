// Partial reductions along an axis: several threads share an output. See sum.cu for rows, n, inner and chunk.
#pragma once
#include "reduce.cuh"
#include "vector.cuh"

// The elements of one chunk of an output: `count` of them, `inner` apart. The partial result belongs at `to`.
struct Piece {
    const real* x;
    int count, inner, to;

    __device__ Piece(const real* all, int output, int outputs, int n, int inner, int chunk) : inner(inner) {
        int row = inner == 1 ? output : output / inner;  // a division takes as long as several additions
        int column = output - row * inner, first = blockIdx.y * chunk;
        x = all + (row * n + first) * inner + column;
        count = output < outputs ? min(chunk, n - first) : 0;
        to = (row * gridDim.y + blockIdx.y) * inner + column;
    }

    __device__ wide operator()(int i) const { return x[i * inner]; }
};

// Reduces a chunk with WIDTH neighboring lanes of a warp: lane `share` of them takes every WIDTH-th element, or every
// WIDTH-th four where all chunks are `whole`: fours that begin at multiples of four.
template <int WIDTH, class Combine>
__device__ wide piece_reduce(const Piece& piece, bool whole, int share, wide start, Combine combine) {
    const real* x = piece.x;
    wide value = start;
    if (whole) {
        value = strided_reduce<4>(share, WIDTH, piece.count / LANES, start, [=](int i) {
            Vec four = vec(&x[i * LANES]);
            return combine(combine(four.at[0], four.at[1]), combine(four.at[2], four.at[3]));
        }, combine);
    } else {
        value = strided_reduce(share, WIDTH, piece.count, start, piece, combine);
    }
    return lanes_reduce<WIDTH>(value, combine);
}

// Reduces at(i), 0 <= i < count, in each column of a block of 32 x blockDim.y; a thread takes every blockDim.y-th
// element, and the first thread of the column gets the result.
template <class At, class Combine>
__device__ wide column_reduce(int count, wide start, At at, Combine combine) {
    __shared__ wide values[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    values[y][x] = strided_reduce(y, blockDim.y, count, start, at, combine);
    __syncthreads();
    wide value = values[0][x];
    for (int i = 1; y == 0 && i < blockDim.y; ++i) value = combine(value, values[i][x]);
    return value;
}
