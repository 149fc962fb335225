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

// One Adam step, with c1 = 1 - b1 and c2 = 1 - b2 from the host: here in float, 1 - 0.999 would be wrong by 1e-5.
// lr and scale carry the bias corrections of the step. thread -> one parameter.
extern "C" __global__ void adam_step(
    real* p, const real* g, real* m, real* v, real lr, real c1, real c2, real scale, real eps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real mean = m[i] + c1 * (g[i] - m[i]);
        real square = v[i] + c2 * (g[i] * g[i] - v[i]);
        m[i] = mean;
        v[i] = square;
        p[i] -= lr * mean / (sqrt(scale * square) + eps);
    }
}
