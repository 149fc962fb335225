#include "common.cuh"

// Real and imaginary part of the Faddeeva function w(z) = exp(-z^2) erfc(-iz), far from 0:
// w(z) = i z (a / (z^2 - b) + c / (z^2 - d)), six digits where |z| > 6.
__device__ real far_re(real x, real y) {
    real sx = x * x - y * y, sy = 2 * x * y;
    real u = sx - real(0.2752551286084110), v = sx - real(2.724744871391589);
    real p = real(0.5124242247549740) / (u * u + sy * sy), q = real(0.05176535902242900) / (v * v + sy * sy);
    real re = p * u + q * v, im = -(p + q) * sy;
    return -(x * im + y * re);
}

__device__ real far_im(real x, real y) {
    real sx = x * x - y * y, sy = 2 * x * y;
    real u = sx - real(0.2752551286084110), v = sx - real(2.724744871391589);
    real p = real(0.5124242247549740) / (u * u + sy * sy), q = real(0.05176535902242900) / (v * v + sy * sy);
    real re = p * u + q * v, im = -(p + q) * sy;
    return x * re - y * im;
}

// Resonances as poles p and residues r in the complex plane: sum over a window of Re(r w(z)) / E with z = (sqrt(E) - p)
// times the width of the Doppler broadening; at 0 K (broadening 0) of Re(i r / (sqrt(E) - p)) / E.
// thread -> one lookup. pole and residue are tables of window x place, real and imaginary part side by side.
extern "C" __global__ void multipole(
    const real* energy, const int* window, const real* pole, const real* residue, const int* count, real broadening,
    real* sigma, int lookups, int places) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= lookups) return;
    real root = sqrt(energy[i]), sum = 0;
    int w = window[i];
    for (int j = 0; j < count[w]; ++j) {
        int at = 2 * (w * places + j);
        real x = root - pole[at], y = -pole[at + 1], re = residue[at], im = residue[at + 1];
        if (broadening == 0) {
            // [cold]
            sum += (re * y - im * x) / (x * x + y * y);
        } else {
            // [broadened]
            real zx = x * broadening, zy = y * broadening;
            if (zx * zx + zy * zy > 36) {
                sum += re * far_re(zx, zy) - im * far_im(zx, zy);
            } else {
                // the wide middle: a smooth stand-in for the table that a production code has there
                real fall = exp(-(zx * zx) / (1 + zy * zy));
                sum += (re * (1 + zy) - im * zx) * fall / (1 + zx * zx + zy * zy);
            }
        }
    }
    sigma[i] = sum / energy[i];
}
