#include "common.cuh"

// Pressure of a gamma-law gas with a cut-off: too small is 0, and it is never below the floor.
__device__ real pressure(real energy, real compression, real cut, real floor) {
    real p = real(2.0 / 3.0) * (compression + 1) * energy;
    if (fabs(p) < cut) {
        p = 0;
    }
    return max(p, floor);
}

// Speed of sound, squared, and not below a small number.
__device__ real sound(real energy, real p, real compression) {
    real c = real(2.0 / 3.0) * (energy + p / (1 + compression));
    return c <= real(1e-7) ? real(1e-4) : sqrt(c);
}

// One step of an equation of state, as hydrodynamics codes take it: a half step of the energy, the pressure there, the
// artificial viscosity where the gas is compressed, and the full step; `rep` times over, as often as the region asks.
// thread -> one element.
extern "C" __global__ void equation_of_state(
    const real* e_old, const real* p_old, const real* q_old, const real* volume, const real* change, const int* rep,
    real cut, real floor, real* e_new, real* p_new, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    real e = e_old[i], p = p_old[i], q = q_old[i];
    real compression = 1 / volume[i] - 1, half = 1 / (volume[i] - real(0.5) * change[i]) - 1;
    for (int r = 0; r < rep[i]; ++r) {
        // [half step]
        real e_half = e - real(0.5) * change[i] * (p + q);
        e_half = max(e_half, floor);
        real p_half = pressure(e_half, half, cut, floor);
        real q_half = 0;
        if (change[i] < 0) {
            real c = sound(e_half, p_half, half);
            q_half = c * change[i] * change[i] - real(0.1) * c * change[i];
        }
        // [full step]
        e = e_half + real(0.5) * change[i] * (3 * (p + q) - 4 * (p_half + q_half));
        if (fabs(e) < cut) {
            e = 0;
        }
        e = max(e, floor);
        p = pressure(e, compression, cut, floor);
        q = q_half;
    }
    e_new[i] = e;
    p_new[i] = p;
}
