#include "conv2d/register_tile.cuh"
#include "conv2d/taps.cuh"

// dx, by a convolution of dy with stride 1 for each parity: a row is a pixel of the parity blockIdx.z, a column a channel.
// block -> ROWS x COLUMNS tile of dx; where no tap meets a parity, the sum has no terms, and dx is 0.
template <int RUN>
__device__ void backward_x(const real* dy, const real* w, real* dx, const Window& at, int kernels, int images) {
    int top = blockIdx.x * ROWS, left = blockIdx.y * COLUMNS;
    ParityPixels own(at, blockIdx.z);
    int pixels = images * own.height * own.width;
    if (top >= pixels) return;
    auto store = [=](int row, int column, const Vec& sum) {
        row += top;
        if (row < pixels) write<RUN>(dx + own.offset(at, row), left + column, at.channels, sum);
    };
    register_product(
        Patches<RegisterTile<ROWS, ALONG, RUN>>(dy, own.taps(at, kernels), top, pixels),
        Kernels<RegisterTile<COLUMNS, DOWN, RUN>>(w, at, own, kernels, left), own.y.taps * own.x.taps * kernels, store);
}

extern "C" __global__ void __launch_bounds__(FOUR_WARPS, AT_ONCE<ROWS * COLUMNS>) conv2d_register_tile_backward_x(
    const real* dy, const real* w, real* dx, Window at, int kernels, int images) {
    if (at.channels % LANES == 0 && kernels % LANES == 0) backward_x<LANES>(dy, w, dx, at, kernels, images);
    else backward_x<1>(dy, w, dx, at, kernels, images);
}
