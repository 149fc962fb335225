// A step of Lagrangian hydrodynamics on hexahedra, from stress to time constraint, in the language that such codes use:
// structures of arrays, device functions with local arrays and references, reductions to a minimum. Corners 0 to 3 of an
// element lie around its bottom, 4 to 7 above them. thread -> one element, or one node.

#define CORNERS 8
#define BLOCK 128

typedef double Real;
typedef int Index;

__constant__ const Real SIDE[3][CORNERS] = {  // on which side of the middle a corner lies, along xi, eta and zeta
    {-1, 1, 1, -1, -1, 1, 1, -1}, {-1, -1, 1, 1, -1, -1, 1, 1}, {-1, -1, -1, -1, 1, 1, 1, 1}};
__constant__ const Real HOURGLASS[4][CORNERS] = {  // the patterns of velocities that change no volume
    {1, 1, -1, -1, -1, -1, 1, 1}, {1, -1, -1, 1, -1, 1, 1, -1}, {1, -1, 1, -1, 1, -1, 1, -1}, {-1, 1, -1, 1, 1, -1, 1, -1}};
__constant__ const Index FACE[6][4] = {{0, 1, 2, 3}, {0, 4, 5, 1}, {1, 5, 6, 2}, {2, 6, 7, 3}, {3, 7, 4, 0}, {4, 7, 6, 5}};
__constant__ const Index NEAR[CORNERS][6] = {  // the corners on which the volume at a corner depends
    {1, 2, 3, 4, 5, 7}, {2, 3, 0, 5, 6, 4}, {3, 0, 1, 6, 7, 5}, {0, 1, 2, 7, 4, 6},
    {7, 6, 5, 0, 3, 1}, {4, 7, 6, 1, 0, 2}, {5, 4, 7, 2, 1, 3}, {6, 5, 4, 3, 2, 0}};

struct Material {  // of all elements
    Real energy_cut, pressure_cut, viscosity_cut, energy_min, pressure_min, density, volume_min, volume_max;
};

__device__ void gather(const Real* field, const Index* nodes, Real* local) {
    for (Index c = 0; c < CORNERS; ++c) local[c] = field[nodes[c]];
}

__device__ Real square(Real x) { return x * x; }

__device__ Real triple(Real ax, Real ay, Real az, Real bx, Real by, Real bz, Real cx, Real cy, Real cz) {
    return ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx);
}

#define D(a, b) x[a] - x[b], y[a] - y[b], z[a] - z[b]
#define D2(a, b, c, d) x[a] - x[b] + x[c] - x[d], y[a] - y[b] + y[c] - y[d], z[a] - z[b] + z[c] - z[d]

__device__ Real volume_of(const Real* x, const Real* y, const Real* z) {
    return (triple(D2(3, 1, 7, 2), D(6, 3), D(2, 0)) + triple(D2(4, 3, 5, 7), D(6, 4), D(7, 0)) +
            triple(D2(1, 4, 2, 5), D(6, 1), D(5, 0))) / 12;
}

// The derivative of the volume by the x of one corner; y and z are those of the corners near it.
__device__ Real volume_slope(const Index* near, const Real* y, const Real* z) {
    const Real y0 = y[near[0]], y1 = y[near[1]], y2 = y[near[2]], y3 = y[near[3]], y4 = y[near[4]], y5 = y[near[5]];
    const Real z0 = z[near[0]], z1 = z[near[1]], z2 = z[near[2]], z3 = z[near[3]], z4 = z[near[4]], z5 = z[near[5]];
    return ((y1 + y2) * (z0 + z1) - (y0 + y1) * (z1 + z2) + (y0 + y4) * (z3 + z4) - (y3 + y4) * (z0 + z4) -
            (y2 + y5) * (z3 + z5) + (y3 + y5) * (z2 + z5)) / 12;
}

