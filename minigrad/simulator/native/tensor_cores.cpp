// Tensor cores: what the last lane of a warp does with the registers of all, in the layouts of NVIDIA's PTX manual.
//
// A register holds one TF32 or two bfloat16, neighbors in the direction of the sum; counted in registers the layouts are
// the same. Lane 4 r + w holds of the first factor, 16 x 8, the element (r, w), the one 8 rows below it, and the two that
// lie 4 to the right of these; of the second factor, 8 x 8 and stored by columns, the elements w and w + 4 of column r;
// of the sum, 16 x 8, two neighbors in row r from column 2 w on, and the two 8 rows below these.
#include <string.h>

#include "runtime.h"

namespace minigrad {

typedef float Row __attribute__((vector_size(32)));  // of the sum

static const Fragments& fragments(uint64_t value) { return *reinterpret_cast<const Fragments*>(value); }

static void need_whole_warp(const uint64_t* lane, unsigned lanes) {
    if (lanes == ~0u) return;
    const Site& site = *fragments(lane[__builtin_ctz(lanes)]).site;
    fail(DIVERGENCE, site.file, site.line, "%s takes the 32 lanes of a warp, and %d have returned or do not exist",
         site.what, __builtin_popcount(~lanes));
}

static float number(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// One of the TERMS numbers in a register. Of a TF32 the tensor core ignores the last 13 bits.
template <int TERMS>
static float term(unsigned bits, int i) {
    return number(TERMS == 1 ? bits & ~0x1fffu : i ? bits & 0xffff0000 : bits << 16);
}

template <int TERMS>
static void multiply(const uint64_t* lane) {
    constexpr int DEPTH = 8 * TERMS;
    float a[16][DEPTH], c[16][8];
    Row b[DEPTH];
    for (unsigned i = 0; i < WARP; ++i) {
        const Fragments& own = fragments(lane[i]);
        unsigned r = i / 4, w = i % 4;
        for (int t = 0; t < TERMS; ++t) {
            for (int j = 0; j < 4; ++j) a[r + j % 2 * 8][(w + j / 2 * 4) * TERMS + t] = term<TERMS>(own.first[j], t);
            for (int j = 0; j < 2; ++j) b[(w + j * 4) * TERMS + t][r] = term<TERMS>(own.second[j], t);
        }
        for (int j = 0; j < 2; ++j) memcpy(&c[r + 8 * j][2 * w], static_cast<float*>(own.result) + 2 * j, 8);
    }
    for (int r = 0; r < 16; ++r) {
        Row sum;
        memcpy(&sum, c[r], sizeof sum);
        for (int k = 0; k < DEPTH; ++k) sum += a[r][k] * b[k];
        memcpy(c[r], &sum, sizeof sum);
    }
    for (unsigned i = 0; i < WARP; ++i)
        for (int j = 0; j < 2; ++j)
            memcpy(static_cast<float*>(fragments(lane[i]).result) + 2 * j, &c[i / 4 + 8 * j][i % 4 * 2], 8);
}

// Lane 4 r + w gets the elements 2 w and 2 w + 1 of row r of each matrix, or of its column r.
template <bool TRANSPOSED>
static void load(const uint64_t* lane) {
    uint16_t rows[WARP][8];
    for (unsigned i = 0; i < WARP; ++i) memcpy(rows[i], fragments(lane[i]).first, sizeof rows[i]);
    for (unsigned i = 0; i < WARP; ++i) {
        unsigned r = i / 4, w = i % 4, *own = static_cast<unsigned*>(fragments(lane[i]).result);
        for (int j = 0; j < 4; ++j) {
            const uint16_t(*matrix)[8] = rows + 8 * j;
            uint32_t low = TRANSPOSED ? matrix[2 * w][r] : matrix[r][2 * w];
            uint32_t high = TRANSPOSED ? matrix[2 * w + 1][r] : matrix[r][2 * w + 1];
            own[j] = low | high << 16;
        }
    }
}

}  // namespace minigrad

using namespace minigrad;

#define MINIGRAD_FRAGMENTS(name, work)                                          \
    MINIGRAD_EXPORT void name(uint64_t* lane, const unsigned*, unsigned lanes) { \
        need_whole_warp(lane, lanes);                                           \
        work(lane);                                                             \
    }
MINIGRAD_FRAGMENTS(minigrad_load_matrices, load<false>)
MINIGRAD_FRAGMENTS(minigrad_load_transposed, load<true>)
MINIGRAD_FRAGMENTS(minigrad_mma_tf32, multiply<1>)
MINIGRAD_FRAGMENTS(minigrad_mma_bf16, multiply<2>)
