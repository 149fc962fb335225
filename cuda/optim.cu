#include "common.cuh"

// v = momentum * v + g; p -= lr * v. thread -> one parameter, which is read and written once.
extern "C" __global__ void sgd_step(real* p, const real* g, real* v, real lr, real momentum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real velocity = momentum * v[i] + g[i];
        v[i] = velocity;
        p[i] -= lr * velocity;
    }
}

// One more step has been taken. thread -> one counter.
extern "C" __global__ void adam_count(int* t, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        t[i] += 1;
    }
}

// The t-th Adam step, with c1 = 1 - b1 and c2 = 1 - b2 from the host: here in float, 1 - 0.999 would be wrong by 1e-5.
// For the same reason 1 - b1^t is written as -expm1(t log1p(-c1)). thread -> one parameter.
extern "C" __global__ void adam_step(
    real* p, const real* g, real* m, real* v, const int* t, real lr, real c1, real c2, real eps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real mean = m[i] + c1 * (g[i] - m[i]);
        real square = v[i] + c2 * (g[i] * g[i] - v[i]);
        m[i] = mean;
        v[i] = square;
        real grown1 = -expm1(*t * log1p(-c1)), grown2 = -expm1(*t * log1p(-c2));
        p[i] -= lr * (mean / grown1) / (sqrt(square / grown2) + eps);
    }
}
