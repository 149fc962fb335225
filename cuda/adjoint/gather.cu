#include "common.cuh"

// y[i] = x[index[i]]. thread -> one element of y. Its adjoint scatters.
extern "C" __global__ void gather(const real* x, const int* index, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[index[i]];
    }
}

// y[index[i]] += x[i]. thread -> one element of x. Its adjoint gathers.
extern "C" __global__ void scatter(const real* x, const int* index, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&y[index[i]], x[i]);
    }
}
