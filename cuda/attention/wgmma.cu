#include "attention/wgmma.cuh"

#ifndef GROUPS
#define GROUPS 3
#endif
#ifndef PLACES
#define PLACES 4
#endif
constexpr int KEYS = 128, ROWS = 64 * (GROUPS - 1);

// y = softmax(scale q k^T) v. block -> ROWS queries of a pair; group of four warps -> 64 of them. A thread of the last
// group feeds the copy engine: keys and values pass by in a ring, 128 of them in a tile. Products run while the warps do other work:
// those for the scores of the next tile and those with the values of this one are begun together, and while the second ones
// go on, the softmax of the next tile is made. Scores never leave registers: they are the first factor of the next product.
extern "C" __global__ void __launch_bounds__(128 * GROUPS, 1) attention_wgmma_bf16(
    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v, bfloat16* y,
    float* peaks, float* inverses, int* spoiled, float scale, int group, int queries, int keys, int width, int causal) {
    // [own]
    using Own = Rows<ROWS>;
    using Passing = Rows<KEYS>;
    extern __shared__ __align__(1024) unsigned char memory[];
    Ring<PLACES, Passing::SIZE, GROUPS - 1> ring(memory + Own::SIZE);
    Barrier* ready = ring.empty + PLACES;
    Lengths of{group, queries, keys, width, causal};
    Place place(causal);
    int pair = place.pair, top = (gridDim.x - 1 - place.block) * ROWS, strip = threadIdx.x / 128 * 64, own = top + strip;
    int tiles = max(1, (of.seen(top + ROWS) + KEYS - 1) / KEYS);
    if (threadIdx.x == 0) barrier_init(ready, 1), ring.begin(1), barriers_ready();
    __syncthreads();
    // [copy]
    if (strip == ROWS) {
        give_registers<24>();
        if (threadIdx.x % 128 > 0) return;
        barrier_expect(ready, Own::SIZE);
        Own::copy(memory, q, top, pair, ready);
        for (int turn = 0; turn < 2 * tiles; ++turn) {
            Barrier* full = ring.to_fill(turn);
            barrier_expect(full, Passing::SIZE);
            Passing::copy(ring.tile(turn), turn % 2 ? v : k, turn / 2 * KEYS, pair / group, full);
        }
        return;
    }
    take_registers<GROUPS == 3 ? 240 : 160>();
    // [weights] of the first tile
    float score[KEYS / 2], sum[WIDTH / 2] = {};
    unsigned weights[KEYS / 16][4];
    Softmax softmax(scale);
    auto begin_scores = [&](int tile) {
        ring.wait(2 * tile);
        begin_along<Own, Passing>(score, memory, strip, ring.tile(2 * tile));
    };
    auto weigh = [&](int tile) {
        ring.free(2 * tile);
        if (of.hidden(own, tile * KEYS + KEYS - 1)) {
            each(score, [&](int i, int j, float& s) {
                if (of.hidden(own + row(i), tile * KEYS + column(j))) s = -INFINITY;
            });
        }
        return softmax.weigh(score);
    };
    auto begin_sums = [&](int tile) {
        ring.wait(2 * tile + 1);
        begin_down<Passing>(sum, weights, ring.tile(2 * tile + 1));
        wgmma_commit();
    };
    barrier_wait(ready, 0);
    begin_scores(0);
    wgmma_wait<0>(score);
    weigh(0);
    pack(weights, score);
    for (int tile = 1; tile < tiles; ++tile) {
        // [multiply]
        begin_scores(tile);
        begin_sums(tile - 1);
        wgmma_wait<1>(score);
        // [softmax] while the products with the values go on
        bool grows = weigh(tile);
        wgmma_wait<0>(sum);
        ring.free(2 * tile - 1);
        if (grows) each(sum, [&](int i, int, float& x) { x *= softmax.kept[i]; });
        pack(weights, score);
    }
    begin_sums(tiles - 1);
    wgmma_wait<0>(sum);
    // [store]
    softmax.finish();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int query = own + row(i), at = pair * queries + query;
        if (query >= queries) continue;
        store(y + at * width, sum, i, width, softmax.inverse(i), spoiled);
        if (lane() % 4 == 0) peaks[at] = softmax.peak(i), inverses[at] = softmax.weight(i);
    }
}
