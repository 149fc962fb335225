#include "reduce.cuh"
#include "window.cuh"

// y[n,k,p,q] = bias[k] + sum over c, r, s of x[n, c, row(p,r), column(q,s)] w[k,c,r,s], with 0 outside
// of the image. A kernel k of a group sees the channels of its group alone. thread -> one element of y.
extern "C" __global__ void conv2d_naive(
    const real* x, const real* w, const real* bias, real* y, Window at, int kernels, int groups,
    int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int q = i % at.out_width, p = i / at.out_width % at.out_height;
    int k = i / (at.out_width * at.out_height) % kernels;
    int n = i / (at.out_width * at.out_height * kernels);
    int each = at.channels / groups, first = k / (kernels / groups) * each;
    wide sum = bias ? bias[k] : real(0);
    for (int c = 0; c < each; ++c) {
        for (int r = 0; r < at.rows; ++r) {
            for (int s = 0; s < at.columns; ++s) {
                int h = at.row(p, r), v = at.column(q, s);
                int row = (n * at.channels + first + c) * at.height + h;
                wide pixel = at.inside(h, v) ? x[row * at.width + v] : real(0);
                sum += pixel * w[((k * each + c) * at.rows + r) * at.columns + s];
            }
        }
    }
    y[i] = sum;
}

// dx[n,c,h,v] = sum over k, r, s of dy[n, k, out_row(h,r), out_column(v,s)] w[k,c,r,s]. thread -> one element of dx:
// it asks every place of the window which output it went to, so no atomics are needed.
extern "C" __global__ void conv2d_backward_x(
    const real* dy, const real* w, real* dx, Window at, int kernels, int groups, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int v = i % at.width, h = i / at.width % at.height;
    int channel = i / (at.width * at.height) % at.channels, n = i / (at.width * at.height * at.channels);
    int each = at.channels / groups, share = kernels / groups, first = channel / each * share, c = channel % each;
    wide sum = 0;
    at.each_output(h, v, [&](int p, int q, int r, int s) {
        for (int k = first; k < first + share; ++k) {
            sum += dy[((n * kernels + k) * at.out_height + p) * at.out_width + q]
                * w[((k * each + c) * at.rows + r) * at.columns + s];
        }
    });
    dx[i] = sum;
}

// dw[k,c,r,s] = sum over n, p, q of dy[n,k,p,q] x[n, c, row(p,r), column(q,s)]. block -> one element of dw; its threads
// share the sum, which is the longest of the three: over all images and pixels.
extern "C" __global__ void conv2d_backward_w(
    const real* dy, const real* x, real* dw, Window at, int kernels, int groups, int images) {
    int s = blockIdx.x % at.columns, r = blockIdx.x / at.columns % at.rows;
    int each = at.channels / groups, c = blockIdx.x / (at.columns * at.rows) % each;
    int k = blockIdx.x / (at.columns * at.rows * each), channel = k / (kernels / groups) * each + c;
    int pixels = at.out_height * at.out_width;
    wide sum = 0;
    for (int i = threadIdx.x; i < images * pixels; i += blockDim.x) {
        int n = i / pixels, p = i % pixels / at.out_width, q = i % at.out_width;
        int h = at.row(p, r), v = at.column(q, s);
        wide pixel = at.inside(h, v) ? x[((n * at.channels + channel) * at.height + h) * at.width + v] : real(0);
        sum += dy[(n * kernels + k) * pixels + i % pixels] * pixel;
    }
    sum = block_reduce(sum, Add());
    if (threadIdx.x == 0) dw[blockIdx.x] = sum;
}

// The patch under each place of the window as a column,
// patches[n, (c,r,s), (p,q)] = x[n, c, row(p,r), column(q,s)],
// so that y[n] = w @ patches[n] is a matrix product. Each pixel is copied up to rows * columns times.
// thread -> one element of patches.
extern "C" __global__ void conv2d_im2col(const real* x, real* patches, Window at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int q = i % at.out_width, p = i / at.out_width % at.out_height;
    int term = i / (at.out_width * at.out_height);
    int s = term % at.columns, r = term / at.columns % at.rows, plane = term / (at.columns * at.rows);
    int h = at.row(p, r), v = at.column(q, s);
    patches[i] = at.inside(h, v) ? x[(plane * at.height + h) * at.width + v] : real(0);
}

// dx[n,c,h,v] = the sum of its copies in dpatches: the way back of im2col. thread -> one element of dx.
extern "C" __global__ void conv2d_col2im(const real* dpatches, real* dx, Window at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int v = i % at.width, h = i / at.width % at.height, plane = i / (at.width * at.height);
    wide sum = 0;
    at.each_output(h, v, [&](int p, int q, int r, int s) {
        int term = (plane * at.rows + r) * at.columns + s;
        sum += dpatches[(term * at.out_height + p) * at.out_width + q];
    });
    dx[i] = sum;
}
