#include "common.cuh"

// Lattice Boltzmann in space, 19 directions; see lbm.cu for the plane.
__constant__ int CX[19] = {0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0, 0, 0};
__constant__ int CY[19] = {0, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 0, 0, 1, -1, 1, -1};
__constant__ int CZ[19] = {0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1, -1, -1, 1, 1, -1, -1, 1};
__constant__ int BACK[19] = {0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15, 18, 17};
__constant__ real WEIGHT[19] = {
    1.0 / 3, 1.0 / 18, 1.0 / 18, 1.0 / 18, 1.0 / 18, 1.0 / 18, 1.0 / 18, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36,
    1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36};

// thread -> one cell of a width x height x depth grid that closes on itself at its borders.
extern "C" __global__ void lbm_d3q19(
    const real* f, const int* solid, real omega, real* g, int width, int height, int depth) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width || y >= height || z >= depth) return;
    int cell = (z * height + y) * width + x, n = width * height * depth;
    // [stream]
    real here[19];
    real density = 0, ux = 0, uy = 0, uz = 0;
#pragma unroll
    for (int q = 0; q < 19; ++q) {
        int fx = (x - CX[q] + width) % width, fy = (y - CY[q] + height) % height, fz = (z - CZ[q] + depth) % depth;
        int source = (fz * height + fy) * width + fx;
        here[q] = solid[source] != 0 ? f[BACK[q] * n + cell] : f[q * n + source];
        density += here[q];
        ux += CX[q] * here[q];
        uy += CY[q] * here[q];
        uz += CZ[q] * here[q];
    }
    ux /= density;
    uy /= density;
    uz /= density;
    // [collide]
    real energy = real(1.5) * (ux * ux + uy * uy + uz * uz);
#pragma unroll
    for (int q = 0; q < 19; ++q) {
        real along = 3 * (CX[q] * ux + CY[q] * uy + CZ[q] * uz);
        real rest = WEIGHT[q] * density * (1 + along + real(0.5) * along * along - energy);
        g[q * n + cell] = solid[cell] != 0 ? here[q] : here[q] + omega * (rest - here[q]);
    }
}
