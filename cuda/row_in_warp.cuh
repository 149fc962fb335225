// A row of up to 128 QUADS numbers, a multiple of four, in the registers of a warp, which waits for no other: lane -> four
// neighbors of every 128. A block has one for each of its threadIdx.y.
#pragma once
#include "reduce.cuh"
#include "vector.cuh"

#ifndef CENTER
#define CENTER 1
#endif
#ifndef QUADS
#define QUADS 8
#endif

struct HeldRow {
    int number = blockIdx.x * blockDim.y + threadIdx.y, n;
    Four<wide> own[QUADS];

    __device__ explicit HeldRow(int n) : n(n) {}
    // f(k, column) for the lane's numbers own[k], the first of which is in this column
    template <class F>
    __device__ void each(F f) {
#pragma unroll
        for (int k = 0; k < QUADS; ++k) {
            int i = (k * 32 + threadIdx.x) * LANES;
            if (i < n) f(k, i);
        }
    }
    // All loads are issued before the first number is used: 4 KB of each warp are on their way.
    template <class T>
    __device__ void read(const T* x) {
        each([&](int k, int i) { own[k] = as<wide>(once(x + number * n + i)); });
    }
    template <class T>
    __device__ void write(T* y) {
        each([&](int k, int i) { put(y, number * n + i, own[k]); });
    }
    // The sum over the row of f(number), in all lanes.
    template <class F>
    __device__ wide sum(F f) {
        wide all = 0;
        each([&](int k, int) {
#pragma unroll
            for (int j = 0; j < LANES; ++j) all += f(own[k].at[j]);
        });
        return lanes_reduce<32>(all, Add());
    }
    // own = (own - mean) * inverse * weight + bias; weight and bias may be null. The mean is 0 without CENTER.
    __device__ void normalize(const wide* weight, const wide* bias, wide eps, wide& mean, wide& inverse) {
        wide center = CENTER ? sum([](wide x) { return x; }) / n : 0;
        wide scale = 1 / sqrt(sum([=](wide x) { return (x - center) * (x - center); }) / n + eps);
        mean = center, inverse = scale;
        each([&](int k, int i) {
            Four<wide> factors = {1, 1, 1, 1}, terms = {0, 0, 0, 0};
            if (weight) factors = vec(weight + i);
            if (bias) terms = vec(bias + i);
#pragma unroll
            for (int j = 0; j < LANES; ++j) own[k].at[j] = (own[k].at[j] - center) * scale * factors.at[j] + terms.at[j];
        });
    }
};
