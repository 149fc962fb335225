#include "pooling.cuh"

// y[n,c,p,q] = the largest x under the window at (p, q), the padding left out; NaN wins. taps holds its place in the
// window, r * columns + s: of equal numbers the first, as in PyTorch. thread -> one element of y.
extern "C" __global__ void max_pool2d_forward(const real* x, real* y, unsigned char* taps, Window at, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int q = i % at.out_width, p = i / at.out_width % at.out_height, plane = i / (at.out_width * at.out_height);
    x += plane * at.height * at.width;
    wide largest = -INFINITY;
    int tap = -1;
    for (int r = 0; r < at.rows; ++r) {
        for (int s = 0; s < at.columns; ++s) {
            int h = at.row(p, r), v = at.column(q, s);
            if (!at.inside(h, v)) continue;
            wide value = x[h * at.width + v];
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
    wide sum = 0;
    at.each_output(h, v, [&](int p, int q, int r, int s) {
        if (taps[p * at.out_width + q] == r * at.columns + s) sum += dy[p * at.out_width + q];
    });
    dx[i] = sum;
}

// The forward pass with the channels last. thread -> four channels of one pixel of y: see Place.
extern "C" __global__ void max_pool2d_forward_nhwc(
    const real* x, real* y, unsigned char* taps, Window window, int images) {
    Place place(images, window.out_height, window.out_width, window.channels);
    if (!place.inside) return;
    int tap = max(-window.row(place.row, 0), 0) * window.columns + max(-window.column(place.column, 0), 0);
    Four<wide> largest = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    Four<int> found = {tap, tap, tap, tap};  // the first in the image, where all are -INFINITY
    with_constants(window, [&](const Window& at) {
        each_under(x, at, place, [&](const Vec& pixel, int tap) {
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) {
                wide value = pixel.at[lane];
                if (value > largest.at[lane] || value != value) {
                    largest.at[lane] = value;
                    found.at[lane] = tap;
                }
            }
        });
    });
    int i = place.element(window.out_height, window.out_width, window.channels);
    put(y, i, largest);
    vec(&taps[i]) = each_lane([](int tap) { return (unsigned char)tap; }, found);
}

// The gradient with the channels last. thread -> four channels of a patch of 2 x 2 pixels of dx: see Patch.
extern "C" __global__ void max_pool2d_backward_nhwc(
    const real* dy, const unsigned char* taps, real* dx, Window window, int images) {
    Place place(images, (window.height + 1) / 2, (window.width + 1) / 2, window.channels);
    if (!place.inside) return;
    Patch patch(place);
    with_constants(window, [&](const Window& at) {
        Vec given[2];
        Four<unsigned char> found[2];
        auto load = [&](int j, int i) { given[j] = vec(&dy[i]), found[j] = vec(&taps[i]); };
        patch.each_output(at, place, load, [&](int j, int r, int s) {
            patch.each_pixel(at, r, s, [&](Four<wide>& sum, int tap) {
#pragma unroll
                for (int lane = 0; lane < LANES; ++lane) {
                    if (found[j].at[lane] == tap) sum.at[lane] += given[j].at[lane];
                }
            });
        });
    });
    patch.store(dx, window, place);
}
