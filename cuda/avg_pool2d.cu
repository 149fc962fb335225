#include "pooling.cuh"

// The elements under the window at (p, q): with `padded` all of its places, else those inside of the image.
static __device__ int terms(const Window& at, int p, int q, bool padded) {
    if (padded) return at.rows * at.columns;
    int h = at.row(p, 0), v = at.column(q, 0);
    return (min(h + at.rows, at.height) - max(h, 0)) * (min(v + at.columns, at.width) - max(v, 0));
}

// y[n,c,p,q] = the mean of x under the window at (p, q). thread -> one element of y.
extern "C" __global__ void avg_pool2d_forward(
    const real* x, real* y, Window at, bool padded, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int q = i % at.out_width, p = i / at.out_width % at.out_height, plane = i / (at.out_width * at.out_height);
    x += plane * at.height * at.width;
    wide sum = 0;
    for (int r = 0; r < at.rows; ++r) {
        for (int s = 0; s < at.columns; ++s) {
            int h = at.row(p, r), v = at.column(q, s);
            if (at.inside(h, v)) sum += x[h * at.width + v];
        }
    }
    y[i] = sum / terms(at, p, q, padded);
}

// dx[n,c,h,v] = sum of dy / terms over the windows that hold the pixel. thread -> one element of dx.
extern "C" __global__ void avg_pool2d_backward(
    const real* dy, real* dx, Window at, bool padded, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int v = i % at.width, h = i / at.width % at.height, plane = i / (at.width * at.height);
    dy += plane * at.out_height * at.out_width;
    wide sum = 0;
    at.each_output(h, v, [&](int p, int q, int r, int s) {
        sum += dy[p * at.out_width + q] / terms(at, p, q, padded);
    });
    dx[i] = sum;
}

// The forward pass with the channels last. thread -> four channels of one pixel of y: see Place.
extern "C" __global__ void avg_pool2d_forward_nhwc(const real* x, real* y, Window at, bool padded, int images) {
    Place place(images, at.out_height, at.out_width, at.channels);
    if (!place.inside) return;
    Four<wide> sum = {};
    each_under(x, at, place, [&](const Vec& pixel, int) {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) sum.at[lane] += pixel.at[lane];
    });
    int count = terms(at, place.row, place.column, padded);
    int i = place.element(at.out_height, at.out_width, at.channels);
    put(y, i, each_lane([=](wide sum) { return sum / count; }, sum));
}

// The gradient with the channels last. thread -> four channels of a patch of 2 x 2 pixels of dx: see Patch.
extern "C" __global__ void avg_pool2d_backward_nhwc(const real* dy, real* dx, Window at, bool padded, int images) {
    Place place(images, (at.height + 1) / 2, (at.width + 1) / 2, at.channels);
    if (!place.inside) return;
    Patch patch(place);
    Vec given[2];
    auto load = [&](int j, int i) { given[j] = vec(&dy[i]); };
    patch.each_output(at, place, load, [&](int j, int r, int s) {
        int p = (patch.h + at.top - r) / at.stride_y, q = (patch.v + at.left - s) / at.stride_x;
        wide share = wide(1) / terms(at, p, q, padded);
        patch.each_pixel(at, r, s, [&](Four<wide>& sum, int) {
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) sum.at[lane] += given[j].at[lane] * share;
        });
    });
    patch.store(dx, at, place);
}
