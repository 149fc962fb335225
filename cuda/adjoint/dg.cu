#include "common.cuh"

#define NQ 5    // points along each axis of an element
#define STATE 4 // density and the three momenta of an isothermal gas

// The volume term of a discontinuous Galerkin method: rhs = D_x F + D_y G + D_z H, with F, G, H the fluxes of the state
// along the axes and D the derivative matrix. block -> one element of NQ^3 points; thread -> a column of NQ points
// along z. The fluxes of a layer pass through shared memory. q and rhs are state x point in each element; geometry
// holds the three scales of a point.
extern "C" __global__ void dg_volume(const real* q, const real* geometry, const real* d, real* rhs) {
    __shared__ real s_d[NQ][NQ], s_f[STATE][NQ][NQ], s_g[STATE][NQ][NQ];
    int i = threadIdx.x, j = threadIdx.y, element = blockIdx.x * NQ * NQ * NQ;
    real sum[STATE][NQ];
    for (int s = 0; s < STATE; ++s) {
        for (int k = 0; k < NQ; ++k) {
            sum[s][k] = 0;
        }
    }
    s_d[j][i] = d[j * NQ + i];
    for (int k = 0; k < NQ; ++k) {
        // [fluxes]
        int point = (k * NQ + j) * NQ + i;
        real state[STATE], h[STATE];
        for (int s = 0; s < STATE; ++s) {
            state[s] = q[element * STATE + s * NQ * NQ * NQ + point];
        }
        real gx = geometry[3 * (element + point)], gy = geometry[3 * (element + point) + 1];
        real gz = geometry[3 * (element + point) + 2];
        real u = state[1] / state[0], v = state[2] / state[0], w = state[3] / state[0];
        for (int s = 0; s < STATE; ++s) {
            s_f[s][j][i] = gx * (u * state[s] + (s == 1 ? state[0] : 0));
            s_g[s][j][i] = gy * (v * state[s] + (s == 2 ? state[0] : 0));
            h[s] = gz * (w * state[s] + (s == 3 ? state[0] : 0));
        }
        __syncthreads();
        // [derivatives]
        for (int s = 0; s < STATE; ++s) {
            for (int n = 0; n < NQ; ++n) {
                sum[s][k] += s_d[i][n] * s_f[s][j][n] + s_d[j][n] * s_g[s][n][i];
                sum[s][n] += s_d[n][k] * h[s];
            }
        }
        __syncthreads();
    }
    for (int s = 0; s < STATE; ++s) {
        for (int k = 0; k < NQ; ++k) {
            rhs[element * STATE + s * NQ * NQ * NQ + (k * NQ + j) * NQ + i] = sum[s][k];
        }
    }
}
