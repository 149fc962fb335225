// A barrier of the blocks of a cluster, which a GPU of 2022 or later runs close together. The simulator has no clusters.
#pragma once

// [cluster barrier]
// Release: what a block has written is visible before its arrival is. Acquire: what it reads afterwards is not older.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline void cluster_barrier() { cluster_arrive(), cluster_wait(); }