// Half the difference between the middles of two opposite faces.
__device__ void along(Index axis, const Real* x, const Real* y, const Real* z, Real& ex, Real& ey, Real& ez) {
    ex = ey = ez = 0;
    for (Index c = 0; c < CORNERS; ++c) {
        ex += SIDE[axis][c] * x[c] / 8;
        ey += SIDE[axis][c] * y[c] / 8;
        ez += SIDE[axis][c] * z[c] / 8;
    }
}

__device__ void cross(Real ax, Real ay, Real az, Real bx, Real by, Real bz, Real& x, Real& y, Real& z) {
    x = ay * bz - az * by;
    y = az * bx - ax * bz;
    z = ax * by - ay * bx;
}

// Forces of the stress -p - q on the corners of an element: of each face a quarter of its area, along its normal.
__global__ void stress_force(const Index* nodes, const Real* X, const Real* Y, const Real* Z, const Real* p, const Real* q,
                             Real* fx, Real* fy, Real* fz, Index elements) {
    const Index e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    Real x[CORNERS], y[CORNERS], z[CORNERS], nx[CORNERS] = {0}, ny[CORNERS] = {0}, nz[CORNERS] = {0};
    gather(X, &nodes[CORNERS * e], x);
    gather(Y, &nodes[CORNERS * e], y);
    gather(Z, &nodes[CORNERS * e], z);
    for (Index f = 0; f < 6; ++f) {
        const Index a = FACE[f][0], b = FACE[f][1], c = FACE[f][2], d = FACE[f][3];
        Real sx, sy, sz;
        cross(x[d] + x[c] - x[b] - x[a], y[d] + y[c] - y[b] - y[a], z[d] + z[c] - z[b] - z[a],
              x[b] + x[c] - x[d] - x[a], y[b] + y[c] - y[d] - y[a], z[b] + z[c] - z[d] - z[a], sx, sy, sz);
        for (Index k = 0; k < 4; ++k) {
            nx[FACE[f][k]] += sx / 16;
            ny[FACE[f][k]] += sy / 16;
            nz[FACE[f][k]] += sz / 16;
        }
    }
    const Real stress = -p[e] - q[e];
    for (Index c = 0; c < CORNERS; ++c) {
        fx[CORNERS * e + c] = -stress * nx[c];
        fy[CORNERS * e + c] = -stress * ny[c];
        fz[CORNERS * e + c] = -stress * nz[c];
    }
}

// Adds the forces that damp the hourglass patterns, along one axis.
__device__ void damp(const Real (&gamma)[4][CORNERS], const Real* v, Real coefficient, Real* force) {
    for (Index m = 0; m < 4; ++m) {
        Real amount = 0;
        for (Index c = 0; c < CORNERS; ++c) amount += gamma[m][c] * v[c];
        for (Index c = 0; c < CORNERS; ++c) force[c] += coefficient * gamma[m][c] * amount;
    }
}

__global__ void hourglass_force(const Index* nodes, const Real* X, const Real* Y, const Real* Z, const Real* VX, const Real* VY,
                                const Real* VZ, const Real* mass, const Real* sound, Real factor, Real* fx, Real* fy,
                                Real* fz, Index elements) {
    const Index e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    const Index* corners = nodes + CORNERS * e;
    Real x[CORNERS], y[CORNERS], z[CORNERS], vx[CORNERS], vy[CORNERS], vz[CORNERS], gamma[4][CORNERS], hx[4], hy[4], hz[4];
    gather(X, corners, x);
    gather(Y, corners, y);
    gather(Z, corners, z);
    gather(VX, corners, vx);
    gather(VY, corners, vy);
    gather(VZ, corners, vz);
    const Real volume = volume_of(x, y, z);
    for (Index m = 0; m < 4; ++m) {
        hx[m] = hy[m] = hz[m] = 0;
        for (Index c = 0; c < CORNERS; ++c) {
            hx[m] += HOURGLASS[m][c] * x[c];
            hy[m] += HOURGLASS[m][c] * y[c];
            hz[m] += HOURGLASS[m][c] * z[c];
        }
    }
    for (Index c = 0; c < CORNERS; ++c) {
        const Real bx = volume_slope(NEAR[c], y, z), by = volume_slope(NEAR[c], z, x), bz = volume_slope(NEAR[c], x, y);
        for (Index m = 0; m < 4; ++m) {
            gamma[m][c] = HOURGLASS[m][c] - (bx * hx[m] + by * hy[m] + bz * hz[m]) / volume;
        }
    }
    const Real coefficient = -factor * Real(0.01) * sound[e] * mass[e] / cbrt(volume);
    Real ax[CORNERS] = {0}, ay[CORNERS] = {0}, az[CORNERS] = {0};
    damp(gamma, vx, coefficient, ax);
    damp(gamma, vy, coefficient, ay);
    damp(gamma, vz, coefficient, az);
    for (Index c = 0; c < CORNERS; ++c) {
        fx[CORNERS * e + c] += ax[c];
        fy[CORNERS * e + c] += ay[c];
        fz[CORNERS * e + c] += az[c];
    }
}

