#include "vector.cuh"

// An array x with a frame around it, or cropped: along axis d, the innermost first, y has shape[d] elements. Those of x, of
// which there are inner[d], begin at before[d]; where that is below 0, the first ones are cut off.
struct Frame {
    int ndim, shape[MAX_DIMS], before[MAX_DIMS], inner[MAX_DIMS];

    // The element of x that is element i of y, or -1 in the frame.
    __device__ int operator()(int i) const {
        int at = 0, stride = 1;
#pragma unroll
        for (int d = 0; d < MAX_DIMS; ++d) {
            if (d < ndim) {
                int step = i % shape[d] - before[d];
                if (step < 0 || step >= inner[d]) return -1;
                at += step * stride;
                stride *= inner[d];
                i /= shape[d];
            }
        }
        return at;
    }
};

// y = x inside the frame, value in it. thread -> one element of y. The gradient is the same with the widths negated: what
// was padded is cut off dy, and what was cut off gets 0.
extern "C" __global__ void pad_forward(const real* x, real* y, Frame frame, real value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int from = frame(i);
        y[i] = from < 0 ? value : x[from];
    }
}

// The same with four elements per thread: see vector.cuh.
struct Framed {
    const real* x;
    const Frame& frame;
    real value;
};
__device__ inline real one(const Framed& x, int i) {
    int from = x.frame(i);
    return from < 0 ? x.value : x.x[from];
}
__device__ inline Vec four(const Framed& x, int i) { return {one(x, i), one(x, i + 1), one(x, i + 2), one(x, i + 3)}; }

extern "C" __global__ void pad_vectorized(const real* x, real* y, Frame frame, real value, int n) {
    map(y, n, [](real x) { return x; }, Framed{x, frame, value});
}
