#include "common.cuh"

// y = x with the last `dropped` bits 0: the nearest such float32, ties to even; inf and NaN stay. thread -> one element.
extern "C" __global__ void round_mantissa(const float* x, float* y, int dropped, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned bits = __float_as_uint(x[i]), infinity = 0x7f800000;
    if ((bits & infinity) != infinity) {
        bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
        bits &= ~0u << dropped;
    }
    y[i] = __uint_as_float(bits);
}
