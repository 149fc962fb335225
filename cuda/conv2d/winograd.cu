#include "window.cuh"

// Winograd's F(4 x 4, 3 x 3): 16 outputs of a window of 3 x 3 by 36 multiplications, where the sum itself takes 144.
// Along one axis y = A^T (G w * B^T x): six neighbors of x and the three numbers of w are combined to six numbers each,
// multiplied place by place, and combined to four outputs. Along both axes the same is done to columns, then to rows.
// The products of all channels at one of the 36 places are a matrix product. Stride 1, dilation 1.

// B^T x: six numbers of `from`, `step` apart.
static __device__ void winograd_of_x(const real* from, int step, real* to) {
    real x0 = from[0], x1 = from[step], x2 = from[2 * step], x3 = from[3 * step], x4 = from[4 * step];
    to[0] = 4 * x0 - 5 * x2 + x4;
    to[step] = (x4 - 4 * x2) + (x3 - 4 * x1);
    to[2 * step] = (x4 - 4 * x2) - (x3 - 4 * x1);
    to[3 * step] = (x4 - x2) + 2 * (x3 - x1);
    to[4 * step] = (x4 - x2) - 2 * (x3 - x1);
    to[5 * step] = 4 * x1 - 5 * x3 + from[5 * step];
}

// G w: three numbers of `from`, `step` apart, to six.
static __device__ void winograd_of_w(const real* from, int step, real* to, int apart) {
    real w0 = from[0], w1 = from[step], w2 = from[2 * step];
    to[0] = w0 / 4;
    to[apart] = -(w0 + w1 + w2) / 6;
    to[2 * apart] = -(w0 - w1 + w2) / 6;
    to[3 * apart] = w0 / 24 + w1 / 12 + w2 / 6;
    to[4 * apart] = w0 / 24 - w1 / 12 + w2 / 6;
    to[5 * apart] = w2;
}

// A^T m: six numbers of `from`, `step` apart, to four.
static __device__ void winograd_to_y(const real* from, int step, real* to, int apart) {
    real m1 = from[step], m2 = from[2 * step], m3 = from[3 * step], m4 = from[4 * step];
    to[0] = from[0] + (m1 + m2) + (m3 + m4);
    to[apart] = (m1 - m2) + 2 * (m3 - m4);
    to[2 * apart] = (m1 + m2) + 4 * (m3 + m4);
    to[3 * apart] = (m1 - m2) + 8 * (m3 - m4) + from[5 * step];
}

// G w G^T of nine numbers; place i of the 36 goes to u[i * apart].
static __device__ void winograd_window(const real (&w)[3][3], real* u, int apart) {
    real half[6][3], row[6];
#pragma unroll
    for (int s = 0; s < 3; ++s) winograd_of_w(&w[0][s], 3, &half[0][s], 3);
#pragma unroll
    for (int r = 0; r < 6; ++r) {
        winograd_of_w(half[r], 1, row, 1);
#pragma unroll
        for (int s = 0; s < 6; ++s) u[(r * 6 + s) * apart] = row[s];
    }
}

// u[i,k,c] = place i of the transformed window w[k,c]. thread -> one window.
extern "C" __global__ void conv2d_winograd_w(const real* w, real* u, int windows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= windows) return;
    real own[3][3];
#pragma unroll
    for (int j = 0; j < 9; ++j) own[j / 3][j % 3] = w[i * 9 + j];
    winograd_window(own, u + i, windows);
}

// The same for the gradient of x, which is a convolution of dy with the windows turned by half a turn and with kernels
// and channels exchanged: u[i,g,c,k]. `share` kernels and `each` channels a group. thread -> one window.
extern "C" __global__ void conv2d_winograd_backward_x(const real* w, real* u, int share, int each, int windows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= windows) return;
    int k = i / (share * each) * share + i % share, c = i / share % each;
    real own[3][3];
#pragma unroll
    for (int j = 0; j < 9; ++j) own[j / 3][j % 3] = w[(k * each + c) * 9 + 8 - j];
    winograd_window(own, u + i, windows);
}

// v[i,c,t] = place i of the transformed tile t of channel c. Tiles of 6 x 6 begin 4 apart: neighbors overlap by 2.
// thread -> one tile of one channel; neighboring threads have neighboring tiles.
extern "C" __global__ void conv2d_winograd(const real* x, real* v, Window at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    // [own]
    int down = (at.out_height + 3) / 4, across = (at.out_width + 3) / 4, tiles = size / at.channels;
    int tile = i % tiles, c = i / tiles, n = tile / (down * across);
    int top = at.row(tile / across % down * 4, 0), left = at.column(tile % across * 4, 0);
    x += (n * at.channels + c) * at.height * at.width;
    // [load and transform]
    real half[6][6], row[6];
#pragma unroll
    for (int s = 0; s < 6; ++s) {
#pragma unroll
        for (int r = 0; r < 6; ++r) {
            int h = top + r, w = left + s;
            row[r] = at.inside(h, w) ? x[h * at.width + w] : real(0);
        }
        winograd_of_x(row, 1, row);
#pragma unroll
        for (int r = 0; r < 6; ++r) half[r][s] = row[r];
    }
#pragma unroll
    for (int r = 0; r < 6; ++r) {
        winograd_of_x(half[r], 1, row);
#pragma unroll
        for (int s = 0; s < 6; ++s) v[(r * 6 + s) * size + i] = row[s];
    }
}

// y = bias + A^T m A: m[i,k,t] is the sum over the channels at place i. thread -> one tile of 4 x 4 of one kernel.
extern "C" __global__ void conv2d_winograd_y(
    const real* m, const real* bias, real* y, Window at, int kernels, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int down = (at.out_height + 3) / 4, across = (at.out_width + 3) / 4, tiles = size / kernels;
    int tile = i % tiles, k = i / tiles, n = tile / (down * across);
    int top = tile / across % down * 4, left = tile % across * 4;
    real half[4][6], column[6], row[4];
#pragma unroll
    for (int s = 0; s < 6; ++s) {
#pragma unroll
        for (int r = 0; r < 6; ++r) column[r] = m[(r * 6 + s) * size + i];
        winograd_to_y(column, 1, &half[0][s], 6);
    }
    y += (n * kernels + k) * at.out_height * at.out_width;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
        winograd_to_y(half[r], 1, row, 1);
#pragma unroll
        for (int s = 0; s < 4; ++s) {
            int p = top + r, q = left + s;
            if (p < at.out_height && q < at.out_width) y[p * at.out_width + q] = row[s] + (bias ? bias[k] : real(0));
        }
    }
}
