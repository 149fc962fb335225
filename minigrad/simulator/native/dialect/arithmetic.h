// CUDA's arithmetic functions that C++ lacks. The fast intrinsics are exact here.
#pragma once

#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif

// min and max for CUDA's pairs of types: the result has the wider type, unsigned if either is.
#define MINIGRAD_MIN_MAX(A, B, R)                                                                         \
    MINIGRAD_INLINE constexpr R min(A a, B b) { return (R)b < (R)a ? (R)b : (R)a; }                       \
    MINIGRAD_INLINE constexpr R max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }
MINIGRAD_MIN_MAX(int, int, int)
MINIGRAD_MIN_MAX(unsigned, unsigned, unsigned)
MINIGRAD_MIN_MAX(int, unsigned, unsigned)
MINIGRAD_MIN_MAX(unsigned, int, unsigned)
MINIGRAD_MIN_MAX(int, long, long)
MINIGRAD_MIN_MAX(long, int, long)
MINIGRAD_MIN_MAX(int, long long, long long)
MINIGRAD_MIN_MAX(long long, int, long long)
MINIGRAD_MIN_MAX(unsigned, unsigned long, unsigned long)
MINIGRAD_MIN_MAX(unsigned long, unsigned, unsigned long)
MINIGRAD_MIN_MAX(long, long, long)
MINIGRAD_MIN_MAX(unsigned long, unsigned long, unsigned long)
MINIGRAD_MIN_MAX(long, unsigned long, unsigned long)
MINIGRAD_MIN_MAX(unsigned long, long, unsigned long)
MINIGRAD_MIN_MAX(long long, long long, long long)
MINIGRAD_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
MINIGRAD_MIN_MAX(long long, unsigned long long, unsigned long long)
MINIGRAD_MIN_MAX(unsigned long long, long long, unsigned long long)
#undef MINIGRAD_MIN_MAX

// Floating-point numbers: if one is NaN the result is the other, as in fmin and fmax.
MINIGRAD_INLINE float min(float a, float b) { return fminf(a, b); }
MINIGRAD_INLINE float max(float a, float b) { return fmaxf(a, b); }
MINIGRAD_INLINE double min(double a, double b) { return ::fmin(a, b); }
MINIGRAD_INLINE double max(double a, double b) { return ::fmax(a, b); }
MINIGRAD_INLINE double min(float a, double b) { return ::fmin(double(a), b); }
MINIGRAD_INLINE double max(float a, double b) { return ::fmax(double(a), b); }
MINIGRAD_INLINE double min(double a, float b) { return ::fmin(a, double(b)); }
MINIGRAD_INLINE double max(double a, float b) { return ::fmax(a, double(b)); }

// C23 adds these names to the C library; a macro keeps its functions and ours apart.
#define rsqrt minigrad_rsqrt
#define sinpi minigrad_sinpi
#define cospi minigrad_cospi
MINIGRAD_INLINE float rsqrt(float x) { return 1 / sqrtf(x); }
MINIGRAD_INLINE double rsqrt(double x) { return 1 / ::sqrt(x); }
namespace minigrad {
// sin(pi x), or that of `quarters` quarters of a turn more; exactly 0 and 1 where they are.
MINIGRAD_INLINE double sine_of_half_turns(double x, int quarters) {
    if (!(fabs(x) < INFINITY)) return NAN;
    double turn = ::fmod(x, 2.0), near = ::rint(2 * turn), rest = 3.14159265358979324 * (turn - near / 2);
    quarters += int(near);
    double value = quarters & 1 ? ::cos(rest) : ::sin(rest);
    return quarters & 2 ? -value : value;
}
}  // namespace minigrad
MINIGRAD_INLINE double sinpi(double x) { return x == ::trunc(x) ? x * 0 : minigrad::sine_of_half_turns(x, 0); }
MINIGRAD_INLINE double cospi(double x) { return minigrad::sine_of_half_turns(x, 1) + 0.0; }  // no -0
MINIGRAD_INLINE float sinpi(float x) { return sinpi(double(x)); }
MINIGRAD_INLINE float cospi(float x) { return cospi(double(x)); }
#define rsqrtf(x) minigrad_rsqrt((float)(x))
#define sinpif(x) minigrad_sinpi((float)(x))
#define cospif(x) minigrad_cospi((float)(x))

