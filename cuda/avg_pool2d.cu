#include "window.cuh"

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
    real sum = 0;
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
    real sum = 0;
    at.each_output(h, v, [&](int p, int q, int r, int s) {
        sum += dy[p * at.out_width + q] / terms(at, p, q, padded);
    });
    dx[i] = sum;
}
