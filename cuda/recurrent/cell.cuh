// The cells of recurrent networks: the next state of one unit of one sequence, from the sums that enter its gates.
#pragma once
#include "common.cuh"

#define TANH 0
#define RELU 1
#define LSTM 2
#define GRU 3
#ifndef CELL
#define CELL 0
#endif

constexpr int GATES = CELL == LSTM ? 4 : CELL == GRU ? 3 : 1;  // rows of a weight for each unit

// exp overflows to infinity far below 0, and 1 / infinity is the right 0. In float by the GPU's fast functions, without a
// branch, so that the gates of a thread do not wait for each other.
__device__ inline double sigmoid(double a) { return 1 / (1 + exp(-a)); }
__device__ inline float sigmoid(float a) { return __fdividef(1, 1 + __expf(-a)); }
__device__ inline double hyperbolic(double a) { return tanh(a); }
__device__ inline float hyperbolic(float a) { return 2 * sigmoid(2 * a) - 1; }

// Returns the next h, and changes c, which only LSTM has. from_x = W_ih x + b_ih and from_h = W_hh h + b_hh, of the unit.
__device__ inline real next_state(const real (&from_x)[GATES], const real (&from_h)[GATES], real h, real& c) {
#if CELL == LSTM
    real i = sigmoid(from_x[0] + from_h[0]), f = sigmoid(from_x[1] + from_h[1]);
    real g = hyperbolic(from_x[2] + from_h[2]), o = sigmoid(from_x[3] + from_h[3]);
    c = f * c + i * g;
    return o * hyperbolic(c);
#elif CELL == GRU
    real r = sigmoid(from_x[0] + from_h[0]), z = sigmoid(from_x[1] + from_h[1]);
    real n = hyperbolic(from_x[2] + r * from_h[2]);
    return (1 - z) * n + z * h;
#else
    real a = from_x[0] + from_h[0];
    return CELL == TANH ? hyperbolic(a) : a < 0 ? 0 : a;
#endif
}