MINIGRAD_INLINE void sincospif(float x, float* s, float* c) { *s = sinpi(x), *c = cospi(x); }
MINIGRAD_INLINE void sincospi(double x, double* s, double* c) { *s = sinpi(x), *c = cospi(x); }
MINIGRAD_INLINE float rcbrtf(float x) { return 1 / cbrtf(x); }
MINIGRAD_INLINE double rcbrt(double x) { return 1 / ::cbrt(x); }
MINIGRAD_INLINE float fdividef(float x, float y) { return x / y; }
// The modified Bessel functions of the first kind, of order 0 and 1: all terms of the series have one sign.
namespace minigrad {
MINIGRAD_INLINE double bessel_i(int order, double x) {
    if (fabs(x) > 720) return order && x < 0 ? -INFINITY : INFINITY;
    long double quarter = (long double)x * x / 4, term = order ? (long double)x / 2 : 1, sum = term;
    for (int k = 1; fabsl(term) > fabsl(sum) * 1e-20L; ++k) sum += term *= quarter / (k * (long double)(k + order));
    return sum;
}
}  // namespace minigrad
MINIGRAD_INLINE double cyl_bessel_i0(double x) { return minigrad::bessel_i(0, x); }
MINIGRAD_INLINE double cyl_bessel_i1(double x) { return minigrad::bessel_i(1, x); }
MINIGRAD_INLINE float cyl_bessel_i0f(float x) { return minigrad::bessel_i(0, x); }
MINIGRAD_INLINE float cyl_bessel_i1f(float x) { return minigrad::bessel_i(1, x); }

// With more digits on the way: where erfc is small, its relative error is 2 x^2 times that of x.
MINIGRAD_INLINE double normcdf(double x) { return 0.5L * erfcl(-0.70710678118654752440L * x); }
MINIGRAD_INLINE float normcdff(float x) { return normcdf(x); }
// Without overflow on the way; infinite if one of the numbers is, even beside NaN.
MINIGRAD_INLINE double rhypot(double x, double y) { return 1 / ::hypot(x, y); }
MINIGRAD_INLINE double norm3d(double x, double y, double z) { return ::hypot(::hypot(x, y), z); }
MINIGRAD_INLINE double rnorm3d(double x, double y, double z) { return 1 / norm3d(x, y, z); }
MINIGRAD_INLINE double norm4d(double x, double y, double z, double w) { return ::hypot(norm3d(x, y, z), w); }
MINIGRAD_INLINE double rnorm4d(double x, double y, double z, double w) { return 1 / norm4d(x, y, z, w); }
MINIGRAD_INLINE float rhypotf(float x, float y) { return rhypot(x, y); }
MINIGRAD_INLINE float norm3df(float x, float y, float z) { return norm3d(x, y, z); }
MINIGRAD_INLINE float rnorm3df(float x, float y, float z) { return rnorm3d(x, y, z); }
MINIGRAD_INLINE float norm4df(float x, float y, float z, float w) { return norm4d(x, y, z, w); }
MINIGRAD_INLINE float rnorm4df(float x, float y, float z, float w) { return rnorm4d(x, y, z, w); }
// The length of a vector of any number of elements.
MINIGRAD_INLINE double norm(int dim, const double* x) {
    double length = 0;
    for (int i = 0; i < dim; ++i) length = ::hypot(length, x[i]);
    return length;
}
MINIGRAD_INLINE float normf(int dim, const float* x) {
    double length = 0;
    for (int i = 0; i < dim; ++i) length = ::hypot(length, double(x[i]));
    return length;
}
MINIGRAD_INLINE double rnorm(int dim, const double* x) { return 1 / norm(dim, x); }
MINIGRAD_INLINE float rnormf(int dim, const float* x) { return 1 / normf(dim, x); }
MINIGRAD_INLINE double erfcx(double x) {  // exp(x^2) erfc(x); its continued fraction where both factors leave the range
    if (x < 25) return expl((long double)x * x) * erfcl(x);
    double fraction = 0;
    for (int k = 20; k; --k) fraction = 0.5 * k / (x + fraction);
    return 0.564189583547756287 / (x + fraction);
}
MINIGRAD_INLINE float erfcxf(float x) { return erfcx(x); }
// The inverse of erfc by Newton's steps from a rational start; erfinv(y) = erfcinv(1 - y), exact near 0 by symmetry.
MINIGRAD_INLINE double erfinv(double y) {
    if (!(y > -1 && y < 1)) return y == 1 ? INFINITY : y == -1 ? -INFINITY : NAN;
    double w = ::log1p(-y * y), t = 4.33075024287014 + w / 2;  // 2 / (pi 0.147)
    double x = ::copysign(::sqrt(::sqrt(t * t - w / 0.147) - t), y);
    for (int i = 0; i < 3; ++i) {
        double left = (y > 0.5 ? (1 - y) - ::erfc(x) : y < -0.5 ? ::erfc(-x) - (1 + y) : ::erf(x) - y);
        double step = left / (1.12837916709551257 * ::exp(-x * x));
        x -= step / (1 + x * step);
    }
    return x;
}
MINIGRAD_INLINE double erfcinv(double y) {
    if (y > 0.1) return erfinv(1 - y);
    if (!(y > 0)) return y == 0 ? INFINITY : NAN;
    double x = ::sqrt(-::log(y * ::sqrt(-::log(y) * 3.14159265358979324)));
    for (int i = 0; i < 6; ++i) {
        double step = (::erfc(x) - y) / (1.12837916709551257 * ::exp(-x * x));
        x += step / (1 - x * step);
    }
    return x;
}
MINIGRAD_INLINE float erfinvf(float y) { return erfinv(y); }
MINIGRAD_INLINE float erfcinvf(float y) { return erfcinv(y); }
MINIGRAD_INLINE double normcdfinv(double p) { return -1.41421356237309505 * erfcinv(2 * p); }
MINIGRAD_INLINE float normcdfinvf(float p) { return normcdfinv(p); }
#ifndef __GLIBC__  // glibc's <math.h> has them as CUDA does
MINIGRAD_INLINE void sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
MINIGRAD_INLINE void sincos(double x, double* s, double* c) { *s = ::sin(x), *c = ::cos(x); }
MINIGRAD_INLINE float exp10f(float x) { return powf(10.0f, x); }
MINIGRAD_INLINE double exp10(double x) { return ::pow(10.0, x); }
#endif

