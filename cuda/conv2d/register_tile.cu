#include "conv2d/register_tile.cuh"
#include "conv2d/taps.cuh"

// The three products of a convolution, of images and kernels whose channels are last in memory: x (N, H, W, C),
// w (K, R, S, C), y (N, P, Q, K). Neighbors in memory are then neighbors in the sum, and a thread copies four at once, where
// the numbers of channels and kernels are multiples of four, or one by one. Windows are at most 15 x 15.

// y = patches @ w^T + bias. A row is a pixel (n, p, q) of y, a column a kernel; both factors have the sum over (r, s, c)
// along their rows. block -> ROWS x COLUMNS tile of y.
template <int RUN>
__device__ void forward(const real* x, const real* w, const real* bias, real* y, const Window& at, int kernels, int images) {
    int top = blockIdx.x * ROWS, left = blockIdx.y * COLUMNS;
    int pixels = images * at.out_height * at.out_width, terms = at.rows * at.columns * at.channels;
    auto store = [=](int row, int column, real sum) {
        row += top, column += left;
        if (row < pixels && column < kernels) y[row * kernels + column] = sum + (bias ? bias[column] : real(0));
    };
    register_product(
        Patches<RegisterTile<ROWS, ALONG, RUN>>(x, taps_of(at), top, pixels),
        Matrix<RegisterTile<COLUMNS, ALONG, RUN>, ALONG>(w, left, kernels, terms), terms, store);
}

extern "C" __global__ void __launch_bounds__(FOUR_WARPS, AT_ONCE<ROWS * COLUMNS>) conv2d_register_tile(
    const real* x, const real* w, const real* bias, real* y, Window at, int kernels, int images) {
    if (at.channels % LANES == 0) forward<LANES>(x, w, bias, y, at, kernels, images);
    else forward<1>(x, w, bias, y, at, kernels, images);
}
