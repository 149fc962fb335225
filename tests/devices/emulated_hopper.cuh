// The functions of cuda/matmul/hopper.cuh in CUDA C++, so that the kernels that call them run on the simulator. What is
// asynchronous on a GPU is done at once here; the layouts, with the swizzle, are those of NVIDIA's PTX manual.
#pragma once
#include "common.cuh"

typedef unsigned long long Barrier;  // arrivals that are missing, how many there are in a phase, its parity: 16 bits each
typedef unsigned long long Tile;     // an address, and above it the distance to the next 128 bytes of a row
struct TensorMap { unsigned long long word[16]; };  // address; matrices, rows, columns; of a box, too; room for the stages

__device__ inline void barrier_init(Barrier* barrier, int count) { *barrier = (Barrier)count << 16 | count; }
__device__ inline volatile int* counters() {
    __shared__ int both[6];  // of the threads of each group that are here, and of their meetings
    return both;
}
__device__ inline void barriers_ready() {
    for (int i = 0; i < 6; ++i) counters()[i] = 0;
}
__device__ inline void barrier_arrive(Barrier* barrier) {
    if ((--*barrier & 0xffff) == 0) *barrier = (*barrier ^ 1ull << 32) | (*barrier >> 16 & 0xffff);
}
__device__ inline void barrier_expect(Barrier* barrier, int) { barrier_arrive(barrier); }
__device__ inline void barrier_wait(Barrier* barrier, int parity) {
    while ((*(volatile Barrier*)barrier >> 32 & 1) == parity) __nanosleep(0);
}

__device__ inline unsigned long long swizzled(unsigned long long address) { return address ^ (address >> 7 & 7) << 4; }

__device__ inline void copy_box(void* to, const TensorMap* map, int x, int y, int z, Barrier*) {
    const unsigned long long* w = map->word;
    for (int i = 0; i < w[5]; ++i) {
        for (int j = 0; j < w[6]; ++j) {
            bool inside = z < w[1] && y + i < w[2] && x + j < w[3];
            bfloat16 number = inside ? ((const bfloat16*)w[0])[(z * w[2] + y + i) * w[3] + x + j] : bfloat16(0);
            *(bfloat16*)swizzled((unsigned long long)to + i * 128 + j * 2) = number;
        }
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
__device__ inline void wgmma_fence(float (&)[128]) {}
__device__ inline void wgmma_commit() {}
template <int PENDING>
__device__ void wgmma_wait(float (&)[128]) { together(); }

template <bool A_TURNED, bool B_TURNED>
__device__ void wgmma(float (&c)[128], Tile a, Tile b) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane / 4;
    for (int i = 0; i < 128; ++i) {
        for (int k = 0; k < 16; ++k) {
            c[i] += number(a, A_TURNED, row + i / 2 % 2 * 8, k) * number(b, B_TURNED, i / 4 * 8 + lane % 4 * 2 + i % 2, k);
        }
    }
}

__device__ inline unsigned to_bf16(float first, float second) {
    unsigned both = 0;
    for (int i = 0; i < 2; ++i) both |= bfloat16(i ? second : first).bits << 16 * i;
    return both;
}
