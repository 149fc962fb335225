#include "vector.cuh"

// y = x in another type, rounded to the nearest; `real` is any dtype here. thread -> four neighbors: see vector.cuh.
extern "C" __global__ void astype_float32(const real* x, float* y, int n) {
    map(y, n, [](wide x) { return static_cast<float>(x); }, x);
}

extern "C" __global__ void astype_float64(const real* x, double* y, int n) {
    map(y, n, [](wide x) { return static_cast<double>(x); }, x);
}

extern "C" __global__ void astype_bfloat16(const real* x, bfloat16* y, int n) {
    map(y, n, [](wide x) { return static_cast<float>(x); }, x);
}
