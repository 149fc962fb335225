#include "vector.cuh"

// y = the larger of a and b, with broadcasting; NaN where either is NaN.
// thread -> one element of y; a and b are read through views.
extern "C" __global__ void maximum_forward(
    const real* a, const real* b, real* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        wide p = a[a_at(i)], q = b[b_at(i)];
        y[i] = p > q || p != p ? p : q;  // only NaN differs from itself; NaN in q comes out too
    }
}

// da = dy, but dy / 2 where a = b, and 0 where a < b; the same for db; both in the shape of y.
// thread -> one element; a null pointer marks a gradient that is not wanted.
extern "C" __global__ void maximum_backward(
    const real* dy, const real* a, const real* b, real* da, real* db, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        wide p = a[a_at(i)], q = b[b_at(i)];
        wide part = p == q ? dy[i] / 2 : dy[i];
        if (da) da[i] = p < q ? 0 : part;
        if (db) db[i] = q < p ? 0 : part;
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void maximum_vectorized(
    const real* a, const real* b, real* y, View a_at, View b_at, int n) {
    map(y, n, [](wide a, wide b) { return a > b || a != a ? a : b; }, Viewed{a, a_at}, Viewed{b, b_at});
}

extern "C" __global__ void maximum_vectorized_backward(
    const real* dy, const real* a, const real* b, real* da, real* db, View a_at, View b_at, int n) {
    if (da) map(da, n, [](wide dy, wide a, wide b) { return a < b ? 0 : a == b ? dy / 2 : dy; }, dy, Viewed{a, a_at}, Viewed{b, b_at});
    if (db) map(db, n, [](wide dy, wide a, wide b) { return b < a ? 0 : a == b ? dy / 2 : dy; }, dy, Viewed{a, a_at}, Viewed{b, b_at});
}
