// A barrier of several blocks over a counter in global memory. The kernel is launched cooperatively, with all its blocks
// at once: one that had no place on the GPU yet would never arrive, and those that had would wait for it forever.
#pragma once

// [grid barrier]
// All threads of `blocks` blocks meet for the step-th time, counted from 1: what any of them has written before, all may
// read afterwards. The counter begins at 0 and only grows, to blocks x step: if it were set back, a slow block could
// miss that it had been full, and wait forever. Each block calls these functions with all its threads.
//
// Release: the fence before the arrival makes the block's writes visible before the arrival is. Acquire: the fence after
// the wait keeps later reads from older values, as those that an earlier step has left in the L1 cache. By the first
// __syncthreads() thread 0 releases what all threads of its block have written; by the second, all of them go on with
// what it has acquired. Take one of these lines away, and mg.inspect names two accesses that have no order.
__device__ inline void grid_arrive(unsigned* counter) {
    __syncthreads();  // before thread 0 arrives for all
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
#ifdef MINIGRAD_SIM
        __threadfence();  // release
        atomicAdd(counter, 1);
#else
        // The same, with each fence a part of its access: cheaper than __threadfence(), which orders more.
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
#endif
    }
}

__device__ inline void grid_wait(unsigned* counter, unsigned blocks, unsigned step) {
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        unsigned target = blocks * step;
#ifdef MINIGRAD_SIM
        while (atomicAdd(counter, 0) < target) __nanosleep(0);  // lets other blocks run
        __threadfence();  // acquire
#else
        unsigned arrived;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(counter) : "memory");
        } while (arrived < target);
#endif
    }
    __syncthreads();  // until thread 0 has seen all
}

// In between a block may do what no other one waits for.
__device__ inline void grid_barrier(unsigned* counter, unsigned blocks, unsigned step) {
    grid_arrive(counter);
    grid_wait(counter, blocks, step);
}
