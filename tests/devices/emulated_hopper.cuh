// The functions of cuda/matmul/hopper.cuh in CUDA C++, so that the kernels that call them run on the simulator. What is
// asynchronous on a GPU is done at once here; the layouts, with the swizzle, are those of NVIDIA's PTX manual.
#pragma once
#include "common.cuh"

typedef unsigned long long Barrier;  // arrivals that are missing, how many there are in a phase, its parity: 16 bits each
typedef unsigned long long Tile;     // an address, and above it the distance to the next 128 bytes of a row
// Address, bytes of an element, room for the stages; then matrices, rows, columns; of a box, too. Of images: images, rows,
// columns, channels; pixels of a copy; the window's first row and column, its last ones, its strides.
struct TensorMap {
    unsigned long long word[3];
    long long of[13];
};

__device__ inline void barrier_init(Barrier* barrier, int count) { *barrier = (Barrier)count << 16 | count; }
__device__ inline volatile int* counters() {
    __shared__ int both[8];  // of the threads of each group that are here, and of their meetings; the same of several
    return both;
}
__device__ inline void barriers_ready() {
    for (int i = 0; i < 8; ++i) counters()[i] = 0;
}
__device__ inline void barrier_arrive(Barrier* barrier) {
    if ((--*barrier & 0xffff) == 0) *barrier = (*barrier ^ 1ull << 32) | (*barrier >> 16 & 0xffff);
}
__device__ inline void barrier_expect(Barrier* barrier, int) { barrier_arrive(barrier); }
__device__ inline void barrier_wait(Barrier* barrier, int parity) {
    while ((*(volatile Barrier*)barrier >> 32 & 1) == parity) __nanosleep(0);
}

__device__ inline unsigned long long swizzled(unsigned long long address) { return address ^ (address >> 7 & 7) << 4; }

// Copies 128 bytes; floats are rounded to TF32.
__device__ inline void copy_row(void* to, const TensorMap* map, long long from, int present) {
    for (int i = 0; i < 128; i += 4) {
        bool inside = i < present * (int)map->word[1];
        unsigned bits = inside ? *(const unsigned*)(map->word[0] + from * map->word[1] + i) : 0;
        if (map->word[1] == 4) bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
        *(unsigned*)swizzled((unsigned long long)to + i) = bits;
    }
}
__device__ inline void copy_box(void* to, const TensorMap* map, int x, int y, int z, Barrier*) {
    const long long* of = map->of;
    for (int i = 0; i < of[4]; ++i) {
        bool inside = z < of[0] && y + i < of[1];
        copy_row((char*)to + i * 128, map, (z * of[1] + y + i) * of[2] + x, inside ? max((int)of[2] - x, 0) : 0);
    }
}
__device__ inline void copy_pixels(
    void* to, const TensorMap* map, int c, int v, int h, int n, int across, int down, Barrier*) {
    const long long *of = map->of, *first = of + 5, *last = of + 7, *stride = of + 9;
    for (int i = 0; i < of[4]; ++i) {
        bool inside = n < of[0] && 0 <= h + down && h + down < of[1] && 0 <= v + across && v + across < of[2];
        long long pixel = (n * of[1] + h + down) * of[2] + v + across;
        copy_row((char*)to + i * 128, map, inside ? pixel * of[3] + c : 0, inside ? of[3] - c : 0);
        v += stride[1];
        if (v > of[2] - 1 + last[1]) v = first[1], h += stride[0];
        if (h > of[1] - 1 + last[0]) h = first[0], ++n;
    }
}

__device__ inline Tile describe(const void* tile, int next) { return (Tile)tile | (Tile)next << 48; }
__device__ inline float number(Tile tile, bool turned, int extent, int k) {
    unsigned long long start = tile & (1ull << 48) - 1, next = tile >> 48;
    unsigned long long along = start + extent / 8 * 1024 + extent % 8 * 128 + k * 2;
    unsigned long long down = start + extent / 64 * next + k / 8 * 1024 + k % 8 * 128 + extent % 64 * 2;
    return *(const bfloat16*)swizzled(turned ? down : along);
}

// Waits for the four warps of the group.
__device__ inline void together() {
    volatile int *here = counters() + threadIdx.x / 128, *round = here + 3;
    int now = *round;
    if (++*here == 128) *here = 0, ++*round;
    while (*round == now) __nanosleep(0);
}
template <int N>
__device__ void wgmma_fence(float (&)[N]) {}
__device__ inline void wgmma_commit() {}
template <int PENDING, int N>
__device__ void wgmma_wait(float (&)[N]) { together(); }
__device__ inline void stores_ready() {}
template <int COUNT>
__device__ void give_registers() {}
template <int COUNT>
__device__ void take_registers() {}
template <int COUNT>
__device__ void first_threads_meet() {
    volatile int *here = counters() + 6, *round = here + 1;
    int now = *round;
    if (++*here == COUNT) *here = 0, ++*round;
    while (*round == now) __nanosleep(0);
}

template <bool ADD = true, int N, class Number>
__device__ void multiplied(float (&c)[N], int depth, Number number) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
    for (int i = 0; i < N; ++i) {
        int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (!ADD) c[i] = 0;
        for (int k = 0; k < depth; ++k) c[i] += number(true, row + i / 2 % 2 * 8, k) * number(false, column, k);
    }
}
template <bool A_TURNED, bool B_TURNED, bool ADD = true, int N>
__device__ void wgmma(float (&c)[N], Tile a, Tile b) {
    multiplied<ADD>(c, 16, [=](bool left, int extent, int k) {
        return left ? number(a, A_TURNED, extent, k) : number(b, B_TURNED, extent, k);
    });
}
// The first factor is in the registers of the four lanes that share two rows.
template <bool B_TURNED, bool ADD = true, int N>
__device__ void wgmma(float (&c)[N], const unsigned (&a)[4], Tile b) {
    unsigned all[4][4];
    for (int i = 0; i < 16; ++i) all[i / 4][i % 4] = __shfl_sync(~0u, a[i % 4], threadIdx.x % 32 / 4 * 4 + i / 4);
    int first = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    multiplied<ADD>(c, 16, [&](bool left, int extent, int k) {
        if (!left) return number(b, B_TURNED, extent, k);
        unsigned pair = all[k % 8 / 2][k / 8 * 2 + (extent - first) / 8];
        return __uint_as_float(k % 2 ? pair & 0xffff0000 : pair << 16);
    });
}
template <int N>
__device__ void wgmma_tf32(float (&c)[N], Tile a, Tile b) {
    multiplied(c, 8, [=](bool left, int extent, int k) {
        unsigned long long start = (left ? a : b) & (1ull << 48) - 1;
        return *(const float*)swizzled(start + extent / 8 * 1024 + extent % 8 * 128 + k * 4);
    });
}

__device__ inline unsigned to_bf16(float first, float second) {
    unsigned both = 0;
    for (int i = 0; i < 2; ++i) both |= bfloat16(i ? second : first).bits << 16 * i;
    return both;
}

// Element (row, column) of the 8 x 8 matrix is half column % 2 of lane row * 4 + column / 2.
__device__ inline unsigned transposed(unsigned pair) {
    unsigned lane = threadIdx.x % 32, row = lane % 4 * 2, column = lane / 4, both = 0;
    for (int i = 0; i < 2; ++i) {
        unsigned other = __shfl_sync(~0u, pair, (row + i) * 4 + column / 2);
        both |= (other >> column % 2 * 16 & 0xffff) << i * 16;
    }
    return both;
}
