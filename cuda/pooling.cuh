// Pooling of images with their channels last, four channels to a thread: what max_pool2d.cu and avg_pool2d.cu share.
#pragma once
#include "vector.cuh"
#include "window.cuh"

// The place of a thread in images of rows x columns: threadIdx.x -> four channels, threadIdx.y -> column, threadIdx.z ->
// row, where the rows of all images are counted on. A block owns a tile of neighboring pixels, whose windows overlap: what
// one thread loads, another finds in the cache.
struct Place {
    int c, image, row, column;
    bool inside;

    __device__ Place(int images, int rows, int columns, int channels) {
        int line = blockIdx.x * blockDim.z + threadIdx.z;
        column = blockIdx.y * blockDim.y + threadIdx.y;
        c = (blockIdx.z * blockDim.x + threadIdx.x) * LANES;
        image = line / rows, row = line % rows;
        inside = image < images && column < columns && c < channels;
    }

    // The first element of this thread.
    __device__ int element(int rows, int columns, int channels) const {
        return ((image * rows + row) * columns + column) * channels + c;
    }
};

// Calls body(at); a window of 3 x 3 that moves by two, with a padding of one, as constants. Then the compiler unrolls all
// loops over the window, and all loads of a thread are on their way at once.
template <class Body>
__device__ void with_constants(Window at, Body body) {
    if (at.rows == 3 && at.columns == 3 && at.stride_y == 2 && at.stride_x == 2 && at.top == 1 && at.left == 1) {
        at.rows = at.columns = 3, at.stride_y = at.stride_x = 2, at.top = at.left = at.dilation_y = at.dilation_x = 1;
        body(at);
    } else {
        body(at);
    }
}

// Calls take(four channels of a pixel, its tap) for each pixel of x under the window at this place of y. The loads of a
// row are issued before the first is used.
template <class Take>
__device__ void each_under(const real* x, const Window& at, const Place& place, Take take) {
    constexpr int AHEAD = 3;
    for (int r = 0; r < at.rows; ++r) {
        int h = at.row(place.row, r);
        if (h < 0 || h >= at.height) continue;
        const real* line = &x[(place.image * at.height + h) * at.width * at.channels + place.c];
        for (int first = 0; first < at.columns; first += AHEAD) {
            Vec loaded[AHEAD];
            bool there[AHEAD];
#pragma unroll
            for (int j = 0; j < AHEAD; ++j) {
                int v = at.column(place.column, first + j);
                there[j] = first + j < at.columns && 0 <= v && v < at.width;
                if (there[j]) loaded[j] = vec(&line[v * at.channels]);
            }
#pragma unroll
            for (int j = 0; j < AHEAD; ++j) {
                if (there[j]) take(loaded[j], r * at.columns + first + j);
            }
        }
    }
}

// The gradient of a patch of 2 x 2 pixels, in four channels: neighbors meet the same windows, so what is loaded of a
// window serves all of them.
struct Patch {
    Four<wide> sum[2][2] = {};
    int h, v;

    __device__ Patch(const Place& place) : h(2 * place.row), v(2 * place.column) {}

    // Calls load(j, i) for two neighboring windows that meet the patch, j = 0 and 1, then visit(j, r, s) for both: the
    // patch begins at row r and column s of the window, or outside of it. Four channels of the window's output begin at
    // element i.
    template <class Load, class Visit>
    __device__ void each_output(const Window& at, const Place& place, Load load, Visit visit) const {
        int p0 = first(place.row, at.top - at.rows, at.rows, at.stride_y), r0 = h + at.top - p0 * at.stride_y;
        int q0 = first(place.column, at.left - at.columns, at.columns, at.stride_x), s0 = v + at.left - q0 * at.stride_x;
#pragma unroll
        for (int i = 0; i <= at.rows / at.stride_y; ++i) {
            if (p0 + i < 0 || p0 + i >= at.out_height) continue;
            int line = (place.image * at.out_height + p0 + i) * at.out_width + q0;
#pragma unroll
            for (int k = 0; k <= at.columns / at.stride_x; k += 2) {
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    if (meets(q0 + k + j, at.out_width)) load(j, (line + k + j) * at.channels + place.c);
                }
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    if (meets(q0 + k + j, at.out_width)) visit(j, r0 - i * at.stride_y, s0 - (k + j) * at.stride_x);
                }
            }
        }
    }

    static __device__ bool meets(int q, int count) { return 0 <= q && q < count; }

    // The first window that begins behind 2 * line + border: floor of that / stride, + 1. border is at least -size.
    static __device__ int first(int line, int border, int size, int stride) {
        if (stride == 2) return line + (border >> 1) + 1;
        return (2 * line + border + stride * size) / stride - size + 1;
    }

    // Calls give(sum, tap) for each pixel of the patch under a window, with its tap.
    template <class Give>
    __device__ void each_pixel(const Window& at, int r, int s, Give give) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                bool under = 0 <= r + i && r + i < at.rows && 0 <= s + j && s + j < at.columns;
                if (under) give(sum[i][j], (r + i) * at.columns + s + j);
            }
        }
    }

    // Stores the patch in dx.
    __device__ void store(real* dx, const Window& at, const Place& place) const {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int j = 0; j < 2; ++j) {
                bool inside = h + i < at.height && v + j < at.width;
                if (inside) put(dx, ((place.image * at.height + h + i) * at.width + v + j) * at.channels + place.c, sum[i][j]);
            }
        }
    }
};
