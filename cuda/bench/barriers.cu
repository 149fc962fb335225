// What it costs to meet: kernels whose threads do nothing else, `meetings` times.
#include "cluster_barrier.cuh"
#include "grid_barrier.cuh"

// The threads of a block.
extern "C" __global__ void meet_in_blocks(int meetings) {
    for (int i = 0; i < meetings; ++i) __syncthreads();
}

// All threads of the grid. arrived is 0 before the launch.
extern "C" __global__ void meet_in_the_grid(unsigned* arrived, int meetings) {
    for (int i = 1; i <= meetings; ++i) grid_barrier(arrived, gridDim.x, i);
}

// All threads of a cluster of 8 blocks.
#ifndef MINIGRAD_SIM
extern "C" __global__ void __cluster_dims__(8, 1, 1) meet_in_clusters(int meetings) {
    for (int i = 0; i < meetings; ++i) cluster_barrier();
}
#endif