__device__ void move(Real& position, Real& velocity, Real force, Real mass, Real dt, Real cut) {
    velocity += dt * force / mass;
    if (fabs(velocity) < cut) velocity = 0;
    position += dt * velocity;
}

// A node takes the forces of the corners that lie there, and moves. Corners of node n: corners[first[n]] and on.
__global__ void node_motion(const Index* first, const Index* corners, const Real* fx, const Real* fy, const Real* fz,
                            const Real* mass, Real dt, Real cut, Real* x, Real* y, Real* z, Real* vx, Real* vy, Real* vz,
                            Index nodes) {
    const Index n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= nodes) return;
    Real ax = 0, ay = 0, az = 0;
    for (Index k = first[n]; k < first[n + 1]; ++k) {
        const Index c = corners[k];
        ax += fx[c];
        ay += fy[c];
        az += fz[c];
    }
    move(x[n], vx[n], ax, mass[n], dt, cut);
    move(y[n], vy[n], ay, mass[n], dt, cut);
    move(z[n], vz[n], az, mass[n], dt, cut);
}

__device__ Real face_metric(const Real* x, const Real* y, const Real* z, const Index* f) {
    const Real ax = x[f[2]] - x[f[0]], ay = y[f[2]] - y[f[0]], az = z[f[2]] - z[f[0]];
    const Real bx = x[f[3]] - x[f[1]], by = y[f[3]] - y[f[1]], bz = z[f[3]] - z[f[1]];
    const Real u = square(ax - bx) + square(ay - by) + square(az - bz);
    const Real v = square(ax + bx) + square(ay + by) + square(az + bz);
    const Real w = (ax - bx) * (ax + bx) + (ay - by) * (ay + by) + (az - bz) * (az + bz);
    return u * v - w * w;
}

// The rate of change of an element's volume in the middle of a step, by the gradient of the velocity at its center.
__device__ Real expansion(const Real* x, const Real* y, const Real* z, const Real* vx, const Real* vy, const Real* vz,
                          Real half) {
    Real mx[CORNERS], my[CORNERS], mz[CORNERS], ex[3], ey[3], ez[3], ux, uy, uz, nx, ny, nz, rate = 0, volume = 0;
    for (Index c = 0; c < CORNERS; ++c) {
        mx[c] = x[c] - half * vx[c];
        my[c] = y[c] - half * vy[c];
        mz[c] = z[c] - half * vz[c];
    }
    for (Index a = 0; a < 3; ++a) along(a, mx, my, mz, ex[a], ey[a], ez[a]);
    for (Index a = 0; a < 3; ++a) {
        const Index b = (a + 1) % 3, c = (a + 2) % 3;
        cross(ex[b], ey[b], ez[b], ex[c], ey[c], ez[c], nx, ny, nz);
        along(a, vx, vy, vz, ux, uy, uz);
        rate += nx * ux + ny * uy + nz * uz;
        volume = nx * ex[a] + ny * ey[a] + nz * ez[a];
    }
    return rate / volume;
}

