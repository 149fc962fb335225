#include "common.cuh"

// y = a / b with broadcasting. thread -> one element of y; a and b are found through their views.
extern "C" __global__ void divide_forward(
    const real* a, const real* b, real* y, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a[a_at(i)] / b[b_at(i)];
    }
}

// da = dy / b, db = -da * a / b, both in the shape of y.
// thread -> one element; a null pointer: that one is not wanted.
extern "C" __global__ void divide_backward(
    const real* dy, const real* a, const real* b, real* da, real* db, View a_at, View b_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real divisor = b[b_at(i)];
        real scaled = dy[i] / divisor;
        if (da) da[i] = scaled;
        if (db) db[i] = -scaled * a[a_at(i)] / divisor;
    }
}
