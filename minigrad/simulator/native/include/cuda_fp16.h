// half and half2.
#pragma once
#include "minigrad_small_floats.h"

MINIGRAD_SMALL_FLOAT(__half, HalfFormat)
MINIGRAD_SMALL_CONVERSIONS(__half, half)
MINIGRAD_INLINE __half2 __halves2half2(__half x, __half y) { return {x, y}; }
MINIGRAD_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
typedef __half half;
typedef __half2 half2;
