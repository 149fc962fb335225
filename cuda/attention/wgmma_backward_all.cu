#include "attention/wgmma.cuh"

#ifndef GROUPS
#define GROUPS 3
#endif
constexpr int KEYS = 64 * (GROUPS - 1), QUERIES = 64, STAGES = 2, NUMBERS = 2 * QUERIES, EXPOSED = KEYS * QUERIES * 2;
using Own = Rows<KEYS>;
using Passing = Rows<QUERIES>;
using Passed = Ring<STAGES, 2 * Passing::SIZE, 128 * (GROUPS - 1)>;  // of q and dy

// The tiles of queries that pass by a block's keys: those of a head from the first that sees a key on, then of the next head.
struct Tiles {
    Lengths of;
    int shared, top, first, each, count;

    __device__ explicit Tiles(const Lengths& of) : of(of) {
        Place place(of.causal);
        shared = place.pair, top = place.block * KEYS, first = of.first(top) / QUERIES * QUERIES;
        each = max(0, (of.queries - first + QUERIES - 1) / QUERIES), count = each * of.group;
    }
    __device__ int pair(int number) const { return shared * of.group + number / each; }
    __device__ int start(int number) const { return first + number % each * QUERIES; }
};

// A warp brings the tiles, and two numbers of each query: its weights are p = 2^(unit q k - shift), with the maximum and the
// sum in one number, and ds = p (dp - dot). A query that is not there has weights of 0.
__device__ inline void copy_tiles(
    const Passed& ring, float* numbers, const Tiles& tiles, const TensorMap& q, const TensorMap& dy, const float* peaks,
    const float* inverses, const float* dots) {
    for (int number = 0; number < tiles.count; ++number) {
        int start = tiles.start(number), pair = tiles.pair(number);
        Barrier* full = ring.to_fill(number);
        if (lane() == 0) {
            barrier_expect(full, 2 * Passing::SIZE);
            Passing::copy(ring.tile(number), q, start, pair, full);
            Passing::copy(ring.tile(number) + Passing::SIZE, dy, start, pair, full);
        }
        for (int i = lane(); i < QUERIES; i += 32) {
            int at = pair * tiles.of.queries + start + i;
            bool inside = start + i < tiles.of.queries;
            float* to = numbers + number % STAGES * NUMBERS + i;
            to[0] = inside ? peaks[at] * LOG2_E - log2f(inverses[at]) : INFINITY, to[QUERIES] = inside ? dots[at] : 0;
        }
        barrier_arrive(full);
    }
}

// Writes a group's ds^T to shared memory as a factor of products: 128 bytes of queries a key, swizzled as the copy engine does.
__device__ inline void expose(unsigned char* to, int strip, const unsigned (&ds)[QUERIES / 16][4]) {
#pragma unroll
    for (int n = 0; n < QUERIES / 4; ++n) {
        int key = strip + row(n % 2), chunk = n / 2 ^ key % 8;
        *reinterpret_cast<unsigned*>(to + key * 128 + chunk * 16 + lane() % 4 * 4) = ds[n / 4][n % 4];
    }
    stores_ready();
}

// What a block adds to dq of a tile: ds k, summed over all its keys. group of warps -> its share of the columns. Without these
// additions the gradients of 4 x 16 heads, 4096 x 64, take 1.86 instead of 2.22 ms on an H100.
struct Dq {
    static constexpr int COLUMNS = WIDTH / (GROUPS - 1);
    float sum[COLUMNS / 2];
    int left = threadIdx.x / 128 * COLUMNS;

    __device__ void begin(const unsigned char* ds, const unsigned char* k_tile) {
        wgmma_fence(sum);
        wgmma<true, true, false>(sum, describe(ds, 0), Own::down(k_tile, 0, left));
#pragma unroll
        for (int i = 16; i < KEYS; i += 16) wgmma<true, true>(sum, describe(ds + i * 128, 0), Own::down(k_tile, i, left));
        wgmma_commit();
    }
    __device__ void add(float* dq, const Tiles& tiles, int number, float scale) {
        int start = tiles.start(number), queries = tiles.of.queries, width = tiles.of.width;
        float* to = dq + (tiles.pair(number) * queries + start) * width + left;
#pragma unroll
        for (int n = 0; n < COLUMNS / 2; n += 2) {
            int query = row(n / 2 % 2);
            Run<float, 2> run = {sum[n] * scale, sum[n + 1] * scale};
            if (start + query < queries) add_run(to + query * width, column(n / 4 * 2), width - left, run);
        }
    }
};

// What a group of warps holds of its 64 keys: the weights p and their gradients ds for a tile of queries, transposed, and the
// sums for dk and dv, of whose products they are the first factors.
struct Strip {
    const Lengths& of;
    int own, first;  // the first key, in all and in the block
    float unit, key_sum[WIDTH / 2] = {}, value_sum[WIDTH / 2] = {}, score[QUERIES / 2], slope[QUERIES / 2];
    unsigned p[QUERIES / 16][4], ds[QUERIES / 16][4];

