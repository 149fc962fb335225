#include "vector.cuh"

// y = a^b with broadcasting. thread -> one element of y; a and b are read through views.
extern "C" __global__ void power_forward(const real* a, const real* b, real* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = pow(a[a_at(i)], b[b_at(i)]);
    }
}

// da = dy * b * a^(b - 1), db = dy * a^b * log(a), both in the shape of y.
// thread -> one element; a null pointer marks a gradient that is not wanted.
extern "C" __global__ void power_backward(
    const real* dy, const real* a, const real* b, real* da, real* db, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        wide base = a[a_at(i)], exponent = b[b_at(i)];
        // A choice at the edges, where the products 0 * inf and 0 * log(0) would be NaN.
        if (da) da[i] = exponent == 0 ? 0 : dy[i] * exponent * pow(base, exponent - 1);
        if (db) db[i] = base == 0 && exponent >= 0 ? 0 : dy[i] * pow(base, exponent) * log(base);
    }
}

// The forward pass with four elements per thread: see vector.cuh.
extern "C" __global__ void power_vectorized(const real* a, const real* b, real* y, View a_at, View b_at, int n) {
    map(y, n, [](wide a, wide b) { return pow(a, b); }, Viewed{a, a_at}, Viewed{b, b_at});
}
