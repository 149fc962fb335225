#ifndef ROWS
#define ROWS 256
#endif
#ifndef COLUMNS
#define COLUMNS 128
#endif
#ifndef WIDE
#define WIDE 64
#endif
#include "conv2d/tensor_cores.cuh"

// The taps of the window that meet row h = i * stride + parity of x, for all i: r = first, first + every, ... Tap number t
// of them comes from output row i + place - t * step.
struct Parity {
    int first = 0, every = 1, taps, place, step;
    __device__ Parity(int parity, int stride, int before, int dilation, int rows) {
        while (every * dilation % stride) ++every;
        while (first < every && (parity + before - first * dilation) % stride) ++first;
        taps = first < every && first < rows ? (rows - 1 - first) / every + 1 : 0;
        place = (parity + before - first * dilation) / stride, step = every * dilation / stride;
    }
};

// w as a factor whose sum goes down the taps of a parity and their kernels, (r, s, k); a column is a channel.
template <class Its>
struct Kernels : Its {
    using T = typename Its::T;
    const T* w;
    Division by_tap, by_row;
    Parity y, x;
    int rows, columns, channels, left, terms;

    __device__ Kernels(const T* w, const Window& at, const Parity& y, const Parity& x, int kernels, int left)
        : w(w), by_tap(kernels), by_row(max(x.taps, 1)), y(y), x(x), rows(at.rows), columns(at.columns), channels(at.channels),
          left(left + Its::x()), terms(left + Its::x() < at.channels ? y.taps * x.taps * kernels : 0) {}
    __device__ void copy(T* tile, int start) const {
#pragma unroll
        for (int i = 0; i < Its::RUNS; ++i) {
            int term = start + Its::y() + i * Its::STEP, tap = by_tap.of(term), k = by_tap.rest(term, tap), t = by_row.of(tap);
            int r = y.first + t * y.every, s = x.first + by_row.rest(tap, t) * x.every;
            bool in = term < terms;
            Its::copy_run(tile, i, w + (in ? ((k * rows + r) * columns + s) * channels + left : 0), in);
        }
    }
};

// dx, by a stride-1 convolution of dy for each parity: the pixels whose row and column leave the same rest when divided by
// the stride meet the same taps of the window. A row is a pixel of the parity blockIdx.z, a column a channel.
// block -> ROWS x COLUMNS tile of dx; where no tap meets a parity, the sum has no terms, and dx is 0.
template <class Arithmetic>
__device__ void backward_x(
    const typename Arithmetic::T* dy, const typename Arithmetic::T* w, typename Arithmetic::T* dx, const Window& at,
    int kernels, int images) {
    using T = typename Arithmetic::T;
    int top = blockIdx.x * ROWS, left = blockIdx.y * COLUMNS, down = blockIdx.z / at.stride_x, across = blockIdx.z % at.stride_x;
    Parity y(down, at.stride_y, at.top, at.dilation_y, at.rows), x(across, at.stride_x, at.left, at.dilation_x, at.columns);
    int height = (at.height - down + at.stride_y - 1) / at.stride_y, width = (at.width - across + at.stride_x - 1) / at.stride_x;
    int pixels = images * height * width;
    if (top >= pixels) return;
    Taps taps = {at.out_height, at.out_width, kernels, height, width, y.taps, x.taps, 1, 1, y.place, x.place, -y.step, -x.step};
    Division by_image(height * width), by_row(width);
    auto store = [=](int row, int column, float first, float second) {
        row += top, column += left;
        if (row >= pixels || column >= at.channels) return;
        int n = by_image.of(row), place = by_image.rest(row, n), i = by_row.of(place), j = by_row.rest(place, i);
        int h = i * at.stride_y + down, v = j * at.stride_x + across;
        T* to = dx + ((n * at.height + h) * at.width + v) * at.channels + column;
        *reinterpret_cast<Pair<T>*>(to) = rounded(first, second, T());
    };
    product<Arithmetic>(
        Patches<LeftTile<T, ALONG>>(dy, taps, top, pixels), Kernels<RightTile<T, DOWN>>(w, at, y, x, kernels, left),
        y.taps * x.taps * kernels, store);
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
