#include <cuda_fp16.h>

// y = x as float: exact. thread -> one element.
extern "C" __global__ void half_to_float(const half* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = __half2float(x[i]);
    }
}

// y = x as half, rounded to the nearest; inf where it is too large. thread -> one element.
extern "C" __global__ void float_to_half(const float* x, half* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = __float2half(x[i]);
    }
}
