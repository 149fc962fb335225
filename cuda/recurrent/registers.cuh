// The weights of a block in the registers of its threads, multiplied by CUDA cores.
#pragma once
#include "recurrent/persistent.cuh"

#ifndef ROWS
#define ROWS 1
#endif
#ifndef SEQS
#define SEQS 4
#endif
#ifndef SPLIT
#define SPLIT 4
#endif

// The weights of a thread, and the products of a warp. SPLIT neighboring lanes have the same ROWS x SPLIT rows and share
// the warp's K columns, so that a number of h that a lane reads from shared memory serves ROWS x SPLIT products: in the
// time of one such read an SM multiplies four times. At the end the lanes add up what they have, and each keeps ROWS rows.
struct Registers {
    static constexpr int SEQUENCES = SEQS, STRIDE = 32 * ROWS, UNITS = STRIDE / GATES, PARTIAL = SEQS * STRIDE;
    static constexpr int VECTORS = K / SPLIT / LANES, APART = 32 / SPLIT;  // of a lane's columns; rows apart
    static constexpr int READS = (SEQS * K / LANES + 31) / 32;  // vectors of h that a lane reads
    static constexpr int MANY = 16 / (ROWS * SPLIT), FIT = MANY < 2 ? 1 : MANY < 4 ? 2 : MANY < 8 ? 4 : 8;
    static constexpr int AT_ONCE = FIT >= SEQS ? SEQS : SEQS % FIT ? 1 : FIT;  // sequences whose sums are in registers
    real w[ROWS][SPLIT][VECTORS * LANES];

    static __device__ int row(int r, int i) { return 32 * r + APART * i + threadIdx.x / SPLIT; }
    static __device__ int column(int vector) { return (vector * SPLIT + threadIdx.x % SPLIT) * LANES; }

    // Beyond the matrix they are 0.
    __device__ void load(const real* matrix, int first, int hidden) {
#pragma unroll
        for (int r = 0; r < ROWS * SPLIT; ++r) {
            int own = row(r / SPLIT, r % SPLIT), gate = own / UNITS, unit = blockIdx.x * UNITS + own % UNITS;
            bool exists = gate < GATES && unit < hidden;
#pragma unroll
            for (int k = 0; k < VECTORS * LANES; ++k) {
                int from = first + column(k / LANES) + k % LANES;
                w[r / SPLIT][r % SPLIT][k] =
                    exists && from < hidden ? matrix[(gate * hidden + unit) * hidden + from] : 0;
            }
        }
    }

    // partial[s][row] = sum over k of w[row][k] h[s][k], of the K numbers of this warp, which it keeps in shared memory
    // behind the partial sums of all. The threads of the block meet before the next product.
    template <class Exchange>
    __device__ void multiply(const Exchange& exchange, int tick, int layer, real* shared, int first) const {
        real *own = shared + blockDim.y * PARTIAL + threadIdx.y * SEQS * K, *partial = shared + threadIdx.y * PARTIAL;
        // [read h]
#pragma unroll
        for (int i = 0; i < READS; ++i) {
            int at = (32 * i + threadIdx.x) * LANES;
            if (at < SEQS * K) {
                exchange.copy(own + at, exchange.row(tick, layer, blockIdx.y * SEQS + at / K) + first + at % K);
            }
        }
        copy_commit();
        copy_wait<0>();
        __syncwarp();
#pragma unroll
        for (int s = 0; s < SEQS; s += AT_ONCE) {
            // [products]
            real sums[AT_ONCE][ROWS][SPLIT] = {};
#pragma unroll
            for (int v = 0; v < VECTORS * AT_ONCE; ++v) {
                int one = v % AT_ONCE, k = v / AT_ONCE * LANES;
                Vec h = vec(own + (s + one) * K + column(v / AT_ONCE));
#pragma unroll
                for (int i = 0; i < ROWS * SPLIT * LANES; ++i) {
                    int r = i / SPLIT % ROWS, j = i / (ROWS * SPLIT);
                    sums[one][r][i % SPLIT] += w[r][i % SPLIT][k + j] * h.at[j];
                }
            }
            // [partial sums] At each exchange a lane gives away one half of its rows.
#pragma unroll
            for (int i = 0; i < AT_ONCE * ROWS; ++i) {
                real(&sum)[SPLIT] = sums[i / ROWS][i % ROWS];
#pragma unroll
                for (int half = SPLIT / 2; half > 0; half /= 2) {
                    bool upper = threadIdx.x & half;
#pragma unroll
                    for (int j = 0; j < half; ++j) {
                        real given = upper ? sum[j] : sum[j + half];
                        sum[j] = (upper ? sum[j + half] : sum[j]) + __shfl_xor_sync(~0u, given, half);
                    }
                }
                partial[(s + i / ROWS) * STRIDE + row(i % ROWS, threadIdx.x % SPLIT)] = sum[0];
            }
        }
    }
};
