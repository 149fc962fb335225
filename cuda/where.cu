#include "vector.cuh"

// y = a where cond, else b, with broadcasting.
// thread -> one element of y; the inputs are read through views.
extern "C" __global__ void where_forward(
    const bool* cond, const real* a, const real* b, real* y, View cond_at, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = cond[cond_at(i)] ? a[a_at(i)] : b[b_at(i)];
    }
}

// da = dy where cond, else 0; db = 0 where cond, else dy; both in the shape of y.
// thread -> one element; a null pointer marks a gradient that is not wanted.
extern "C" __global__ void where_backward(
    const real* dy, const bool* cond, real* da, real* db, View cond_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        bool from_a = cond[cond_at(i)];
        if (da) da[i] = from_a ? dy[i] : static_cast<real>(0);
        if (db) db[i] = from_a ? static_cast<real>(0) : dy[i];
    }
}

// Both with four elements per thread: see vector.cuh.
extern "C" __global__ void where_vectorized(
    const bool* cond, const real* a, const real* b, real* y, View cond_at, View a_at, View b_at, int n) {
    auto choose = [](bool cond, real a, real b) { return cond ? a : b; };
    map(y, n, choose, Viewed{cond, cond_at}, Viewed{a, a_at}, Viewed{b, b_at});
}

extern "C" __global__ void where_vectorized_backward(
    const real* dy, const bool* cond, real* da, real* db, View cond_at, int n) {
    if (da) map(da, n, [](real dy, bool cond) { return cond ? dy : static_cast<real>(0); }, dy, Viewed{cond, cond_at});
    if (db) map(db, n, [](real dy, bool cond) { return cond ? static_cast<real>(0) : dy; }, dy, Viewed{cond, cond_at});
}
