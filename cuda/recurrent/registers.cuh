// The weights of a block in the registers of its threads, multiplied by CUDA cores.
#pragma once
#include "recurrent/persistent.cuh"

#ifndef ROWS
#define ROWS 1
#endif
#ifndef SEQS
#define SEQS 4
#endif

// The weights of a thread, and the products of a warp: lane -> ROWS rows, row lane + 32 r of the block, so ROWS x K weights.
struct Registers {
    static constexpr int SEQUENCES = SEQS, STRIDE = 32 * ROWS, UNITS = STRIDE / GATES, PARTIAL = SEQS * STRIDE;
    real w[ROWS][K];

    // Beyond the matrix they are 0.
    __device__ void load(const real* matrix, int first, int hidden) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            int row = threadIdx.x + 32 * r, gate = row / UNITS, unit = blockIdx.x * UNITS + row % UNITS;
            bool exists = gate < GATES && unit < hidden;
#pragma unroll
            for (int k = 0; k < K; ++k) {
                w[r][k] = exists && first + k < hidden ? matrix[(gate * hidden + unit) * hidden + first + k] : 0;
            }
        }
    }

    // partial[s][row] = sum over k of w[row][k] h[s][k], of the K numbers of this warp, which it keeps in shared memory
    // behind the partial sums of all.
    template <class Exchange>
    __device__ void multiply(
        const Exchange& exchange, int tick, int layer, real* shared, int first, int batch, int hidden) const {
        real *own = shared + blockDim.y * PARTIAL + threadIdx.y * SEQS * K, *partial = shared + threadIdx.y * PARTIAL;
        // [read h]
#pragma unroll
        for (int i = threadIdx.x; i < SEQS * K; i += 32) {
            int sequence = blockIdx.y * SEQS + i / K, k = first + i % K;
            own[i] = sequence < batch && k < hidden ? exchange.read(exchange.row(tick, layer, sequence) + k) : 0;
        }
        __syncwarp();
        // [products]
        real sums[ROWS][SEQS] = {};
#pragma unroll
        for (int k = 0; k < K; k += LANES) {
#pragma unroll
            for (int s = 0; s < SEQS; ++s) {
                Vec four = vec(own + s * K + k);  // all lanes read the same numbers: one read serves the warp
#pragma unroll
                for (int j = 0; j < LANES; ++j) {
#pragma unroll
                    for (int r = 0; r < ROWS; ++r) sums[r][s] += w[r][k + j] * four.at[j];
                }
            }
        }
        // [partial sums]
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
#pragma unroll
            for (int s = 0; s < SEQS; ++s) partial[s * STRIDE + threadIdx.x + 32 * r] = sums[r][s];
        }
        __syncwarp();  // `own` is filled again at the next step
    }
};
