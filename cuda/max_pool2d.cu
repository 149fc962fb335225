#include "window.cuh"

// y[n,c,p,q] = the largest x under the window at (p, q), the padding left out; NaN wins. taps holds its place in the
// window, r * columns + s: of equal numbers the first, as in PyTorch. thread -> one element of y.
extern "C" __global__ void max_pool2d_forward(const real* x, real* y, unsigned char* taps, Window at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int q = i % at.out_width, p = i / at.out_width % at.out_height, plane = i / (at.out_width * at.out_height);
    x += plane * at.height * at.width;
    real largest = -INFINITY;
    int tap = -1;
    for (int r = 0; r < at.rows; ++r) {
        for (int s = 0; s < at.columns; ++s) {
            int h = at.row(p, r), v = at.column(q, s);
            if (!at.inside(h, v)) continue;
            real value = x[h * at.width + v];
            if (tap < 0 || value > largest || value != value) {
                largest = value;
                tap = r * at.columns + s;
            }
        }
    }
    y[i] = largest;
    taps[i] = tap;
}

// dx[n,c,h,v] = sum of the dy whose window found its largest number here. thread -> one element of dx:
// it asks each window over it, so no atomics are needed.
extern "C" __global__ void max_pool2d_backward(
    const real* dy, const unsigned char* taps, real* dx, Window at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int v = i % at.width, h = i / at.width % at.height, plane = i / (at.width * at.height);
    dy += plane * at.out_height * at.out_width;
    taps += plane * at.out_height * at.out_width;
    real sum = 0;
    at.each_output(h, v, [&](int p, int q, int r, int s) {
        if (taps[p * at.out_width + q] == r * at.columns + s) sum += dy[p * at.out_width + q];
    });
    dx[i] = sum;
}
