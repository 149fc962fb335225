// __nv_bfloat16 and __nv_bfloat162.
#pragma once
#include "minigrad_small_floats.h"

MINIGRAD_SMALL_FLOAT(__nv_bfloat16, Bfloat16Format)
MINIGRAD_SMALL_CONVERSIONS(__nv_bfloat16, bfloat16)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
