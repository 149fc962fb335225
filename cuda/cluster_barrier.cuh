// A barrier of the blocks of a cluster, which a GPU of 2022 or later runs close together. The simulator has no clusters.
#pragma once

#ifndef MINIGRAD_SIM
// [cluster barrier]
// Release: what a block has written is visible before its arrival is. Acquire: what it reads afterwards is not older.
__device__ inline void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
#endif
