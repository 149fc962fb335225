#include "common.cuh"
#include "conv2d/comb.cuh"

// The kernels of the convolution of dy that gives dx: turned[c,tap,k] = w[k,r,s,c], both with their channels last. The taps
// go from the last to the first, since dx asks where it went: of all, or with a stride of one comb after the other.
// thread -> one element of turned.
extern "C" __global__ void conv2d_turn(const real* w, real* turned, Window at, int kernels, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int places = at.rows * at.columns, k = i % kernels, place = i / kernels % places, c = i / (kernels * places);
    int r = place / at.columns, s = place % at.columns;
    Combs own(at, r % at.stride_y, s % at.stride_x);
    int tap = own.earlier(at) + (own.y.taps - 1 - r / at.stride_y) * own.x.taps + own.x.taps - 1 - s / at.stride_x;
    turned[(c * places + tap) * kernels + k] = w[(k * places + place) * at.channels + c];
}
