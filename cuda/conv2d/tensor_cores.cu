#include "conv2d/epilogue.cuh"
#include "conv2d/taps.cuh"
#include "matmul/tensor_cores.cuh"

// y = relu(patches @ w^T + bias + residual). A row is a pixel (n, p, q) of y, a column a kernel; both factors have the sum over (r, s, c)
// along their rows. block -> ROWS x COLUMNS tile of y.
template <class Arithmetic>
__device__ void forward(
    const typename Arithmetic::T* x, const typename Arithmetic::T* w, const Epilogue<typename Arithmetic::T>& end,
    typename Arithmetic::T* y, const Window& at, int kernels, int images) {
    using T = typename Arithmetic::T;
    int top = blockIdx.x * ROWS, left = blockIdx.y * COLUMNS;
    int pixels = images * at.out_height * at.out_width, terms = at.rows * at.columns * at.channels;
    auto store = [=](int row, int column, float first, float second) {
        row += top, column += left;
        if (row >= pixels || column >= kernels) return;
        int at = row * kernels + column;
        first = first + end.start(column) + end.more(at), second = second + end.start(column + 1) + end.more(at + 1);
        *reinterpret_cast<Pair<T>*>(y + at) = {T(end.cut(first)), T(end.cut(second))};
    };
    product<Arithmetic>(
        Patches<LeftTile<T, ALONG>>(x, taps_of(at), top, pixels),
        Matrix<RightTile<T, ALONG>, ALONG>(w, left, kernels, terms), terms, store);
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS) conv2d_mma_tf32(
    const float* x, const float* w, const float* bias, const float* residual, float* y, Window at, int kernels, int images,
    int relu) {
    forward<Tf32>(x, w, {bias, residual, relu != 0}, y, at, kernels, images);
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS) conv2d_mma_bf16(
    const bfloat16* x, const bfloat16* w, const bfloat16* bias, const bfloat16* residual, bfloat16* y, Window at, int kernels, int images,
    int relu) {
    forward<Bf16>(x, w, {bias, residual, relu != 0}, y, at, kernels, images);
}

extern "C" __global__ void __launch_bounds__(THREADS, 256 / THREADS) conv2d_mma_3xtf32(
    const float* x, const float* w, const float* bias, const float* residual, float* y, Window at, int kernels, int images,
    int relu) {
    forward<Tf32x3>(x, w, {bias, residual, relu != 0}, y, at, kernels, images);
}
