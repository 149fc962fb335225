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
extern "C" __global__ void pad_forward(const real* x, real* y, Frame frame, wide value, int n) {
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
    wide value;
};
__device__ inline real one(const Framed& x, int i) {
    int from = x.frame(i);
    return from < 0 ? static_cast<real>(x.value) : x.x[from];
}
template <int N>
__device__ Neighbors<real, N> some(const Framed& x, int i) {
    Neighbors<real, N> all;
#pragma unroll
    for (int lane = 0; lane < N; ++lane) all.at[lane] = one(x, i + lane);
    return all;
}

extern "C" __global__ void pad_vectorized(const real* x, real* y, Frame frame, wide value, int n) {
    map(y, n, [](real x) { return x; }, Framed{x, frame, value});
}
