// What it costs to meet: kernels whose threads do nothing else, `meetings` times.
#include "grid_barrier.cuh"

// The threads of a block.
extern "C" __global__ void meet_in_blocks(int meetings) {
    for (int i = 0; i < meetings; ++i) __syncthreads();
}

// All threads of the grid. arrived is 0 before the launch.
extern "C" __global__ void meet_in_the_grid(unsigned* arrived, int meetings) {
    for (int i = 1; i <= meetings; ++i) grid_barrier(arrived, gridDim.x, i);
}
