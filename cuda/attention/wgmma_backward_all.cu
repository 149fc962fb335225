#include "attention/wgmma.cuh"

#ifndef LATE
#define LATE (WIDTH == 64)
#endif
#ifndef STAGES
#define STAGES 2
#endif
constexpr int KEYS = 128, QUERIES = 64, NUMBERS = 2 * QUERIES, SHARE = QUERIES * 128 * 2;

// All gradients, as flash_backward_keys makes them. block -> KEYS keys of a head that `group` heads of q share; group of four
// warps -> 64 of them, and half of the columns of dq. Tiles of q and dy pass by, with two numbers for each query. The scores
// (q k^T)^T and their gradients ds stay in registers, as first factors of dv and dk. Only dq = ds k sums over the keys of
// both groups: ds goes through shared memory, in two places, so that one barrier for a tile is enough.
extern "C" __global__ void __launch_bounds__(384, 1) attention_wgmma_bf16_backward_all(
    const __grid_constant__ TensorMap dy, const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
    const __grid_constant__ TensorMap v, const float* peaks, const float* inverses, const float* dots, float* dq, bfloat16* dk,
    bfloat16* dv, int* spoiled, float scale, int group, int queries, int keys, int width, int causal) {
    // [own]
    using Own = Rows<KEYS>;
    using Passing = Rows<QUERIES>;
    extern __shared__ __align__(1024) unsigned char memory[];
    unsigned char *k_tile = memory, *v_tile = k_tile + Own::SIZE, *exposed = v_tile + Own::SIZE;
    Ring<STAGES, 2 * Passing::SIZE, 2> ring(exposed + 2 * SHARE);
    Barrier* ready = ring.empty + STAGES;
    float* numbers = reinterpret_cast<float*>(ready + 1);
    Lengths of{group, queries, keys, width, causal};
    Place place(causal);
    int shared = place.pair, top = place.block * KEYS, strip = threadIdx.x / 128 * 64, own = top + strip;
    int first = of.first(top) / QUERIES * QUERIES, tiles = max(0, (queries - first + QUERIES - 1) / QUERIES);
    int count = tiles * group;
    if (threadIdx.x == 0) barrier_init(ready, 1), ring.begin(2), barriers_ready();
    __syncthreads();
    // [copy]
    if (strip == KEYS) {
        give_registers<24>();
        if (threadIdx.x >= 288) return;
        if (lane() == 0) {
            barrier_expect(ready, 2 * Own::SIZE);
            Own::copy(k_tile, k, top, shared, ready), Own::copy(v_tile, v, top, shared, ready);
        }
        for (int number = 0; number < count; ++number) {
            int start = first + number % tiles * QUERIES, pair = shared * group + number / tiles;
            Barrier* full = ring.to_fill(number);
            if (lane() == 0) {
                barrier_expect(full, 2 * Passing::SIZE);
                Passing::copy(ring.tile(number), q, start, pair, full);
                Passing::copy(ring.tile(number) + Passing::SIZE, dy, start, pair, full);
            }
            // p = 2^(unit q k - shift), shift = log2 of what divides the weights; of queries that are not there p = 0
            for (int i = lane(); i < QUERIES; i += 32) {
                int at = pair * queries + start + i;
                bool inside = start + i < queries;
                float* to = numbers + number % STAGES * NUMBERS + i;
                to[0] = inside ? peaks[at] * LOG2_E - log2f(inverses[at]) : INFINITY, to[QUERIES] = inside ? dots[at] : 0;
            }
            __syncwarp();
            if (lane() == 0) barrier_arrive(full);
        }
        return;
    }
    take_registers<240>();
    float unit = scale * LOG2_E, key_sum[WIDTH / 2] = {}, value_sum[WIDTH / 2] = {}, dq_sum[WIDTH / 4];
    auto begin_dq = [&](int number) {
        const unsigned char* ds = exposed + (number & 1) * SHARE;
        wgmma_fence(dq_sum);
#pragma unroll
        for (int i = 0; i < KEYS; i += 16) {
            Tile a = describe(ds + i * 128, 0), b = Own::down(k_tile, i, threadIdx.x / 128 * (WIDTH / 2));
            if (i == 0) wgmma<true, true, false>(dq_sum, a, b);
            else wgmma<true, true>(dq_sum, a, b);
        }
    };
    auto add_dq = [&](int number) {
        int start = first + number % tiles * QUERIES, left = threadIdx.x / 128 * (WIDTH / 2);
        float* to = dq + ((shared * group + number / tiles) * queries + start) * width + left;
#pragma unroll
        for (int n = 0; n < WIDTH / 4; n += 2) {
            int query = row(n / 2 % 2);
            Run<float, 2> run = {dq_sum[n] * scale, dq_sum[n + 1] * scale};
            if (start + query < queries) add_run(to + query * width, column(n / 4 * 2), width - left, run);
        }
    };
    barrier_wait(ready, 0);
    for (int number = 0; number < count; ++number) {
        // [scores] and the gradient of weights, p and dp
        const unsigned char *q_tile = ring.tile(number), *dy_tile = q_tile + Passing::SIZE;
        const float *shift = numbers + number % STAGES * NUMBERS, *dot = shift + QUERIES;
        int start = first + number % tiles * QUERIES;
        bool some = of.hidden(start, own + 63);
        float score[QUERIES / 2], slope[QUERIES / 2];
        unsigned p[QUERIES / 16][4], ds[QUERIES / 16][4];
        ring.wait(number);
        begin_along<Own, Passing>(score, k_tile, strip, q_tile);
        begin_along<Own, Passing>(slope, v_tile, strip, dy_tile);
        if (LATE) begin_dq(number - 1), wgmma_commit();  // of the tile before; at first it is not used
        wgmma_wait<1 + LATE>(score);
        each(score, [&](int i, int j, float& s) {
            s = power_of_two(s * unit - shift[column(j)]);
            if (some && of.hidden(start + column(j), own + row(i))) s = 0;
        });
        pack(p, score);
        wgmma_wait<LATE>(slope);
        each(score, [&](int i, int j, float& s) {
            s *= slope[j / 2 * 4 + i * 2 + j % 2] - dot[column(j)];
            if (some && of.hidden(start + column(j), own + row(i))) s = 0;
        });
        pack(ds, score);
        // [dv, dk]
        begin_down<Passing>(value_sum, p, dy_tile);
        begin_down<Passing>(key_sum, ds, q_tile);
        wgmma_commit();
        // [ds]
#pragma unroll
        for (int n = 0; n < QUERIES / 4; ++n) {
            int key = strip + row(n % 2), chunk = n / 2 ^ key % 8;
            *reinterpret_cast<unsigned*>(exposed + (number & 1) * SHARE + key * 128 + chunk * 16 + lane() % 4 * 4) = ds[n / 4][n % 4];
        }
        stores_ready();
        if (LATE) {
            wgmma_wait<1>(dq_sum);
            if (number > 0) add_dq(number - 1);
        }
        wgmma_wait<0>(value_sum), wgmma_wait<0>(key_sum);
        first_threads_meet<256>();
        ring.free(number);
        if (!LATE) begin_dq(number), wgmma_commit(), wgmma_wait<0>(dq_sum), add_dq(number);
    }
    if (LATE && count > 0) begin_dq(count - 1), wgmma_commit(), wgmma_wait<0>(dq_sum), add_dq(count - 1);
    // [store]
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        int key = own + row(i);
        if (key >= keys) continue;
        store(dk + (shared * keys + key) * width, key_sum, i, width, scale, spoiled);
        store(dv + (shared * keys + key) * width, value_sum, i, width, 1, spoiled);
    }
}
