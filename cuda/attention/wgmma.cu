#include "attention/wgmma.cuh"

#ifndef GROUPS
#define GROUPS 2
#endif
constexpr int KEYS = 128, ROWS = 64 * (GROUPS - 1), PLACES = 4;
using Own = Rows<ROWS>;
using Passing = Rows<KEYS>;
using Tiles = Ring<PLACES, Passing::SIZE, GROUPS - 1>;  // keys and values in turns

// What a group of warps holds of its 64 queries: scores for a tile of keys, which become weights and the first factor of the
// next product without leaving the registers, and the sums for y.
struct Strip {
    const Lengths& of;
    const Tiles& tiles;
    const unsigned char* q_tile;
    int own, first;  // the first query, in all and in the block
    Softmax softmax;
    float score[KEYS / 2], sum[WIDTH / 2] = {};
    unsigned weights[KEYS / 16][4];

    __device__ void begin_scores(int tile) {
        tiles.wait(2 * tile);
        begin_along<Own, Passing>(score, q_tile, first, tiles.tile(2 * tile));
    }
    __device__ void begin_sums(int tile) {
        tiles.wait(2 * tile + 1);
        begin_down<Passing>(sum, weights, tiles.tile(2 * tile + 1));
        wgmma_commit();
    }
    // Scores become numbers whose sum is the softmax's; true if the sums before count less now.
    __device__ bool weigh(int tile) {
        int start = tile * KEYS;
        if (threadIdx.x % 128 == 0) tiles.free(2 * tile);
        if (of.hidden(own, start + KEYS - 1)) {
            each(score, [&](int i, int j, float& s) {
                if (of.hidden(own + row(i), start + column(j))) s = -INFINITY;
            });
        }
        return softmax.weigh(score);
    }
    __device__ void rescale(int tile, bool grows) {
        if (threadIdx.x % 128 == 0) tiles.free(2 * tile + 1);
        if (grows) each(sum, [&](int i, int, float& x) { x *= softmax.kept[i]; });
    }
};

// y = softmax(scale q k^T) v. block -> ROWS queries of a pair; group of four warps -> 64 of them. A thread of the last group
// feeds the copy engine: tiles of keys and values pass by in a ring. The products for a tile's scores and those with the
// values of the one before are begun together, and while the second ones go on, the softmax of the tile is made.
extern "C" __global__ void __launch_bounds__(128 * GROUPS, GROUPS == 2 ? 2 : 1) attention_wgmma_bf16(
    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v, bfloat16* y,
    float* peaks, float* inverses, int* spoiled, float scale, int group, int queries, int keys, int width, int causal,
    int heads) {
    // [own]
    extern __shared__ __align__(1024) unsigned char memory[];
    Tiles ring(memory + Own::SIZE);
    Barrier* ready = ring.empty + PLACES;
    Lengths of{group, queries, keys, width, causal};
    Place place(causal);
    int pair = place.pair, top = (gridDim.x - 1 - place.block) * ROWS, first = threadIdx.x / 128 * 64;
    int tiles = max(1, (of.seen(top + ROWS) + KEYS - 1) / KEYS);
    if (threadIdx.x == 0) barrier_init(ready, 1), ring.begin(1), barriers_ready();
    __syncthreads();
    // [copy]
    if (first == ROWS) {
        give_registers<GROUPS == 2 ? 40 : 24>();
        if (threadIdx.x % 128 > 0) return;
        barrier_expect(ready, Own::SIZE), Own::copy(memory, q, top, pair, ready);
        for (int turn = 0; turn < 2 * tiles; ++turn) {
            Barrier* full = ring.to_fill(turn);
            barrier_expect(full, Passing::SIZE);
            Passing::copy(ring.tile(turn), turn % 2 ? v : k, turn / 2 * KEYS, pair / group, full);
        }
        return;
    }
    take_registers<GROUPS == 2 ? 216 : 240>();
    // [first tile]
    Strip strip{of, ring, memory, top + first, first, Softmax(scale)};
    barrier_wait(ready, 0);
    strip.begin_scores(0);
    wgmma_wait<0>(strip.score);
    strip.weigh(0);
    pack(strip.weights, strip.score);
    for (int tile = 1; tile < tiles; ++tile) {
        // [multiply]
        strip.begin_scores(tile);
        strip.begin_sums(tile - 1);
        wgmma_wait<1>(strip.score);
        // [softmax] while the products with the values go on
        bool grows = strip.weigh(tile);
        wgmma_wait<0>(strip.sum);
        strip.rescale(tile - 1, grows);
        pack(strip.weights, strip.score);
    }
    strip.begin_sums(tiles - 1);
    wgmma_wait<0>(strip.sum);
    // [store]
    strip.softmax.finish();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int query = top + first + row(i), at = pair * queries + query, token = pair / heads * queries + query;
        if (query >= queries) continue;
        store(y + (token * heads + pair % heads) * width, strip.sum, i, width, strip.softmax.inverse(i), spoiled);
        if (lane() % 4 == 0) peaks[at] = strip.softmax.peak(i), inverses[at] = strip.softmax.weight(i);
    }
}
