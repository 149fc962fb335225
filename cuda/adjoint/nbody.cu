#include "common.cuh"

#ifndef TILE
#define TILE 64
#endif

// a_i = sum over j of (p_j - p_i) / (|p_j - p_i|^2 + softening)^(3/2), bodies of mass 1; p is x, y, z of each body.
// thread -> one body; block -> TILE of them; each row of blocks -> a cloud of n bodies that pull only each other.
// A block's cloud passes by in tiles of TILE through shared memory.
extern "C" __global__ void nbody(const real* p, real softening, real* a, int n) {
    __shared__ real tile[TILE][3];
    int t = threadIdx.x, i = blockIdx.x * TILE + t, cloud = blockIdx.y * n;
    real x = 0, y = 0, z = 0, ax = 0, ay = 0, az = 0;
    if (i < n) {
        x = p[3 * (cloud + i)];
        y = p[3 * (cloud + i) + 1];
        z = p[3 * (cloud + i) + 2];
    }
    for (int start = 0; start < n; start += TILE) {
        // [load tile]
        for (int c = 0; c < 3; ++c) {
            tile[t][c] = start + t < n ? p[3 * (cloud + start + t) + c] : 0;
        }
        __syncthreads();
        // [attract]
        for (int j = 0; j < TILE; ++j) {
            if (start + j < n) {
                real dx = tile[j][0] - x, dy = tile[j][1] - y, dz = tile[j][2] - z;
                real r = rsqrt(dx * dx + dy * dy + dz * dz + softening);
                real pull = r * r * r;
                ax += pull * dx;
                ay += pull * dy;
                az += pull * dz;
            }
        }
        __syncthreads();
    }
    // [store]
    if (i < n) {
        a[3 * (cloud + i)] = ax;
        a[3 * (cloud + i) + 1] = ay;
        a[3 * (cloud + i) + 2] = az;
    }
}
