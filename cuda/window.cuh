// The geometry of a 2-D convolution or pooling: a window moves over an image, and each place makes one output pixel.
#pragma once
#include "common.cuh"

// Letters as in the textbooks: image n, channel c, row h, column v of x; row r, column s of the window; kernel k, row p,
// column q of y.
struct Window {
    int channels, height, width;  // of x
    int rows, columns;            // of the window
    int out_height, out_width;    // of y
    int stride_y, stride_x, top, left, dilation_y, dilation_x;

    // The row and the column of x that output (p, q) meets at (r, s) of the window. They may lie in the padding.
    __device__ int row(int p, int r) const { return p * stride_y - top + r * dilation_y; }
    __device__ int column(int q, int s) const { return q * stride_x - left + s * dilation_x; }
    __device__ bool inside(int h, int v) const { return 0 <= h && h < height && 0 <= v && v < width; }

    // The other way round: the output row that meets row h of x at row r of the window, or -1 where none does.
    __device__ int out_row(int h, int r) const { return out(h + top - r * dilation_y, stride_y, out_height); }
    __device__ int out_column(int v, int s) const { return out(v + left - s * dilation_x, stride_x, out_width); }

    // Calls visit(p, q, r, s) for each output (p, q) that meets pixel (h, v) of x, at (r, s) of the window: the walk of
    // every gradient with respect to x. A pixel asks where it went, so no atomics are needed.
    template <class Visit>
    __device__ void each_output(int h, int v, Visit visit) const {
        for (int r = 0; r < rows; ++r) {
            int p = out_row(h, r);
            if (p < 0) continue;
            for (int s = 0; s < columns; ++s) {
                int q = out_column(v, s);
                if (q >= 0) visit(p, q, r, s);
            }
        }
    }
    static __device__ int out(int steps, int stride, int extent) {
        return steps >= 0 && steps % stride == 0 && steps / stride < extent ? steps / stride : -1;
    }
};
