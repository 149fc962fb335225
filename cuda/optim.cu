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

// Multi-tensor kernels: up to eight parameters per launch, since most are too small to be worth a launch. The blocks of a
// grid belong to one parameter after the other: `block` counts from the first block of a parameter, and a function returns
// true if it owned the block. thread -> four elements, BLOCK apart. A slot without a parameter has n = 0.
constexpr int BLOCK = 256, PIECE = 4 * BLOCK;

__device__ inline int blocks_for(int n) { return (n + PIECE - 1) / PIECE; }

template <class Update>
__device__ bool owns(int& block, int n, Update update) {
    int first = block * PIECE + threadIdx.x, blocks = blocks_for(n);
    if (block < blocks) {
#pragma unroll
        for (int i = first; i < first + PIECE; i += BLOCK) {
            if (i < n) update(i);
        }
        return true;
    }
    block -= blocks;
    return false;
}

// v = momentum * v + g + decay * p; p -= lr * v. The rate is read from memory: so a captured step follows a schedule.
__device__ inline bool sgd(int& block, real* p, const real* g, real* v, int n, real lr, real momentum, real decay) {
    return owns(block, n, [=](int i) {
        real velocity = momentum * v[i] + (g[i] + decay * p[i]);
        v[i] = velocity;
        p[i] -= lr * velocity;
    });
}

extern "C" __global__ void sgd_steps(
    real* p0, const real* g0, real* v0, int n0,
    real* p1, const real* g1, real* v1, int n1,
    real* p2, const real* g2, real* v2, int n2,
    real* p3, const real* g3, real* v3, int n3,
    real* p4, const real* g4, real* v4, int n4,
    real* p5, const real* g5, real* v5, int n5,
    real* p6, const real* g6, real* v6, int n6,
    real* p7, const real* g7, real* v7, int n7, const double* rate, real momentum, real decay) {
    int block = blockIdx.x;
    real lr = *rate;
    if (sgd(block, p0, g0, v0, n0, lr, momentum, decay)
        || sgd(block, p1, g1, v1, n1, lr, momentum, decay)
        || sgd(block, p2, g2, v2, n2, lr, momentum, decay)
        || sgd(block, p3, g3, v3, n3, lr, momentum, decay)
        || sgd(block, p4, g4, v4, n4, lr, momentum, decay)
        || sgd(block, p5, g5, v5, n5, lr, momentum, decay)
        || sgd(block, p6, g6, v6, n6, lr, momentum, decay)
        || sgd(block, p7, g7, v7, n7, lr, momentum, decay)) return;
}

// Increments the step counters. thread -> the counter of one parameter.
extern "C" __global__ void adam_counts(int* t0, int* t1, int* t2, int* t3, int* t4, int* t5, int* t6, int* t7) {
    int* counters[] = {t0, t1, t2, t3, t4, t5, t6, t7};
    if (counters[threadIdx.x]) *counters[threadIdx.x] += 1;
}

// The t-th Adam step, with c1 = 1 - b1 and c2 = 1 - b2 from the host: here in float, 1 - 0.999 would be wrong by 1e-5.
// For the same reason 1 - b1^t is written as -expm1(t log1p(-c1)). decay enters the gradient, shrink is that of AdamW.
// thread -> one element.
__device__ inline bool adam(
    int& block, real* p, const real* g, real* m, real* v, const int* t, int n, real lr, real c1, real c2, real eps,
    real decay, real shrink) {
    bool own = block < blocks_for(n);  // then both are computed once, not for each element
    real grown1 = own ? -expm1(*t * log1p(-c1)) : 1, grown2 = own ? -expm1(*t * log1p(-c2)) : 1;
    return owns(block, n, [=](int i) {
        real slope = g[i] + decay * p[i];
        real mean = m[i] + c1 * (slope - m[i]);
        real square = v[i] + c2 * (slope * slope - v[i]);
        m[i] = mean;
        v[i] = square;
        p[i] -= lr * (shrink * p[i] + (mean / grown1) / (sqrt(square / grown2) + eps));
    });
}

extern "C" __global__ void adam_steps(
    real* p0, const real* g0, real* m0, real* v0, const int* t0, int n0,
    real* p1, const real* g1, real* m1, real* v1, const int* t1, int n1,
    real* p2, const real* g2, real* m2, real* v2, const int* t2, int n2,
    real* p3, const real* g3, real* m3, real* v3, const int* t3, int n3,
    real* p4, const real* g4, real* m4, real* v4, const int* t4, int n4,
    real* p5, const real* g5, real* m5, real* v5, const int* t5, int n5,
    real* p6, const real* g6, real* m6, real* v6, const int* t6, int n6,
    real* p7, const real* g7, real* m7, real* v7, const int* t7, int n7,
    const double* rate, real c1, real c2, real eps, real decay, real shrink) {
    int block = blockIdx.x;
    real lr = *rate;
    if (adam(block, p0, g0, m0, v0, t0, n0, lr, c1, c2, eps, decay, shrink)
        || adam(block, p1, g1, m1, v1, t1, n1, lr, c1, c2, eps, decay, shrink)
        || adam(block, p2, g2, m2, v2, t2, n2, lr, c1, c2, eps, decay, shrink)
        || adam(block, p3, g3, m3, v3, t3, n3, lr, c1, c2, eps, decay, shrink)
        || adam(block, p4, g4, m4, v4, t4, n4, lr, c1, c2, eps, decay, shrink)
        || adam(block, p5, g5, m5, v5, t5, n5, lr, c1, c2, eps, decay, shrink)
        || adam(block, p6, g6, m6, v6, t6, n6, lr, c1, c2, eps, decay, shrink)
        || adam(block, p7, g7, m7, v7, t7, n7, lr, c1, c2, eps, decay, shrink)) return;
}
