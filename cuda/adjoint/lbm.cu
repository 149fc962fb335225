#include "common.cuh"

// Lattice Boltzmann: f[q][cell] is how much fluid of a cell moves in direction q. One launch is one step of time:
// what comes in from the neighbors (bounced back where a neighbor is solid) relaxes towards equilibrium.

// Nine directions of the plane; the opposite of each; its weight.
__constant__ int CX[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int CY[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ int BACK[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
__constant__ real WEIGHT[9] = {4.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 9, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36};

// thread -> one cell of a width x height grid that closes on itself at its borders.
extern "C" __global__ void lbm_d2q9(const real* f, const int* solid, real omega, real* g, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int cell = y * width + x, n = width * height;
    // [stream]
    real here[9];
    real density = 0, ux = 0, uy = 0;
#pragma unroll
    for (int q = 0; q < 9; ++q) {
        int source = (y - CY[q] + height) % height * width + (x - CX[q] + width) % width;
        here[q] = solid[source] != 0 ? f[BACK[q] * n + cell] : f[q * n + source];
        density += here[q];
        ux += CX[q] * here[q];
        uy += CY[q] * here[q];
    }
    ux /= density;
    uy /= density;
    // [collide]
    real energy = real(1.5) * (ux * ux + uy * uy);
#pragma unroll
    for (int q = 0; q < 9; ++q) {
        real along = 3 * (CX[q] * ux + CY[q] * uy);
        real rest = WEIGHT[q] * density * (1 + along + real(0.5) * along * along - energy);
        g[q * n + cell] = solid[cell] != 0 ? here[q] : here[q] + omega * (rest - here[q]);
    }
}