// The fast versions are exact here, but where theirs is another number. They are macros, as some C libraries use the
// same names internally.
#define __expf expf
#define __exp10f(x) powf(10.0f, x)
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf(x, y) float(::exp2((y) * ::log2(double(x))))  // NaN for x below 0, and of 0 to the power 0
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __sincosf sincosf
MINIGRAD_INLINE float __fdividef(float x, float y) {  // 1 / y is 0 before y is infinite
    return fabsf(y) > 0x1p126f && fabsf(y) < INFINITY ? x * 0 : x / y;
}
MINIGRAD_INLINE float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }  // NaN becomes 0

MINIGRAD_INLINE int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
MINIGRAD_INLINE unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
MINIGRAD_INLINE float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
MINIGRAD_INLINE float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
MINIGRAD_INLINE long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
MINIGRAD_INLINE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

MINIGRAD_INLINE int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
MINIGRAD_INLINE int __double2loint(double x) { return int(__double_as_longlong(x)); }
MINIGRAD_INLINE double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)high << 32 | (unsigned)low);
}

// Loads and stores with cache hints.
template <class T> MINIGRAD_INLINE T __ldlu(const T* p) { return *p; }
template <class T> MINIGRAD_INLINE T __ldcv(const T* p) { return *p; }
template <class T> MINIGRAD_INLINE T __ldg(const T* p) { return *p; }
template <class T> MINIGRAD_INLINE T __ldcg(const T* p) { return *p; }
template <class T> MINIGRAD_INLINE T __ldca(const T* p) { return *p; }
template <class T> MINIGRAD_INLINE T __ldcs(const T* p) { return *p; }
template <class T> MINIGRAD_INLINE void __stcg(T* p, T value) { *p = value; }
template <class T> MINIGRAD_INLINE void __stcs(T* p, T value) { *p = value; }
template <class T> MINIGRAD_INLINE void __stwb(T* p, T value) { *p = value; }
template <class T> MINIGRAD_INLINE void __stwt(T* p, T value) { *p = value; }
