#include "conv2d/taps.cuh"
#include "matmul/tensor_cores.cuh"

// dw = dy^T @ patches. A row is a kernel, a column a place (r, s, c) of it; the sum goes down the pixels of both factors. It
// is long, and dw small, so several blocks share a tile: each adds up `chunk` pixels, a multiple of 64, and writes a part
// of dw, (parts, K, R, S, C). Another launch adds up the parts, always in the same order.
// block -> ROWS x COLUMNS tile of its part.
template <class Arithmetic>
__device__ void backward_w(
    const typename Arithmetic::T* dy, const typename Arithmetic::T* x, float* parts, const Window& at, int kernels,
    int images, int chunk) {
    using T = typename Arithmetic::T;
    int top = blockIdx.x * ROWS, left = blockIdx.y * COLUMNS, places = at.rows * at.columns * at.channels;
    int pixels = images * at.out_height * at.out_width, first = blockIdx.z * chunk, stop = min(first + chunk, pixels);
    auto store = [=](int row, int column, float first, float second) {
        row += top, column += left;
        if (row >= kernels || column >= places) return;
        *reinterpret_cast<Pair<float>*>(parts + (blockIdx.z * kernels + row) * places + column) = {first, second};
    };
    product<Arithmetic>(
        Matrix<LeftTile<T, DOWN>, DOWN>(dy + first * kernels, top, stop - first, kernels),
        Pixels<RightTile<T, DOWN>>(x, taps_of(at), first, stop, left), stop - first, store);
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS) conv2d_mma_tf32_backward_w(
    const float* dy, const float* x, float* parts, Window at, int kernels, int images, int chunk) {
    backward_w<Tf32>(dy, x, parts, at, kernels, images, chunk);
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS) conv2d_mma_bf16_backward_w(
    const bfloat16* dy, const bfloat16* x, float* parts, Window at, int kernels, int images, int chunk) {
    backward_w<Bf16>(dy, x, parts, at, kernels, images, chunk);
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS) conv2d_mma_3xtf32_backward_w(
    const float* dy, const float* x, float* parts, Window at, int kernels, int images, int chunk) {
    backward_w<Tf32x3>(dy, x, parts, at, kernels, images, chunk);
}