    __device__ void begin(const unsigned char* k_tile, const unsigned char* v_tile, const unsigned char* q_tile) {
        begin_along<Own, Passing>(score, k_tile, first, q_tile);
        begin_along<Own, Passing>(slope, v_tile, first, q_tile + Passing::SIZE);
    }
    __device__ void hide(int start) {
        if (!of.hidden(start, own + 63)) return;
        each(score, [&](int i, int j, float& s) {
            if (of.hidden(start + column(j), own + row(i))) s = 0;
        });
    }
    __device__ void weigh(int start, const float* shift) {
        each(score, [&](int, int j, float& s) { s = power_of_two(s * unit - shift[column(j)]); });
        hide(start);
        pack(p, score);
    }
    __device__ void derive(int start, const float* dot) {
        each(score, [&](int i, int j, float& s) { s *= slope[j / 2 * 4 + i * 2 + j % 2] - dot[column(j)]; });
        hide(start);
        pack(ds, score);
    }
    __device__ void begin_sums(const unsigned char* q_tile) {
        begin_down<Passing>(value_sum, p, q_tile + Passing::SIZE);
        begin_down<Passing>(key_sum, ds, q_tile);
        wgmma_commit();
    }
};

// All gradients, as flash_backward_keys makes them. block -> KEYS keys of a head that `group` heads of q share; group of four
// warps -> 64 of them; a warp of the last group copies. Tiles of q and dy pass by. Only dq sums over all keys of a block:
// for that ds goes through shared memory, in two places in turns, so that one barrier a tile is enough.
extern "C" __global__ void __launch_bounds__(128 * GROUPS, GROUPS == 2 ? 2 : 1) attention_wgmma_bf16_backward_all(
    const __grid_constant__ TensorMap dy, const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
    const __grid_constant__ TensorMap v, const float* peaks, const float* inverses, const float* dots, float* dq, bfloat16* dk,
    bfloat16* dv, int* spoiled, float scale, int group, int queries, int keys, int width, int causal) {
    // [own]
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned char *k_tile = memory, *v_tile = k_tile + Own::SIZE, *exposed = v_tile + Own::SIZE;
    Passed ring(exposed + 2 * EXPOSED);
    Barrier* ready = ring.empty + STAGES;
    float* numbers = reinterpret_cast<float*>(ready + 1);
    Tiles tiles({group, queries, keys, width, causal});
    int first = threadIdx.x / 128 * 64, own = tiles.top + first, at = tiles.shared * keys * width;
    if (threadIdx.x == 0) barrier_init(ready, 1), ring.begin(1 + 32), barriers_ready();
    __syncthreads();
    if (first == KEYS) {
        give_registers<GROUPS == 2 ? 40 : 24>();
        if (threadIdx.x % 128 >= 32) return;
        if (lane() == 0) {
            barrier_expect(ready, 2 * Own::SIZE);
            Own::copy(k_tile, k, tiles.top, tiles.shared, ready), Own::copy(v_tile, v, tiles.top, tiles.shared, ready);
        }
        copy_tiles(ring, numbers, tiles, q, dy, peaks, inverses, dots);
        return;
    }
    take_registers<GROUPS == 2 ? 216 : 240>();
    Strip strip{tiles.of, own, first, scale * LOG2_E};
    Dq dq_sum;
    barrier_wait(ready, 0);
    for (int number = 0; number < tiles.count; ++number) {
        // [p, ds]
        const float* shift = numbers + number % STAGES * NUMBERS;
        unsigned char* ds = exposed + number % 2 * EXPOSED;
        ring.wait(number);
        strip.begin(k_tile, v_tile, ring.tile(number));
        wgmma_wait<1>(strip.score);
        strip.weigh(tiles.start(number), shift);  // while the other product goes on
        wgmma_wait<0>(strip.slope);
        strip.derive(tiles.start(number), shift + QUERIES);
        // [dv, dk, dq]
        strip.begin_sums(ring.tile(number));
        expose(ds, first, strip.ds);
        wgmma_wait<0>(strip.value_sum), wgmma_wait<0>(strip.key_sum);
        first_threads_meet<128 * (GROUPS - 1)>();
        ring.free(number);
        dq_sum.begin(ds, k_tile);
        wgmma_wait<0>(dq_sum.sum);
        dq_sum.add(dq, tiles, number, scale);
    }
    // [store]
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int key = own + row(i);
        if (key >= keys) continue;
        store(dk + at + key * width, strip.key_sum, i, width, scale, spoiled);
        store(dv + at + key * width, strip.value_sum, i, width, 1, spoiled);
    }
}
