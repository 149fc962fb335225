// What it costs to meet in a cluster of 8 blocks: `meetings` times, all threads of all blocks.
#include "cluster_barrier.cuh"

extern "C" __global__ void __cluster_dims__(8, 1, 1) meet_in_clusters(int meetings) {
    for (int i = 0; i < meetings; ++i) cluster_barrier();
}
