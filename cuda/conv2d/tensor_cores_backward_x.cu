#include "conv2d/taps.cuh"
#include "matmul/tensor_cores.cuh"

// dx, by a stride-1 convolution of dy for each parity: the pixels whose row and column leave the same rest when divided by
// the stride meet the same taps of the window. A row is a pixel of the parity blockIdx.z, a column a channel.
// block -> ROWS x COLUMNS tile of dx; where no tap meets a parity, the sum has no terms, and dx is 0.
template <class Arithmetic>
__device__ void backward_x(
    const typename Arithmetic::T* dy, const typename Arithmetic::T* w, typename Arithmetic::T* dx, const Window& at,
    int kernels, int images) {
    using T = typename Arithmetic::T;
    int top = blockIdx.x * ROWS, left = blockIdx.y * COLUMNS;
    ParityPixels own(at, blockIdx.z);
    int pixels = images * own.height * own.width;
    if (top >= pixels) return;
    auto store = [=](int row, int column, float first, float second) {
        row += top, column += left;
        if (row >= pixels || column >= at.channels) return;
        *reinterpret_cast<Pair<T>*>(dx + own.offset(at, row) + column) = {T(first), T(second)};
    };
    product<Arithmetic>(
        Patches<LeftTile<T, ALONG>>(dy, own.taps(at, kernels), top, pixels), Kernels<RightTile<T, DOWN>>(w, at, own, kernels, left),
        own.y.taps * own.x.taps * kernels, store);
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS) conv2d_mma_tf32_backward_x(
    const float* dy, const float* w, float* dx, Window at, int kernels, int images) {
    backward_x<Tf32>(dy, w, dx, at, kernels, images);
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS) conv2d_mma_bf16_backward_x(
    const bfloat16* dy, const bfloat16* w, bfloat16* dx, Window at, int kernels, int images) {
    backward_x<Bf16>(dy, w, dx, at, kernels, images);
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS) conv2d_mma_3xtf32_backward_x(
    const float* dy, const float* w, float* dx, Window at, int kernels, int images) {
    backward_x<Tf32x3>(dy, w, dx, at, kernels, images);
}
