// CUDA's complex numbers: a float2 or a double2.
#pragma once

typedef float2 cuFloatComplex;
typedef float2 cuComplex;
typedef double2 cuDoubleComplex;

// S is the ending of the functions' names, R the type of the parts, A that in the names of C's functions.
#define MINIGRAD_COMPLEX(T, R, S, A)                                                                      \
    MINIGRAD_INLINE R cuCreal##S(T x) { return x.x; }                                                     \
    MINIGRAD_INLINE R cuCimag##S(T x) { return x.y; }                                                     \
    MINIGRAD_INLINE T cuConj##S(T x) { return {x.x, -x.y}; }                                              \
    MINIGRAD_INLINE T cuCadd##S(T x, T y) { return {x.x + y.x, x.y + y.y}; }                              \
    MINIGRAD_INLINE T cuCsub##S(T x, T y) { return {x.x - y.x, x.y - y.y}; }                              \
    MINIGRAD_INLINE T cuCmul##S(T x, T y) { return {x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x}; }      \
    MINIGRAD_INLINE T cuCdiv##S(T x, T y) {                                                               \
        R scale = 1 / (fabs##A(y.x) + fabs##A(y.y)), a = y.x * scale, b = y.y * scale;                    \
        R length = 1 / (a * a + b * b), u = x.x * scale, v = x.y * scale;                                 \
        return {(u * a + v * b) * length, (v * a - u * b) * length};                                      \
    }                                                                                                     \
    MINIGRAD_INLINE R cuCabs##S(T x) { return hypot##A(x.x, x.y); }                                       \
    MINIGRAD_INLINE T cuCfma##S(T x, T y, T z) { return cuCadd##S(cuCmul##S(x, y), z); }
MINIGRAD_COMPLEX(cuFloatComplex, float, f, f)
MINIGRAD_COMPLEX(cuDoubleComplex, double, , )
#undef MINIGRAD_COMPLEX
MINIGRAD_INLINE cuFloatComplex make_cuFloatComplex(float x, float y) { return {x, y}; }
MINIGRAD_INLINE cuComplex make_cuComplex(float x, float y) { return {x, y}; }
MINIGRAD_INLINE cuDoubleComplex make_cuDoubleComplex(double x, double y) { return {x, y}; }
MINIGRAD_INLINE cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return {x.x, x.y}; }
MINIGRAD_INLINE cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) { return {float(x.x), float(x.y)}; }
