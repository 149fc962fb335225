#include "recurrent/registers.cuh"

// The blocks for the same sequences as a cluster: a GPU of 2022 or later runs them close together, each can write into the
// shared memory of the others, and their barrier takes a third of the time of one through global memory. A step touches
// no memory outside of them but its input and output. The simulator has no clusters: there h goes through ThroughL2.
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
    static __device__ Vec read(const real* from) { return vec(from); }

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
    real* h, real* c, real* y, unsigned* arrived, int steps, int backward, int batch, int hidden) {
    extern __shared__ real shared[];
    ThroughL2 outside = through_l2<Registers>(h, arrived);
#ifdef MINIGRAD_SIM
    const ThroughL2& exchange = outside;
#else
    ThroughCluster exchange{shared + blockDim.y * (Registers::PARTIAL + SEQS * K), outside.width};
    // [the state before the first step, and zeros around it, into shared memory]
    int thread = threadIdx.y * 32 + threadIdx.x, first = blockIdx.y * SEQS, size = SEQS * outside.width;
    for (int i = thread; i < 2 * size; i += 32 * blockDim.y) {
        exchange.row(i / size, 0, first)[i % size] = outside.row(0, 0, first)[i % size];
    }
    cluster_barrier();  // all blocks run, so their memory can be written
#endif
    run_sequence<Registers>(
        exchange, shared, projected, w_ih, b_ih, w_hh, b_hh, lengths, c, y, steps, backward, batch, hidden);
#ifndef MINIGRAD_SIM
    // [the last state, each block its own units] nobody writes into a block that has ended: all have met
    for (int i = thread; i < SEQS * Registers::UNITS; i += 32 * blockDim.y) {
        int sequence = first + i / Registers::UNITS, unit = blockIdx.x * Registers::UNITS + i % Registers::UNITS;
        if (unit < hidden) outside.row(steps, 0, sequence)[unit] = exchange.row(steps, 0, sequence)[unit];
    }
#endif
}
