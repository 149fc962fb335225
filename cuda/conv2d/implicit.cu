#include "window.cuh"

#ifndef TILE
#define TILE 16
#endif

// The three products of a convolution as in matmul_tiled, but of matrices that are nowhere in memory: a(row, term) and
// b(term, column) find an element where im2col would have copied it from. block -> TILE x TILE tile of the result of one
// group; thread -> one element of it.
template <class A, class B, class Store>
__device__ void tiled_product(int rows, int columns, int terms, A a, B b, Store store) {
    __shared__ wide a_tile[TILE][TILE], b_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    wide sum = 0;
    for (int start = 0; start < terms; start += TILE) {
        a_tile[y][x] = row < rows && start + x < terms ? a(row, start + x) : real(0);
        b_tile[y][x] = start + y < terms && column < columns ? b(start + y, column) : real(0);
        __syncthreads();  // the tiles are complete
        for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();  // and read by all, before the next ones overwrite them
    }
    if (row < rows && column < columns) store(row, column, sum);
}

// y = w @ patches. A row is a kernel of the group, a column a pixel (n, p, q) of y, a term a place (c, r, s) of w.
extern "C" __global__ void conv2d_implicit(
    const real* x, const real* w, const real* bias, real* y, Window at, int kernels, int groups, int images) {
    // [own]
    int each = at.channels / groups, share = kernels / groups, group = blockIdx.z, pixels = at.out_height * at.out_width;
    int places = at.rows * at.columns;
    // [load]
    auto weight = [=](int k, int term) { return w[(group * share + k) * each * places + term]; };
    auto patch = [=](int term, int pixel) {
        int c = group * each + term / places, r = term % places / at.columns, s = term % at.columns;
        int n = pixel / pixels, p = pixel % pixels / at.out_width, q = pixel % at.out_width;
        int h = at.row(p, r), v = at.column(q, s);
        return at.inside(h, v) ? x[((n * at.channels + c) * at.height + h) * at.width + v] : real(0);
    };
    // [store]
    auto store = [=](int row, int pixel, wide sum) {
        int k = group * share + row;
        y[(pixel / pixels * kernels + k) * pixels + pixel % pixels] = sum + (bias ? bias[k] : real(0));
    };
    tiled_product(share, images * pixels, each * places, weight, patch, store);
}

// dx: a row is a channel of the group, a column a pixel (n, h, v) of x, a term a place (k, r, s): the output that the
// pixel went to at this place of the window, or 0 where there is none.
extern "C" __global__ void conv2d_implicit_backward_x(
    const real* dy, const real* w, real* dx, Window at, int kernels, int groups, int images) {
    int each = at.channels / groups, share = kernels / groups, group = blockIdx.z, pixels = at.height * at.width;
    int places = at.rows * at.columns;
    auto weight = [=](int c, int term) {
        int k = group * share + term / places;
        return w[(k * each + c) * places + term % places];
    };
    auto upstream = [=](int term, int pixel) {
        int k = group * share + term / places, r = term % places / at.columns, s = term % at.columns;
        int n = pixel / pixels, p = at.out_row(pixel % pixels / at.width, r), q = at.out_column(pixel % at.width, s);
        return p >= 0 && q >= 0 ? dy[((n * kernels + k) * at.out_height + p) * at.out_width + q] : real(0);
    };
    auto store = [=](int row, int pixel, wide sum) {
        dx[(pixel / pixels * at.channels + group * each + row) * pixels + pixel % pixels] = sum;
    };
    tiled_product(each, images * pixels, share * places, weight, upstream, store);
}

// dw: a row is a kernel of the group, a column a place (c, r, s) of w, a term a pixel (n, p, q) of y. This sum is the
// longest, over all images, and its result the smallest: few blocks share the work.
extern "C" __global__ void conv2d_implicit_backward_w(
    const real* dy, const real* x, real* dw, Window at, int kernels, int groups, int images) {
    int each = at.channels / groups, share = kernels / groups, group = blockIdx.z, pixels = at.out_height * at.out_width;
    int places = at.rows * at.columns;
    auto upstream = [=](int k, int pixel) {
        return dy[(pixel / pixels * kernels + group * share + k) * pixels + pixel % pixels];
    };
    auto patch = [=](int pixel, int place) {
        int c = group * each + place / places, r = place % places / at.columns, s = place % at.columns;
        int n = pixel / pixels, h = at.row(pixel % pixels / at.out_width, r), v = at.column(pixel % at.out_width, s);
        return at.inside(h, v) ? x[((n * at.channels + c) * at.height + h) * at.width + v] : real(0);
    };
    auto store = [=](int k, int place, wide sum) { dw[(group * share + k) * each * places + place] = sum; };
    tiled_product(share, each * places, images * pixels, upstream, patch, store);
}
