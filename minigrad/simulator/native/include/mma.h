// Fragments of tensor cores, nvcuda::wmma. A lane holds every 32nd element of a fragment's matrix in row-major order;
// CUDA leaves open which. A product takes the factors from all lanes by shuffles, sums in float (or double, or int), and
// rounds once.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

template <class T> struct Element { using Stored = T; using Sum = int; };
template <> struct Element<__half> { using Stored = __half; using Sum = float; };
template <> struct Element<__nv_bfloat16> { using Stored = __nv_bfloat16; using Sum = float; };
template <> struct Element<float> { using Stored = float; using Sum = float; };
template <> struct Element<precision::tf32> { using Stored = float; using Sum = float; };
template <> struct Element<double> { using Stored = double; using Sum = double; };

template <class Use, int M, int N, int K> struct Extents { static constexpr int rows = M, columns = N; };
template <int M, int N, int K> struct Extents<matrix_a, M, N, K> { static constexpr int rows = M, columns = K; };
template <int M, int N, int K> struct Extents<matrix_b, M, N, K> { static constexpr int rows = K, columns = N; };

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment : Extents<Use, M, N, K> {
    using element_type = typename Element<T>::Stored;
    static constexpr int num_elements = fragment::rows * fragment::columns / 32;
    element_type x[num_elements];
};

// The place in memory of the i-th element of this lane.
template <class F>
MINIGRAD_INLINE size_t place(unsigned i, unsigned stride, bool by_rows) {
    unsigned at = 32 * i + minigrad::lane(), row = at / F::columns, column = at % F::columns;
    return by_rows ? size_t(row) * stride + column : size_t(column) * stride + row;
}
template <class L> struct ByRows { static constexpr bool value = true; };
template <> struct ByRows<col_major> { static constexpr bool value = false; };

template <class Use, int M, int N, int K, class T, class L, class V>
MINIGRAD_INLINE void fill_fragment(fragment<Use, M, N, K, T, L>& f, const V& value) {
    for (auto& x : f.x) x = typename Element<T>::Stored(value);
}
template <class Use, int M, int N, int K, class T, class L, class P>
MINIGRAD_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, L>& f, const P* from, unsigned stride) {
    for (int i = 0; i < f.num_elements; ++i) f.x[i] = from[place<fragment<Use, M, N, K, T, L>>(i, stride, ByRows<L>::value)];
}
template <int M, int N, int K, class T, class P>
MINIGRAD_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const P* from, unsigned stride, layout_t l) {
    for (int i = 0; i < f.num_elements; ++i)
        f.x[i] = from[place<fragment<accumulator, M, N, K, T>>(i, stride, l == mem_row_major)];
}
template <int M, int N, int K, class T, class P>
MINIGRAD_INLINE void store_matrix_sync(P* to, const fragment<accumulator, M, N, K, T>& f, unsigned stride, layout_t l) {
    for (int i = 0; i < f.num_elements; ++i)
        to[place<fragment<accumulator, M, N, K, T>>(i, stride, l == mem_row_major)] = f.x[i];
}
MINIGRAD_INLINE float __float_to_tf32(float x) {
    return minigrad::float_of((minigrad::bits_of(x) + 0x1000) & ~0x1fffu);  // ties away from zero
}

template <int M, int N, int K, class T, class S, class LA, class LB, class R>
MINIGRAD_INLINE void mma_sync(
    fragment<accumulator, M, N, K, R>& d, const fragment<matrix_a, M, N, K, T, LA>& a,
    const fragment<matrix_b, M, N, K, T, LB>& b, const fragment<accumulator, M, N, K, S>& c, MINIGRAD_HERE) {
    using Sum = typename Element<T>::Sum;
    Sum x[M * K], y[K * N];
    for (int i = 0; i < M * K; ++i) x[i] = __shfl_sync(~0u, Sum(a.x[i / 32]), i % 32, 32, file, line);
    for (int i = 0; i < K * N; ++i) y[i] = __shfl_sync(~0u, Sum(b.x[i / 32]), i % 32, 32, file, line);
    for (int i = 0; i < d.num_elements; ++i) {
        unsigned at = 32 * i + minigrad::lane(), row = at / N, column = at % N;
        Sum sum = Sum(c.x[i]);
        for (int k = 0; k < K; ++k) sum += x[row * K + k] * y[k * N + column];
        d.x[i] = typename Element<R>::Stored(sum);
    }
}

}  // namespace wmma
}  // namespace nvcuda
