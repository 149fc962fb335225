#include "common.cuh"

// y = a * x + y, in place. thread -> one element.
extern "C" __global__ void axpy(real a, const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}

// The same on fewer threads than elements: thread -> every (threads)-th element.
extern "C" __global__ void axpy_strided(real a, const real* x, real* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        y[i] = a * x[i] + y[i];
    }
}
