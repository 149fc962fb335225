#include "vector.cuh"

// y = a / b with broadcasting. thread -> one element of y; a and b are read through views.
extern "C" __global__ void divide_forward(
    const real* a, const real* b, real* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a[a_at(i)] / b[b_at(i)];
    }
}

// da = dy / b, db = -da * a / b, both in the shape of y.
// thread -> one element; a null pointer marks a gradient that is not wanted.
extern "C" __global__ void divide_backward(
    const real* dy, const real* a, const real* b, real* da, real* db, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        wide divisor = b[b_at(i)];
        wide scaled = dy[i] / divisor;
        if (da) da[i] = scaled;
        if (db) db[i] = -scaled * a[a_at(i)] / divisor;
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void divide_vectorized(
    const real* a, const real* b, real* y, View a_at, View b_at, int n) {
    map(y, n, [](wide a, wide b) { return a / b; }, Viewed{a, a_at}, Viewed{b, b_at});
}

extern "C" __global__ void divide_vectorized_backward(
    const real* dy, const real* a, const real* b, real* da, real* db, View a_at, View b_at, int n) {
    if (da) map(da, n, [](wide dy, wide b) { return dy / b; }, dy, Viewed{b, b_at});
    if (db) map(db, n, [](wide dy, wide a, wide b) { return -(dy / b) * a / b; }, dy, Viewed{a, a_at}, Viewed{b, b_at});
}
