#include "common.cuh"

// A hash: a change of one bit of h changes all bits of the result.
__device__ unsigned hashed(unsigned h) {
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

// x[i] = a random number from low to high.
extern "C" __global__ void spread(real* x, real low, real high, int seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = low + (high - low) * ((hashed(i + 77777u * seed) >> 8) * real(0x1p-24));
}

// x[i] = a random integer, low <= x[i] < high.
extern "C" __global__ void spread_whole(int* x, int low, int high, int seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = low + (int)(hashed(i + 77777u * seed) % (unsigned)(high - low));
}
