#include "common.cuh"

// b = a^2, and then a is gone
extern "C" __global__ void overwrite(real* a, real* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        b[i] = a[i] * a[i];
        a[i] = 1;
    }
}

// a = a * b, in place
extern "C" __global__ void multiply_in_place(real* a, const real* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        a[i] *= b[i];
    }
}

// a and b exchanged, one of them squared on the way
extern "C" __global__ void swap_squared(real* a, real* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real t = a[i];
        a[i] = b[i] * b[i];
        b[i] = t;
    }
}

// x squared in place, then read again and cubed
extern "C" __global__ void read_again(real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] = x[i] * x[i];
        y[i] = x[i] * x[i] * x[i];
        x[i] = sin(x[i]);
    }
}
