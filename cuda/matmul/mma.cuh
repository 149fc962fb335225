// Tensor cores: one instruction of a warp multiplies two small matrices. C++ has no expression for it, so this is PTX, the
// assembly language of NVIDIA's GPUs. The simulator has functions that do the same.
#pragma once
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900 && !defined(MINIGRAD_SIM)
#error "these blocks take more shared memory than GPUs before sm_90 have; on this GPU: matmul as it is, in float32"
#endif
#include "async_copy.cuh"

// Loads four 8 x 8 matrices of 16-bit numbers, or 8 x 4 of 32-bit ones, from shared memory: lane i gives the address of
// their i-th row and gets, of each matrix, a pair of row i / 4.
__device__ inline void load_matrices(unsigned (&own)[4], const void* row) {
#ifdef MINIGRAD_SIM
    minigrad::load_matrices(own, *static_cast<const uint4*>(row));
#else
    unsigned from = __cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(own[0]), "=r"(own[1]), "=r"(own[2]), "=r"(own[3]) : "r"(from) : "memory");
#endif
}

// The same, transposed: a pair of column i / 4.
__device__ inline void load_transposed(unsigned (&own)[4], const void* row) {
#ifdef MINIGRAD_SIM
    minigrad::load_transposed(own, *static_cast<const uint4*>(row));
#else
    unsigned from = __cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(own[0]), "=r"(own[1]), "=r"(own[2]), "=r"(own[3]) : "r"(from) : "memory");
#endif
}

// c += a @ b: (16, 16) @ (16, 8) of bfloat16, summed in float. Each lane holds a part of each matrix.
__device__ inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#ifdef MINIGRAD_SIM
    minigrad::mma_bf16(c, a, b0, b1);
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// c += a @ b: (16, 8) @ (8, 8) of TF32, a float with 10 bits after the point.
__device__ inline void mma_tf32(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#ifdef MINIGRAD_SIM
    minigrad::mma_tf32(c, a, b0, b1);
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// The bits of the nearest TF32. The tensor core itself would truncate, with twice the error. Hopper rounds by one
// instruction, ties to even.
__device__ inline unsigned to_tf32(unsigned bits) {
#ifdef MINIGRAD_SIM
    return minigrad::rounded(bits, 13);
#else
    unsigned rounded;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
#endif
}
