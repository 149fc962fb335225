// exp and 1 / x for results that are rounded to bfloat16 at last: by the instructions that miss the last bits of a float.
#pragma once
#include "common.cuh"

constexpr bool ROUNDED = sizeof(real) == 2;

__device__ inline wide quick_exp(wide x) { return ROUNDED ? wide(__expf(x)) : exp(x); }
__device__ inline wide quick_inverse(wide x) { return ROUNDED ? wide(__fdividef(1, x)) : 1 / x; }
