// Windows that move by a stride, seen from x: a pixel meets only some of the taps.
#pragma once
#include "window.cuh"

// Taps first, first + stride, ... of all along one axis of a window. They, and no others, meet the rows of x that leave this
// rest when divided by the stride, if stride and dilation have no common divisor. The smaller first, the more taps.
struct Comb {
    int taps, rest;
    int earlier;  // taps of the combs before this one
    int start;    // the first row of dy that a row of x takes from, counted from the first one over all combs

    __device__ Comb(int first, int all, int stride, int before, int dilation)
        : taps((all - first + stride - 1) / stride), earlier(first * (all / stride) + min(first, all % stride)) {
        auto row = [=](int tap) { return before * (stride - 1) + tap * dilation; };  // of x, that meets row `before` of y
        rest = row(first) % stride;
        start = row(all - 1) / stride - row(first + (taps - 1) * stride) / stride;
    }
};

// A comb of rows and one of columns: the taps of one parity of x.
struct Combs {
    Comb y, x;

    __device__ Combs(const Window& at, int y, int x)
        : y(y, at.rows, at.stride_y, at.top, at.dilation_y), x(x, at.columns, at.stride_x, at.left, at.dilation_x) {}
    __device__ int taps() const { return y.taps * x.taps; }
    __device__ int earlier(const Window& at) const { return y.earlier * at.columns + y.taps * x.earlier; }
};
