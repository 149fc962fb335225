#include "recurrent/registers.cuh"

// The blocks for the same sequences as a cluster: a GPU of 2022 or later runs them close together, each can write into
// the shared memory of the others, and their barrier takes less time than one of the whole grid through global memory.
// A step touches no memory outside of them but its input and output. The simulator has no clusters: there h goes through
// ThroughL2.
#ifndef CLUSTER
#define CLUSTER 8
#endif

#ifndef MINIGRAD_SIM
#include "cluster_barrier.cuh"

// Each block keeps h of all units, for its sequences: two halves of SEQS x width in its own shared memory.
struct ThroughCluster {
    real* halves;
    int width;

    __device__ real* row(int tick, int, int sequence) const {
        return halves + (tick % 2 * SEQS + sequence - blockIdx.y * SEQS) * width;
    }
    static __device__ void copy(real* to, const real* from) { vec(to) = vec(from); }

    // Into the memory of every block: mapa gives the address of one's own variable in the block of that rank.
    __device__ void write(int tick, int layer, int sequence, int unit, real value) const {
        unsigned own = __cvta_generic_to_shared(row(tick + 1, layer, sequence) + unit), there;
#pragma unroll
        for (int rank = 0; rank < CLUSTER; ++rank) {
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(rank));
            if (sizeof(real) == 4) asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"((float)value) : "memory");
            else asm volatile("st.shared::cluster.f64 [%0], %1;" ::"r"(there), "d"((double)value) : "memory");
        }
    }
    static __device__ void arrive() { cluster_arrive(); }
    static __device__ void wait(int) { cluster_wait(); }
};
#endif

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS) recurrent_persistent_cluster(
    const real* projected, const real* w_ih, const real* b_ih, const real* w_hh, const real* b_hh, const int* lengths,
    real* h, real* c, real* y, unsigned* moved, unsigned* arrived, int steps, int backward, int batch, int hidden) {
    extern __shared__ real shared[];
#ifdef MINIGRAD_SIM
    ThroughL2<real> exchange = through_l2<Registers, real>(moved, arrived);
#else
    ThroughCluster exchange{shared + blockDim.y * (Registers::PARTIAL + SEQS * K), K * (int)blockDim.y};
    int thread = threadIdx.y * 32 + threadIdx.x;
    for (int i = thread; i < 2 * SEQS * exchange.width; i += 32 * blockDim.y) exchange.halves[i] = 0;
    cluster_barrier();  // all blocks run, and their memory can be written
#endif
    run_sequence<Registers>(
        exchange, shared, projected, w_ih, b_ih, w_hh, b_hh, lengths, h, c, y, steps, backward, batch, hidden);
}
