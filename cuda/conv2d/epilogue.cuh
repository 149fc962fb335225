// What becomes of a sum before it is stored: y = relu(sum + bias + residual), each of the three where it is wanted.
#pragma once
#include "common.cuh"

template <class T>
struct Epilogue {
    const T *bias, *residual;
    bool relu;

    __device__ float start(int kernel) const { return bias ? float(bias[kernel]) : 0; }
    __device__ float more(int at) const { return residual ? float(residual[at]) : 0; }
    __device__ float cut(float y) const { return relu && y < 0 ? 0 : y; }  // asked this way round, NaN stays NaN
};
