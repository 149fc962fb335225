// half and half2.
#pragma once
#include "minigrad_small_floats.h"

MINIGRAD_SMALL_FLOAT(__half, HalfFormat)
MINIGRAD_SMALL_CONVERSIONS(__half, half)
typedef __half half;
typedef __half2 half2;
