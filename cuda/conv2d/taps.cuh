// The places of images and kernels, with their channels last in memory, that the products of a convolution read: loaders of
// tiles of matrices that are nowhere in memory. Its, the tile, says which runs of neighbors a thread copies, and how.
#pragma once
#include "window.cuh"

// Division by a number that is known only at run time, by a multiplication: n / d = n * (2^(31+s) / d) >> (31+s), exact
// for 0 <= n < 2^31. The hardware has no instruction that divides.
struct Division {
    unsigned factor, shift;
    int divisor;
    __device__ explicit Division(int d) : shift(d > 1 ? 32 - __clz(d - 1) : 0), divisor(d) {
        factor = (1ull << (31 + shift)) / d + 1;
    }
    __device__ int of(int n) const { return __umulhi(2u * n, factor) >> shift; }
    __device__ int rest(int n, int quotient) const { return n - quotient * divisor; }
};

// The places of an image that a grid of pixels reads: pixel (n, i, j) at tap (r, s) reads row i * move_y + first_y + r *
// step_y, column j * move_x + first_x + s * step_x. One of y reads a window of x, and one of dx its outputs in dy.
struct Taps {
    int height, width, channels;   // of the image
    int grid_height, grid_width;   // of the pixels
    int rows, columns;             // taps of a pixel
    int move_y, move_x, first_y, first_x, step_y, step_x;
};

__device__ inline Taps taps_of(const Window& at) {
    return {at.height, at.width, at.channels, at.out_height, at.out_width, at.rows, at.columns,
            at.stride_y, at.stride_x, -at.top, -at.left, at.dilation_y, at.dilation_x};
}

// A pixel of the grid, and a table of the pixels of a tile in shared memory.
struct Pixel {
    int corner;       // the offset of tap (0, 0), which may lie in the padding
    unsigned inside;  // bit r: tap row r lies in the image; bit 16 + s: tap column s does
};
template <int SIZE>
__device__ Pixel* pixel_table() {
    __shared__ Pixel table[SIZE];
    return table;
}

// A factor whose row is a pixel, and whose sum goes along its taps and their channels, (r, s, c), as in memory.
template <class Its>
struct Patches : Its {
    using T = typename Its::T;
    const T* image;
    const Pixel* pixel;  // of each row, in shared memory
    int rows, step_y, step_x;
    Division by_channels, by_columns;

    __device__ Patches(const T* image, const Taps& at, int first, int pixels)
        : image(image), rows(at.rows), step_y(at.step_y * at.width * at.channels), step_x(at.step_x * at.channels),
          by_channels(at.channels), by_columns(max(at.columns, 1)) {
        Pixel* table = pixel_table<Its::HEIGHT>();
        Division by_image(at.grid_height * at.grid_width), by_row(at.grid_width);
        for (int i = threadIdx.x; i < Its::HEIGHT; i += Its::STEP * Its::ACROSS) {
            int number = first + i, n = by_image.of(number), place = by_image.rest(number, n);
            int y = by_row.of(place), x = by_row.rest(place, y), h = y * at.move_y + at.first_y, v = x * at.move_x + at.first_x;
            unsigned inside = 0;
            for (int t = 0; t < at.rows; ++t) inside |= (unsigned)(h + t * at.step_y) < at.height ? 1u << t : 0;
            for (int t = 0; t < at.columns; ++t) inside |= (unsigned)(v + t * at.step_x) < at.width ? 1u << 16 + t : 0;
            table[i] = {((n * at.height + h) * at.width + v) * at.channels, number < pixels ? inside : 0};
        }
        __syncthreads();
        pixel = table;
    }
    __device__ void copy(T* tile, int start) const {
        int term = start + Its::x(), place = by_channels.of(term), r = by_columns.of(place), s = by_columns.rest(place, r);
        int tap = r * step_y + s * step_x + by_channels.rest(term, place);
        unsigned both = r < rows ? 1u << r | 1u << 16 + s : ~0u;  // ~0u: beyond the end of the sum; no pixel has all bits
#pragma unroll
        for (int i = 0; i < Its::RUNS; ++i) {
            Pixel own = pixel[Its::y() + i * Its::STEP];
            bool in = (own.inside & both) == both;
            Its::copy_run(tile, i, image + (in ? own.corner + tap : 0), in);
        }
    }
};

// A factor whose column is a tap and a channel, (r, s, c), and whose sum goes down its pixels, from `start` to `stop`.
template <class Its>
struct Pixels : Its {
    using T = typename Its::T;
    const T* image;
    Taps at;
    Division by_image, by_row;
    int first, stop, y, x, tap;

    __device__ Pixels(const T* image, const Taps& at, int first, int stop, int left)
        : image(image), at(at), by_image(at.grid_height * at.grid_width), by_row(at.grid_width), first(first), stop(stop) {
        int column = left + Its::x(), place = column / at.channels, r = place / at.columns, s = place % at.columns;
        y = at.first_y + r * at.step_y, x = at.first_x + s * at.step_x, tap = column % at.channels;
        if (r >= at.rows) this->stop = 0;
    }
    __device__ void copy(T* tile, int start) {
#pragma unroll
        for (int i = 0; i < Its::RUNS; ++i) {
            int pixel = first + start + Its::y() + i * Its::STEP, n = by_image.of(pixel), place = by_image.rest(pixel, n);
            int row = by_row.of(place), h = row * at.move_y + y, v = by_row.rest(place, row) * at.move_x + x;
            bool in = pixel < stop && (unsigned)h < at.height && (unsigned)v < at.width;
            Its::copy_run(tile, i, image + (in ? ((n * at.height + h) * at.width + v) * at.channels + tap : 0), in);
        }
    }
};

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

// The pixels of dx whose row leaves the rest `down` when divided by the stride, and whose column leaves `across`: they meet
// the same taps of the window, so their gradient is a convolution of dy with stride 1.
struct ParityPixels {
    int down, across, height, width;
    Parity y, x;
    Division by_image, by_row;

    __device__ ParityPixels(const Window& at, int parity)
        : down(parity / at.stride_x), across(parity % at.stride_x),
          height((at.height - down + at.stride_y - 1) / at.stride_y), width((at.width - across + at.stride_x - 1) / at.stride_x),
          y(down, at.stride_y, at.top, at.dilation_y, at.rows), x(across, at.stride_x, at.left, at.dilation_x, at.columns),
          by_image(max(height * width, 1)), by_row(max(width, 1)) {}
    __device__ Taps taps(const Window& at, int kernels) const {
        return {at.out_height, at.out_width, kernels, height, width, y.taps, x.taps, 1, 1, y.place, x.place, -y.step, -x.step};
    }
    // The offset in dx of a pixel's first channel.
    __device__ int offset(const Window& at, int pixel) const {
        int n = by_image.of(pixel), place = by_image.rest(pixel, n), i = by_row.of(place), j = by_row.rest(place, i);
        return ((n * at.height + i * at.stride_y + down) * at.width + j * at.stride_x + across) * at.channels;
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

    __device__ Kernels(const T* w, const Window& at, const ParityPixels& own, int kernels, int left)
        : w(w), by_tap(kernels), by_row(max(own.x.taps, 1)), y(own.y), x(own.x), rows(at.rows), columns(at.columns),
          channels(at.channels), left(left + Its::x()), terms(this->left < at.channels ? y.taps * x.taps * kernels : 0) {}
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
