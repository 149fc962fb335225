#include "common.cuh"

// turned[c,r,s,k] = w[k, rows-1-r, columns-1-s, c], both with their channels last: with stride 1 the gradient of a
// convolution's input is the convolution of dy with these kernels. thread -> one element of turned.
extern "C" __global__ void conv2d_turn(const real* w, real* turned, int kernels, int channels, int places, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int k = i % kernels, place = i / kernels % places, c = i / (kernels * places);
    turned[i] = w[(k * places + places - 1 - place) * channels + c];
}
