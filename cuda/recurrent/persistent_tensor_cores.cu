#include "matmul/arithmetic.cuh"
#include "recurrent/halves.cuh"
#include "recurrent/persistent.cuh"

#ifndef MROWS
#define MROWS 2
#endif
#ifndef EIGHTS
#define EIGHTS 1
#endif
#ifndef ARITHMETIC
#define ARITHMETIC Tf32
#endif
using Moved = ARITHMETIC::T;  // h as it changes hands

// The registers of four neighbors for mma: two pairs, or four numbers.
template <class T>
__device__ void to_fragment(unsigned (&out)[2], const Four<T>& four) {
    for (int i = 0; i < 2; ++i) out[i] = four.at[2 * i].bits | (unsigned)four.at[2 * i + 1].bits << 16;
}
__device__ inline void to_fragment(unsigned (&out)[4], const Four<float>& four) {
    for (int i = 0; i < 4; ++i) out[i] = __float_as_uint(four.at[i]);
    ARITHMETIC::round(out);
}
__device__ inline void to_fragment(unsigned (&out)[4], const Four<Halves>& four) {
    for (int i = 0; i < 2; ++i) {
        unsigned one = four.at[2 * i].bits, next = four.at[2 * i + 1].bits;
        out[i] = one & 0xffff | next << 16;           // big
        out[2 + i] = one >> 16 | next & 0xffff0000u;  // small
    }
}

// c += a @ b for 16 k.
template <int N, class Arithmetic>
__device__ void multiply(float (&c)[4], const unsigned (&a)[N][4], const unsigned (&b)[2 * N], Arithmetic) {
#pragma unroll
    for (int i = 0; i < N; ++i) Arithmetic::multiply(c, a[i], &b[2 * i]);
}

// The same number, of which the compiler knows nothing. 3xTF32 splits each weight in two; the compiler would do so before the
// first step and keep both parts of all weights, for which there are no registers.
__device__ inline unsigned as_new(unsigned x) {
#ifndef MINIGRAD_SIM
    asm volatile("" : "+r"(x));
#endif
    return x;
}

// The same for tensor cores: a block owns 16 MROWS rows for 8 EIGHTS sequences. mma reads W as (16, k) and h as (k, 8); in
// it a lane holds the rows lane / 4 and lane / 4 + 8 of W, sequence lane / 4 of h, and of every 16 k those that it counts
// as its own. Any order of k will do if both have the same, so a lane takes four neighbors: they come by one load.
struct Fragments {
    static constexpr int SEQUENCES = 8 * EIGHTS, BLOCK_ROWS = 16 * MROWS, UNITS = BLOCK_ROWS / GATES;
    static constexpr int STRIDE = BLOCK_ROWS + 4;  // a warp writes 4 x 8 sums at once: 4 more, and no two share a bank
    static constexpr int PARTIAL = SEQUENCES * STRIDE, HALVES = sizeof(Moved) / 2;  // mma of bfloat16 takes 16 k, of TF32 8
    // Groups of eight sequences that are multiplied at once: two share the work of splitting a weight.
    static constexpr int AT_ONCE = ARITHMETIC::PRODUCTS > 1 && EIGHTS > 1 ? 2 : 1;
    unsigned w[MROWS][K / 16][HALVES][4];

    static __device__ real one(const real* matrix, int row, int k, int hidden) {
        int gate = row / UNITS, unit = blockIdx.x * UNITS + row % UNITS;
        return gate < GATES && unit < hidden && k < hidden ? matrix[(gate * hidden + unit) * hidden + k] : 0;
    }

    __device__ void load(const real* matrix, int first, int hidden) {
        int row = threadIdx.x / 4, k = first + threadIdx.x % 4 * 4;
#pragma unroll
        for (int i = 0; i < MROWS * (K / 16) * 2; ++i) {
            int m = i / 2 / (K / 16), step = i / 2 % (K / 16), lower = i % 2;
            Four<Moved> four;
            unsigned out[2 * HALVES];
#pragma unroll
            for (int j = 0; j < 4; ++j) four.at[j] = one(matrix, 16 * m + row + 8 * lower, k + 16 * step + j, hidden);
            to_fragment(out, four);
#pragma unroll
            for (int j = 0; j < 2 * HALVES; ++j) w[m][step][j / 2][j % 2 * 2 + lower] = out[j];
        }
    }

    template <class Exchange>
    __device__ void multiply(const Exchange& exchange, int tick, int layer, real* shared, int first) const {
        int row = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
        const Moved* h = exchange.row(tick, layer, blockIdx.y * SEQUENCES + row) + first + threadIdx.x % 4 * 4;
        // All blocks need the same h at the same time, and each begins with another eight sequences: so they read from
        // other places of the L2 cache.
        int eight = blockIdx.x % EIGHTS;
        auto at = [=](int i) { return h + 8 * ((eight + i / (K / 16)) % EIGHTS) * exchange.width + 16 * (i % (K / 16)); };
        Four<Moved> next[AT_ONCE * (K / 16)];  // of the next sequences: on their way while these are multiplied
#pragma unroll
        for (int i = 0; i < AT_ONCE * (K / 16); ++i) next[i] = exchange.read(at(i));
#pragma unroll
        for (int n = 0; n < EIGHTS; n += AT_ONCE) {
            // [read h]
            unsigned b[AT_ONCE * (K / 16)][2 * HALVES];
#pragma unroll
            for (int i = 0; i < AT_ONCE * (K / 16); ++i) {
                to_fragment(b[i], next[i]);
                if (n + AT_ONCE < EIGHTS) next[i] = exchange.read(at((n + AT_ONCE) * (K / 16) + i));
            }
            // [products]
            float sums[AT_ONCE][MROWS][4] = {};
#pragma unroll
            for (int i = 0; i < K / 16 * MROWS; ++i) {
                int step = i / MROWS, m = i % MROWS;
                unsigned a[HALVES][4];
                for (int j = 0; j < 4 * HALVES; ++j) a[j / 4][j % 4] = as_new(w[m][step][j / 4][j % 4]);
#pragma unroll
                for (int one = 0; one < AT_ONCE; ++one) {
                    ::multiply(sums[one][m], a, b[one * (K / 16) + step], ARITHMETIC());
                }
            }
            // [partial sums]
#pragma unroll
            for (int i = 0; i < AT_ONCE * MROWS * 4; ++i) {
                int one = i / (MROWS * 4), m = i / 4 % MROWS, j = i % 4, s = 8 * ((eight + n + one) % EIGHTS) + pair;
                shared[threadIdx.y * PARTIAL + (s + j % 2) * STRIDE + row + 16 * m + j / 2 * 8] = sums[one][m][j];
            }
        }
    }
};

// The sequence by tensor cores: W_hh and h are rounded as the arithmetic does, and products are summed in float.
extern "C" __global__ void __launch_bounds__(THREADS) recurrent_persistent_tensor_cores(
    const real* projected, const real* w_ih, const real* b_ih, const real* w_hh, const real* b_hh, const int* lengths,
    real* h, real* c, real* y, unsigned* moved, unsigned* arrived, int steps, int backward, int batch, int hidden) {
    extern __shared__ real shared[];
    run_sequence<Fragments>(
        through_l2<Fragments, Moved>(moved, arrived), shared, projected, w_ih, b_ih, w_hh, b_hh, lengths, h, c, y, steps,
        backward, batch, hidden);
}
