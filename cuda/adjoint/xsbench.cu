#include "common.cuh"

#define KINDS 5  // of cross-section: total, elastic, absorption, fission, nu-fission

// The macroscopic cross-sections of a material at an energy, as a Monte Carlo code of neutrons looks them up.
// Of each nuclide in the material: find the energy among its `points` grid points, and interpolate between two.
// thread -> one lookup. grid and xs are tables of nuclide x point, xs with KINDS numbers each; concentration and
// nuclide are tables of material x place, of which count[material] are in use.
extern "C" __global__ void cross_sections(
    const real* energy, const int* material, const real* grid, const real* xs, const real* concentration,
    const int* nuclide, const int* count, real* macro, int lookups, int points, int places) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= lookups) return;
    real e = energy[i], sum[KINDS];
    int m = material[i];
    for (int c = 0; c < KINDS; ++c) {
        sum[c] = 0;
    }
    for (int j = 0; j < count[m]; ++j) {
        int first = nuclide[m * places + j] * points;
        // [search]
        int low = first, high = first + points - 1;
        while (high - low > 1) {
            int middle = (low + high) / 2;
            if (grid[middle] > e) {
                high = middle;
            } else {
                low = middle;
            }
        }
        // [interpolate]
        real f = (grid[low + 1] - e) / (grid[low + 1] - grid[low]);
        for (int c = 0; c < KINDS; ++c) {
            real above = xs[(low + 1) * KINDS + c], below = xs[low * KINDS + c];
            sum[c] += concentration[m * places + j] * (above - f * (above - below));
        }
    }
    for (int c = 0; c < KINDS; ++c) {
        macro[i * KINDS + c] = sum[c];
    }
}
