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

// One Adam step; lr and scale carry the bias corrections of the step. thread -> one parameter.
extern "C" __global__ void adam_step(
    real* p, const real* g, real* m, real* v, real lr, real b1, real b2, real scale, real eps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real mean = m[i] + (1 - b1) * (g[i] - m[i]);
        real square = v[i] + (1 - b2) * (g[i] * g[i] - v[i]);
        m[i] = mean;
        v[i] = square;
        p[i] -= lr * mean / (sqrt(scale * square) + eps);
    }
}