__global__ void kinematics(const Index* nodes, const Real* X, const Real* Y, const Real* Z, const Real* VX, const Real* VY,
                           const Real* VZ, const Real* reference, const Real* relative, Real dt, Real* new_relative,
                           Real* change, Real* extent, Real* rate, Index elements) {
    const Index e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    const Index* corners = nodes + CORNERS * e;
    Real x[CORNERS], y[CORNERS], z[CORNERS], vx[CORNERS], vy[CORNERS], vz[CORNERS];
    gather(X, corners, x);
    gather(Y, corners, y);
    gather(Z, corners, z);
    gather(VX, corners, vx);
    gather(VY, corners, vy);
    gather(VZ, corners, vz);
    const Real volume = volume_of(x, y, z);
    Real widest = 0;
    for (Index f = 0; f < 6; ++f) widest = fmax(face_metric(x, y, z, FACE[f]), widest);
    new_relative[e] = volume / reference[e];
    change[e] = volume / reference[e] - relative[e];
    extent[e] = 4 * volume / sqrt(widest);
    rate[e] = expansion(x, y, z, vx, vy, vz, dt / 2);
}

// The difference of the velocity across an element along each axis, and the element's length there.
__global__ void viscosity_gradient(const Index* nodes, const Real* X, const Real* Y, const Real* Z, const Real* VX,
                                   const Real* VY, const Real* VZ, const Real* reference, const Real* relative,
                                   Real* slope, Real* length, Index elements) {
    const Index e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    const Index* corners = nodes + CORNERS * e;
    Real x[CORNERS], y[CORNERS], z[CORNERS], vx[CORNERS], vy[CORNERS], vz[CORNERS], ex[3], ey[3], ez[3], ux, uy, uz;
    gather(X, corners, x);
    gather(Y, corners, y);
    gather(Z, corners, z);
    gather(VX, corners, vx);
    gather(VY, corners, vy);
    gather(VZ, corners, vz);
    const Real tiny = 1e-36, volume = reference[e] * relative[e];
    for (Index a = 0; a < 3; ++a) along(a, x, y, z, ex[a], ey[a], ez[a]);
    for (Index a = 0; a < 3; ++a) {
        const Index b = (a + 1) % 3, c = (a + 2) % 3;
        Real nx, ny, nz;
        cross(2 * ex[b], 2 * ey[b], 2 * ez[b], 2 * ex[c], 2 * ey[c], 2 * ez[c], nx, ny, nz);
        along(a, vx, vy, vz, ux, uy, uz);
        length[a * elements + e] = volume / sqrt(nx * nx + ny * ny + nz * nz + tiny);
        slope[a * elements + e] = 2 * (nx * ux + ny * uy + nz * uz) / (volume + tiny);
    }
}

// Monotonic artificial viscosity, linear and quadratic. neighbor: two of each axis; an element at a boundary has itself.
__global__ void viscosity(const Index* neighbor, const Real* slope, const Real* length, const Real* rate, const Real* mass,
                          const Real* reference, const Real* relative, Real limit, Real most, Real* linear,
                          Real* quadratic, Index elements) {
    const Index e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= elements) return;
    Real first = 0, second = 0;
    if (rate[e] < 0) {
        for (Index a = 0; a < 3; ++a) {
            const Real own = slope[a * elements + e], norm = 1 / (own + Real(1e-36));
            const Real below = slope[a * elements + neighbor[(2 * a) * elements + e]] * norm;
            const Real above = slope[a * elements + neighbor[(2 * a + 1) * elements + e]] * norm;
            Real phi = (below + above) / 2;
            phi = fmin(phi, limit * below);
            phi = fmin(phi, limit * above);
            phi = fmin(fmax(phi, Real(0)), most);
            const Real inward = fmin(own * length[a * elements + e], Real(0));
            first += inward * (1 - phi);
            second += inward * inward * (1 - phi * phi);
        }
    }
    const Real density = mass[e] / (reference[e] * relative[e]);
    linear[e] = -Real(0.5) * density * first;
    quadratic[e] = Real(2) / 3 * density * second;
}

