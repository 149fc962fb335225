#include "common.cuh"

// In all of these: thread -> one element of y. Where x is (m, n), it also has one column of x, so that neighbors in a
// warp read neighbors in memory.

// y = sum of the column, each x weighted by itself
extern "C" __global__ void sum_of_squares(const real* x, real* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real sum = 0;
        for (int j = 0; j < m; ++j) {
            sum += x[j * n + i] * x[j * n + i];
        }
        y[i] = sum;
    }
}

// y = product of the column
extern "C" __global__ void product(const real* x, real* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real p = 1;
        for (int j = 0; j < m; ++j) {
            p *= x[j * n + i];
        }
        y[i] = p;
    }
}

#define DEGREE 7

// y = c[0] + c[1] x + ... + c[DEGREE] x^DEGREE, by Horner's rule
extern "C" __global__ void horner(const real* c, const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real p = 0;
        for (int j = DEGREE; j >= 0; --j) {
            p = p * x[i] + c[j];
        }
        y[i] = p;
    }
}

// y = sum over j of (x[0] * ... * x[j]): the inner loop is as long as the outer one has come
extern "C" __global__ void triangular(const real* x, real* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real sum = 0;
        for (int j = 0; j < m; ++j) {
            real p = 1;
            for (int l = 0; l <= j; ++l) {
                p *= x[l * n + i];
            }
            sum += p;
        }
        y[i] = sum;
    }
}

// y = x^8, squared three times
extern "C" __global__ void eighth_power(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real v = x[i];
        int times = 0;
        while (times < 3) {
            v = v * v;
            times += 1;
        }
        y[i] = v;
    }
}

// y = sqrt(x), by Newton's iteration until it stands still
extern "C" __global__ void newton(const real* x, real* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real root = x[i];
        for (int j = 0; j < 100; ++j) {
            real next = real(0.5) * (root + x[i] / root);
            if (fabs(next - root) < real(1e-7) * next) break;
            root = next;
        }
        y[i] = root;
    }
}

// y = the largest of the column
extern "C" __global__ void largest(const real* x, real* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real best = -INFINITY;
        for (int j = 0; j < m; ++j) {
            if (x[j * n + i] <= best) continue;
            best = x[j * n + i];
        }
        y[i] = best;
    }
}

// y = x^2 * (sum of s): the sum is used after its loop
extern "C" __global__ void after_the_loop(const real* x, const real* s, real* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        real g = x[i] * x[i];
        real sum = 0;
        for (int j = 0; j < m; ++j) {
            sum += s[j];
        }
        y[i] = g * sum;
    }
}
