// A whole sequence in one launch. The weights never change, so each thread reads its own once, and keeps them in
// registers for all steps: the kernel is persistent. At a step only h changes hands, and the blocks meet at a barrier
// before the next one.
//
// block -> UNITS units of a layer, for SEQS sequences. Its threads have two roles: in the products a warp owns K numbers
// of h, and so K columns of the block's rows of W_hh; in the cell a thread owns a unit of a sequence. Sequences know
// nothing of each other: only blocks of the same blockIdx.y meet.
//
// Several layers are a wavefront: while one makes step t, the layer below makes step t + 1, and all meet at the same
// barrier. Each block has as many warps again, for the products of W_ih with the h of the layer below.
#pragma once
#include "async_copy.cuh"
#include "grid_barrier.cuh"
#include "recurrent/cell.cuh"
#include "vector.cuh"

#ifndef K
#define K 32
#endif
#ifndef THREADS
#define THREADS 512
#endif

// The sums of the gates of a unit, over the warps that made a product.
template <class Weights>
__device__ void add_warps(real (&sum)[GATES], const real* partial, int warps) {
#pragma unroll 8
    for (int warp = 0; warp < warps; ++warp) {
#pragma unroll
        for (int g = 0; g < GATES; ++g) sum[g] += partial[warp * Weights::PARTIAL + g * Weights::UNITS];
    }
}

// One number for each gate, `hidden` apart.
__device__ inline void read_gates(real (&out)[GATES], const real* from, int hidden) {
#pragma unroll
    for (int g = 0; g < GATES; ++g) out[g] = from[g * hidden];
}

// h changes hands through the L2 cache, as numbers of type T: a step reads one half of `moved` (2, layers, rows, width) and
// writes the other. There is room for the sequences and columns of whole blocks and warps; what no unit of the network
// writes stays 0, so reads need no test. All blocks for these sequences meet, through a counter.
template <class T>
struct ThroughL2 {
    T* moved;
    unsigned* arrived;
    int rows, width;

    // The h of a layer and sequence before a tick.
    __device__ T* row(int tick, int layer, int sequence) const {
        return moved + ((tick % 2 * gridDim.z + layer) * rows + sequence) * width;
    }
    // Four neighbors to shared memory, or to registers.
    static __device__ void copy(T* to, const T* from) { copy_async(&vec(to), &vec(from), true); }
    static __device__ Four<T> read(const T* from) {
        Four<T> four;
        if constexpr (sizeof four == 8) reinterpret_cast<uint2&>(four) = __ldcg(reinterpret_cast<const uint2*>(from));
        else reinterpret_cast<uint4&>(four) = __ldcg(reinterpret_cast<const uint4*>(from));
        return four;
    }
    __device__ void write(int tick, int layer, int sequence, int unit, real value) const {
        row(tick + 1, layer, sequence)[unit] = value;
    }
    __device__ void arrive() const { grid_arrive(arrived + blockIdx.y); }
    __device__ void wait(int meeting) const { grid_wait(arrived + blockIdx.y, gridDim.x * gridDim.z, meeting); }
};

template <class Weights, class T>
__device__ ThroughL2<T> through_l2(unsigned* moved, unsigned* arrived) {
    int warps = gridDim.z > 1 ? blockDim.y / 2 : blockDim.y;  // of a product
    return {reinterpret_cast<T*>(moved), arrived, (int)gridDim.y * Weights::SEQUENCES, K * warps};
}

// projected (T, B, GATES * hidden) = x W_ih^T + b_ih of the first layer; w_ih and b_ih are those of all layers, of which
// the first is not read. h and c (layers, B, hidden) hold the state, and at the end the last one; y (T, B, hidden) is the
// last layer's. `exchange` is 0 everywhere.
template <class Weights, class Exchange>
__device__ void run_sequence(
    Exchange exchange, real* shared, const real* projected, const real* w_ih, const real* b_ih, const real* w_hh,
    const real* b_hh, const int* lengths, real* h, real* c, real* y, int steps, int backward, int batch, int hidden) {
    int layer = blockIdx.z, layers = gridDim.z, warp = threadIdx.y, warps = layers > 1 ? blockDim.y / 2 : blockDim.y;
    int first = warp % warps * K, matrix = layer * GATES * hidden * hidden;
    bool below = warp >= warps;  // this warp multiplies the h of the layer below, or 0 if there is none
    int read = below && layer > 0 ? layer - 1 : layer;
    // [the weights, once]
    Weights weights;
    weights.load((below ? w_ih : w_hh) + matrix, first, below && layer == 0 ? 0 : hidden);
    // [the unit of a sequence that this thread owns]
    int thread = warp * 32 + threadIdx.x, s = thread / Weights::UNITS, u = thread % Weights::UNITS;
    int unit = blockIdx.x * Weights::UNITS + u, sequence = blockIdx.y * Weights::SEQUENCES + s;
    bool owns = s < Weights::SEQUENCES && unit < hidden && sequence < batch;
    int at = (layer * batch + sequence) * hidden + unit, length = owns ? lengths[sequence] : 0;
    const real* sums = shared + s * Weights::STRIDE + u;
    real now = owns ? h[at] : 0, cell = owns ? c[at] : 0;
    real from_x[GATES], bias[GATES];
    if (owns) read_gates(bias, b_hh + layer * GATES * hidden + unit, hidden);
    // What step t adds to the gates besides products with h.
    auto read_inputs = [&](int step) {
        int t = backward ? steps - 1 - step : step;
        const real* row = layer ? b_ih + layer * GATES * hidden : projected + (t * batch + sequence) * GATES * hidden;
        if (owns && step >= 0 && step < steps) read_gates(from_x, row + unit, hidden);
    };
    read_inputs(0);
    // [the state before the first step] into both halves: a layer begins in the one or the other
    for (int half = 0; half < 2; ++half) {
        if (owns) exchange.write(half, layer, sequence, unit, now);
    }
    exchange.arrive();
    exchange.wait(1);
    for (int tick = 0; tick < steps + layers - 1; ++tick) {
        int step = tick - layer, t = backward ? steps - 1 - step : step;
        bool runs = step >= 0 && step < steps, within = t < length;  // runs is the same for the whole block
        if (runs) {
            // [multiply]
            weights.multiply(exchange, tick, read, shared, first);
            __syncthreads();
            // [the cell]
            if (owns) {
                real from_h[GATES];
#pragma unroll
                for (int g = 0; g < GATES; ++g) from_h[g] = bias[g];
                add_warps<Weights>(from_h, sums, warps);
                if (layer > 0) add_warps<Weights>(from_x, sums + warps * Weights::PARTIAL, warps);
                if (within) now = next_state(from_x, from_h, now, cell);
                exchange.write(tick, layer, sequence, unit, now);
            }
        }
        // [meet] Between arrival and wait a block does what no other one waits for.
        exchange.arrive();
        if (owns && runs && layer == layers - 1) y[(t * batch + sequence) * hidden + unit] = within ? now : 0;
        read_inputs(step + 1);  // of the next step: global memory is far away
        exchange.wait(tick + 2);
    }
    if (owns) h[at] = now, c[at] = cell;
}
