#include "conv2d/register_tile.cuh"
#include "conv2d/taps.cuh"

// dw = dy^T @ patches. A row is a kernel, a column a place (r, s, c) of it; the sum goes down the pixels of both factors. It
// is long, and dw small, so several blocks share a tile: each adds up `chunk` pixels and writes a part of dw,
// (parts, K, R, S, C), and another launch adds up the parts. block -> ROWS x COLUMNS tile of its part.
template <int RUN>
__device__ void backward_w(
    const real* dy, const real* x, real* parts, const Window& at, int kernels, int images, int chunk) {
    int top = blockIdx.x * ROWS, left = blockIdx.y * COLUMNS, places = at.rows * at.columns * at.channels;
    int pixels = images * at.out_height * at.out_width, first = blockIdx.z * chunk, stop = min(first + chunk, pixels);
    auto store = [=](int row, int column, const Vec& sum) {
        row += top;
        if (row < kernels) write<RUN>(parts + (blockIdx.z * kernels + row) * places, left + column, places, sum);
    };
    register_product(
        Matrix<RegisterTile<ROWS, DOWN, RUN>, DOWN>(dy + first * kernels, top, stop - first, kernels),
        Pixels<RegisterTile<COLUMNS, DOWN, RUN>>(x, taps_of(at), first, stop, left), stop - first, store);
}

extern "C" __global__ void __launch_bounds__(FOUR_WARPS, AT_ONCE<ROWS * COLUMNS>) conv2d_register_tile_backward_w(
    const real* dy, const real* x, real* parts, Window at, int kernels, int images, int chunk) {
    if (at.channels % LANES == 0 && kernels % LANES == 0) backward_w<LANES>(dy, x, parts, at, kernels, images, chunk);
    else backward_w<1>(dy, x, parts, at, kernels, images, chunk);
}
