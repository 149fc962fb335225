// Shared by every kernel file: the element type, and strided views.
#pragma once
#include "bfloat16.cuh"

#ifndef real
#define real float  // the element type in memory: the build says double for float64 arrays, and bfloat16 for those
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

// The type of arithmetic and of sums: float for bfloat16, and else `real` itself.
template <class T> struct Wide { using type = T; };
template <> struct Wide<bfloat16> { using type = float; };
using wide = Wide<real>::type;

constexpr int MAX_DIMS = 8;

// A strided view of an array, e.g. broadcast, transposed or sliced:
// element i in C order of the view lies at offset + sum(index[d] * stride[d]).
struct View {
    int ndim;
    int offset;
    int shape[MAX_DIMS];   // the innermost axis first
    int stride[MAX_DIMS];  // in elements; 0 along an axis that is broadcast

    // Unrolled, every index is a constant, so the view stays in the fast memory of the kernel's parameters; a loop that
    // indexes it at run time would copy it to the local memory of each thread.
    __device__ int operator()(int i) const {
        int at = offset;
#pragma unroll
        for (int d = 0; d < MAX_DIMS - 1; ++d) {
            if (d >= ndim - 1) return at + i * stride[d];  // the last axis; a view of one axis needs no division
            at += i % shape[d] * stride[d];
            i /= shape[d];
        }
        return at + i * stride[MAX_DIMS - 1];
    }
};
