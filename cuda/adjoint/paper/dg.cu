// The volume term of a discontinuous Galerkin method for the Euler equations of a gas under gravity, in the language
// that such codes use: macros for the fields and for what is done to each of them, layers of fluxes in shared memory.

#ifndef real
#define real float
#endif

#define NQ 5  // points along each axis of an element
#define POINTS (NQ * NQ * NQ)
#define STATES 5
#define GEOMETRY 12  // fields of the mapping of an element: its nine derivatives, volume, 1 / volume, height
#define GRAVITY real(9.81)
#define GAMMA real(1.4)

#define FIELDS(DO) DO(RHO, rho) DO(U, u) DO(V, v) DO(W, w) DO(E, e)  // density, momenta, energy
enum { RHO, U, V, W, E };
enum { XI_X, XI_Y, XI_Z, ETA_X, ETA_Y, ETA_Z, ZETA_X, ZETA_Y, ZETA_Z, VOLUME, INVERSE, HEIGHT };

#define POINT(i, j, k) (((k) * NQ + (j)) * NQ + (i))
#define AT(field, fields, point) ((blockIdx.x * (fields) + (field)) * POINTS + (point))
#define METRIC(name, point) geometry[AT(name, GEOMETRY, point)]

#define LOAD(F, f) const real f = q[AT(F, STATES, p)];
#define CONTRAVARIANT(F, f, axis) (volume * (axis##_x * x_##f + axis##_y * y_##f + axis##_z * z_##f))
#define FLUX(F, f)                           \
    s_xi[F][j][i] = CONTRAVARIANT(F, f, xi);  \
    s_eta[F][j][i] = CONTRAVARIANT(F, f, eta); \
    zeta[F] = CONTRAVARIANT(F, f, zeta);
#define FLUX_ALONG(axis, speed, push_u, push_v, push_w)              \
    const real axis##_rho = rho * (speed), axis##_u = u * (speed) + (push_u), axis##_v = v * (speed) + (push_v), \
               axis##_w = w * (speed) + (push_w), axis##_e = (e + pressure) * (speed);

// block -> one element; thread -> a column of NQ points along zeta. q, rhs: element x state x point; geometry: element x
// field x point; d[n][i]: derivative at point n of the polynomial that is 1 at point i.
__global__ void volume_term(const real* q, const real* geometry, const real* d, real* rhs) {
    __shared__ real s_d[NQ][NQ], s_xi[STATES][NQ][NQ], s_eta[STATES][NQ][NQ];
    const int i = threadIdx.x, j = threadIdx.y;
    real sum[STATES][NQ];
    for (int k = 0; k < NQ; ++k) {
        for (int s = 0; s < STATES; ++s) sum[s][k] = 0;
    }
    s_d[j][i] = d[j * NQ + i];
    for (int k = 0; k < NQ; ++k) {
        const int p = POINT(i, j, k);
        __syncthreads();
        const real volume = METRIC(VOLUME, p), height = METRIC(HEIGHT, p);
        const real xi_x = METRIC(XI_X, p), xi_y = METRIC(XI_Y, p), xi_z = METRIC(XI_Z, p);
        const real eta_x = METRIC(ETA_X, p), eta_y = METRIC(ETA_Y, p), eta_z = METRIC(ETA_Z, p);
        const real zeta_x = METRIC(ZETA_X, p), zeta_y = METRIC(ZETA_Y, p), zeta_z = METRIC(ZETA_Z, p);
        FIELDS(LOAD)
        const real inverse = 1 / rho;
        const real kinetic = (u * u + v * v + w * w) * inverse / 2;
        const real pressure = (GAMMA - 1) * (e - kinetic - rho * GRAVITY * height);
        FLUX_ALONG(x, inverse * u, pressure, 0, 0)
        FLUX_ALONG(y, inverse * v, 0, pressure, 0)
        FLUX_ALONG(z, inverse * w, 0, 0, pressure)
        real zeta[STATES];
        FIELDS(FLUX)
        sum[W][k] -= volume * rho * GRAVITY;
        __syncthreads();
        for (int s = 0; s < STATES; ++s) {
            for (int n = 0; n < NQ; ++n) {
                sum[s][n] += s_d[k][n] * zeta[s];
                sum[s][k] += s_d[n][i] * s_xi[s][j][n] + s_d[n][j] * s_eta[s][n][i];
            }
        }
    }
    for (int k = 0; k < NQ; ++k) {
        const real inverse = METRIC(INVERSE, POINT(i, j, k));
        for (int s = 0; s < STATES; ++s) rhs[AT(s, STATES, POINT(i, j, k))] += inverse * sum[s][k];
    }
}
