#include "reduce.cuh"
#include "recurrent/cell.cuh"

// Both kernels make one step of a layer: the state after step t from the one before it.
// block -> UNITS units of one sequence; warp -> a unit; lane -> every 32nd number of the rows of its weights.
#ifndef UNITS
#define UNITS 8
#endif

// The sum of row[i] * vector[i], i < count; all lanes of the warp get it. Neighboring lanes read neighboring numbers.
__device__ real dot(const real* row, const real* vector, int count) {
    real sum = 0;
    for (int i = threadIdx.x; i < count; i += 32) sum += row[i] * vector[i];
    return lanes_reduce<32>(sum, Add());
}

// The end of both: the sums from h, the cell, and the state. A sequence that has ended keeps its state, and its y is 0.
__device__ void finish(
    const real (&from_x)[GATES], const real* w_hh, const real* b_hh, const int* lengths, const real* h, real* next,
    real* c, real* y, int t, int unit, int sequence, int hidden) {
    real from_h[GATES];
    for (int g = 0; g < GATES; ++g) {
        int row = g * hidden + unit;
        from_h[g] = dot(w_hh + row * hidden, h + sequence * hidden, hidden) + b_hh[row];
    }
    if (threadIdx.x > 0) return;
    int at = sequence * hidden + unit;
    real now = h[at];
    bool within = t < lengths[sequence];
    if (within) now = next_state(from_x, from_h, now, c[at]);
    next[at] = now;
    y[t * gridDim.y * hidden + at] = within ? now : 0;
}

// [the step] x (T, B, inputs), w_ih (GATES * hidden, inputs)
extern "C" __global__ void recurrent_step(
    const real* x, const real* w_ih, const real* b_ih, const real* w_hh, const real* b_hh, const int* lengths,
    const real* h, real* next, real* c, real* y, int t, int inputs, int hidden) {
    int unit = blockIdx.x * UNITS + threadIdx.y, sequence = blockIdx.y;
    if (unit >= hidden) return;
    real from_x[GATES];
    for (int g = 0; g < GATES; ++g) {
        int row = g * hidden + unit;
        from_x[g] = dot(w_ih + row * inputs, x + (t * gridDim.y + sequence) * inputs, inputs) + b_ih[row];
    }
    finish(from_x, w_hh, b_hh, lengths, h, next, c, y, t, unit, sequence, hidden);
}

// [the step, with the products with x ready] projected (T, B, GATES * hidden) = x W_ih^T + b_ih: they wait for no step,
// so one large product of matrices makes them all, ahead of the first step.
extern "C" __global__ void recurrent_step_projected(
    const real* projected, const real* w_hh, const real* b_hh, const int* lengths, const real* h, real* next, real* c,
    real* y, int t, int hidden) {
    int unit = blockIdx.x * UNITS + threadIdx.y, sequence = blockIdx.y;
    if (unit >= hidden) return;
    real from_x[GATES];
    for (int g = 0; g < GATES; ++g) {
        from_x[g] = projected[((t * gridDim.y + sequence) * GATES + g) * hidden + unit];
    }
    finish(from_x, w_hh, b_hh, lengths, h, next, c, y, t, unit, sequence, hidden);
}