__device__ void pressure(Real& p, Real energy, Real compression, Real volume, const Material& m) {
    p = Real(2) / 3 * (compression + 1) * energy;
    if (fabs(p) < m.pressure_cut) p = 0;
    if (volume >= m.volume_max) p = 0;
    if (p < m.pressure_min) p = m.pressure_min;
}

__device__ Real sound_speed(Real energy, Real p, Real volume, Real compression, const Material& m) {
    const Real c = (Real(2) / 3 * energy + volume * volume * Real(2) / 3 * (compression + 1) * p) / m.density;
    return c <= Real(1e-36) ? Real(1e-18) : sqrt(c);
}

__device__ void cut_off(Real& energy, const Material& m) {
    if (fabs(energy) < m.energy_cut) energy = 0;
    if (energy < m.energy_min) energy = m.energy_min;
}

// The equation of state of a gas, with energy, pressure and viscosity advanced in three parts of a step; an element
// repeats it as often as its region costs.
__global__ void material(const Real* relative, const Real* change, const Real* linear, const Real* quadratic,
                         const Index* repeats, const Material m, const Real* e_old, const Real* p_old, const Real* q_old,
                         Real* e_new, Real* p_new, Real* q_new, Real* sound, Index elements) {
    const Index i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= elements) return;
    Real volume = relative[i];
    if (m.volume_min != 0 && volume < m.volume_min) volume = m.volume_min;
    if (m.volume_max != 0 && volume > m.volume_max) volume = m.volume_max;
    const Real dv = change[i], ql = linear[i], qq = quadratic[i];
    const Real compression = 1 / volume - 1, half = 1 / (volume - dv / 2) - 1, half_volume = 1 / (1 + half);
    Real e = e_old[i], p = p_old[i], q = q_old[i];
    for (Index r = 0; r < repeats[i]; ++r) {
        const Real before = p + q;
        Real p_half, q_half = 0;
        e = fmax(e - dv / 2 * before, m.energy_min);
        pressure(p_half, e, half, volume, m);
        if (dv <= 0) q_half = sound_speed(e, p_half, half_volume, half, m) * ql + qq;
        e += dv / 2 * (3 * before - 4 * (p_half + q_half));
        cut_off(e, m);
        pressure(p, e, compression, volume, m);
        q = dv > 0 ? 0 : sound_speed(e, p, volume, compression, m) * ql + qq;
        e -= (7 * before - 8 * (p_half + q_half) + p + q) * dv / 6;
        cut_off(e, m);
        pressure(p, e, compression, volume, m);
        if (dv <= 0) q = sound_speed(e, p, volume, compression, m) * ql + qq;
        if (fabs(q) < m.viscosity_cut) q = 0;
    }
    e_new[i] = e;
    p_new[i] = p;
    q_new[i] = q;
    sound[i] = sound_speed(e, p, volume, compression, m);
}

// Of each block the shortest time in which sound crosses an element, and in which a volume changes too much.
__global__ void time_constraint(const Real* sound, const Real* rate, const Real* extent, Real quadratic, Real most,
                                Real* courant, Real* hydro, Index elements) {
    __shared__ Real shortest[BLOCK], changing[BLOCK];
    const Index t = threadIdx.x, e = blockIdx.x * BLOCK + t;
    shortest[t] = changing[t] = 1e20;
    if (e < elements && rate[e] != 0) {
        Real speed = square(sound[e]);
        if (rate[e] < 0) speed += 4 * square(quadratic * extent[e] * rate[e]);
        shortest[t] = extent[e] / sqrt(speed);
        changing[t] = most / (fabs(rate[e]) + Real(1e-20));
    }
    __syncthreads();
    for (Index half = BLOCK / 2; half > 0; half /= 2) {
        if (t < half) {
            shortest[t] = fmin(shortest[t], shortest[t + half]);
            changing[t] = fmin(changing[t], changing[t + half]);
        }
        __syncthreads();
    }
    if (t == 0) {
        courant[blockIdx.x] = shortest[0];
        hydro[blockIdx.x] = changing[0];
    }
}
