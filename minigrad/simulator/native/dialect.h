// CUDA C++ for a host compiler: included before every kernel file, it defines each CUDA name for the CPU.
#pragma once

#include <cfloat>
#include <cstddef>
#if defined(_GLIBCXX_RELEASE) || defined(__GLIBCXX__)
// <math.h> takes three times as long to compile with the Bessel functions. <cstddef> has defined the macro unset here.
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#endif
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <utility>  // with <type_traits>, as cuda_runtime.h has it

#include "abi.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

// Functions of the dialect are inlined into their callers, so that a fault is on the kernel's line.
#define MINIGRAD_INLINE static inline __attribute__((always_inline, unused))

// What Python looks up; GCC leaves out all else that nothing calls.
#ifdef __clang__
#define MINIGRAD_VISIBLE __attribute__((visibility("default")))
#else
#define MINIGRAD_VISIBLE __attribute__((visibility("default"), externally_visible))
#endif

#ifdef __GLIBC__
// The usual functions of the host that would end Python. A call of one does not compile.
#ifdef __clang__  // its `error` must stand at the first declaration
#define MINIGRAD_HOST_ONLY __attribute__((noreturn, unavailable("it is a function of the host, not of a kernel")))
#else
#define MINIGRAD_HOST_ONLY __attribute__((noreturn, error("it is a function of the host, not of a kernel")))
#endif
extern "C" void exit(int) noexcept MINIGRAD_HOST_ONLY;
extern "C" void _exit(int) MINIGRAD_HOST_ONLY;
extern "C" void _Exit(int) noexcept MINIGRAD_HOST_ONLY;
extern "C" void quick_exit(int) noexcept MINIGRAD_HOST_ONLY;
extern "C" void abort() noexcept MINIGRAD_HOST_ONLY;
#endif

// new and delete of a kernel, without the C++ library.
inline void* operator new(size_t bytes) { return malloc(bytes); }
inline void* operator new[](size_t bytes) { return malloc(bytes); }
inline void operator delete(void* memory) noexcept { free(memory); }
inline void operator delete[](void* memory) noexcept { free(memory); }
inline void operator delete(void* memory, size_t) noexcept { free(memory); }
inline void operator delete[](void* memory, size_t) noexcept { free(memory); }

#include "dialect/host_api.h"
#include "dialect/instrumentation.h"
#include "dialect/vectors.h"
#include "dialect/block.h"
#include "dialect/warp.h"
#include "dialect/atomics.h"
#include "dialect/ordered_atomics.h"
#include "dialect/arithmetic.h"
#include "dialect/rounding.h"
#include "dialect/integers.h"
#include "dialect/bytes.h"
#include "dialect/tensor_cores.h"
#include "include/assert.h"

#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define CUDART_VERSION 13000
#define __CUDA_ARCH__ 700  // threads of a warp advance independently, as on every GPU since Volta
#define MINIGRAD_SIM 1
