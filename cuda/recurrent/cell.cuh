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

// exp overflows to infinity far below 0, and 1 / infinity is the right 0.
__device__ inline real sigmoid(real a) { return 1 / (1 + exp(-a)); }

// Returns the next h, and changes c, which only LSTM has. from_x = W_ih x + b_ih and from_h = W_hh h + b_hh, of the unit.
__device__ inline real next_state(const real (&from_x)[GATES], const real (&from_h)[GATES], real h, real& c) {
#if CELL == LSTM
    real i = sigmoid(from_x[0] + from_h[0]), f = sigmoid(from_x[1] + from_h[1]);
    real g = tanh(from_x[2] + from_h[2]), o = sigmoid(from_x[3] + from_h[3]);
    c = f * c + i * g;
    return o * tanh(c);
#elif CELL == GRU
    real r = sigmoid(from_x[0] + from_h[0]), z = sigmoid(from_x[1] + from_h[1]);
    real n = tanh(from_x[2] + r * from_h[2]);
    return (1 - z) * n + z * h;
#else
    real a = from_x[0] + from_h[0];
    return CELL == TANH ? tanh(a) : a < 0 ? 0 : a;
#endif
}
