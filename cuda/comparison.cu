#include "vector.cuh"

// The six comparisons, with broadcasting. thread -> one element of y; a and b are read through views.
// `real` is any dtype here. A comparison with NaN is false, except !=.

// y = a < b.
extern "C" __global__ void less_forward(const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a[a_at(i)] < b[b_at(i)];
    }
}

// y = a <= b.
extern "C" __global__ void less_equal_forward(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a[a_at(i)] <= b[b_at(i)];
    }
}

// y = a > b.
extern "C" __global__ void greater_forward(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a[a_at(i)] > b[b_at(i)];
    }
}

// y = a >= b.
extern "C" __global__ void greater_equal_forward(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a[a_at(i)] >= b[b_at(i)];
    }
}

// y = a == b.
extern "C" __global__ void equal_forward(const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a[a_at(i)] == b[b_at(i)];
    }
}

// y = a != b.
extern "C" __global__ void not_equal_forward(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a[a_at(i)] != b[b_at(i)];
    }
}

// All with four elements per thread: see vector.cuh. One instruction writes four bools.
extern "C" __global__ void less_vectorized(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    map(y, n, [](wide a, wide b) { return a < b; }, Viewed{a, a_at}, Viewed{b, b_at});
}

extern "C" __global__ void less_equal_vectorized(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    map(y, n, [](wide a, wide b) { return a <= b; }, Viewed{a, a_at}, Viewed{b, b_at});
}

extern "C" __global__ void greater_vectorized(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    map(y, n, [](wide a, wide b) { return a > b; }, Viewed{a, a_at}, Viewed{b, b_at});
}

extern "C" __global__ void greater_equal_vectorized(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    map(y, n, [](wide a, wide b) { return a >= b; }, Viewed{a, a_at}, Viewed{b, b_at});
}

extern "C" __global__ void equal_vectorized(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    map(y, n, [](wide a, wide b) { return a == b; }, Viewed{a, a_at}, Viewed{b, b_at});
}

extern "C" __global__ void not_equal_vectorized(
    const real* a, const real* b, bool* y, View a_at, View b_at, int n) {
    map(y, n, [](wide a, wide b) { return a != b; }, Viewed{a, a_at}, Viewed{b, b_at});
}
