// A step of the lattice Boltzmann method D3Q19 with obstacles, in the language that such codes use: function-like macros
// for the layout, and for what is done in each direction.

#ifndef real
#define real float
#endif

#ifndef NX
#define NX 120
#endif
#ifndef NY
#define NY 120
#endif
#ifndef NZ
#define NZ 150
#endif
#define OBSTACLE 1
#define ACCELERATE 2
#define CELL(x, y, z) (((z) * NY + (y)) * NX + (x))
#define AT(q, cell) ((q) * (NX * NY * NZ) + (cell))
#define WRAP(i, n) ((i) < 0 ? (i) + (n) : (i) >= (n) ? (i) - (n) : (i))
#define NEXT(cx, cy, cz) CELL(WRAP(x + (cx), NX), WRAP(y + (cy), NY), WRAP(z + (cz), NZ))

// number, number of the opposite direction, velocity, weight
#define DIRECTIONS(DO)                                                                            \
    DO(0, 0, 0, 0, 0, 1.0 / 3)                                                                    \
    DO(1, 2, 1, 0, 0, 1.0 / 18) DO(2, 1, -1, 0, 0, 1.0 / 18) DO(3, 4, 0, 1, 0, 1.0 / 18)          \
    DO(4, 3, 0, -1, 0, 1.0 / 18) DO(5, 6, 0, 0, 1, 1.0 / 18) DO(6, 5, 0, 0, -1, 1.0 / 18)         \
    DO(7, 8, 1, 1, 0, 1.0 / 36) DO(8, 7, -1, -1, 0, 1.0 / 36) DO(9, 10, 1, -1, 0, 1.0 / 36)       \
    DO(10, 9, -1, 1, 0, 1.0 / 36) DO(11, 12, 1, 0, 1, 1.0 / 36) DO(12, 11, -1, 0, -1, 1.0 / 36)   \
    DO(13, 14, 1, 0, -1, 1.0 / 36) DO(14, 13, -1, 0, 1, 1.0 / 36) DO(15, 16, 0, 1, 1, 1.0 / 36)   \
    DO(16, 15, 0, -1, -1, 1.0 / 36) DO(17, 18, 0, 1, -1, 1.0 / 36) DO(18, 17, 0, -1, 1, 1.0 / 36)

#define LOAD(q, o, cx, cy, cz, w) real f##q = src[AT(q, cell)];
#define BOUNCE(q, o, cx, cy, cz, w) dst[AT(q, NEXT(cx, cy, cz))] = f##o;
#define MOMENTS(q, o, cx, cy, cz, w) rho += f##q; ux += (cx) * f##q; uy += (cy) * f##q; uz += (cz) * f##q;
#define STREAM(q, o, cx, cy, cz, w) {                                        \
    real along = (cx) * ux + (cy) * uy + (cz) * uz;                          \
    real rest = real(w) * rho * (1 + along * (3 + real(4.5) * along) - squared); \
    dst[AT(q, NEXT(cx, cy, cz))] = f##q + omega * (rest - f##q);             \
}

// thread -> one cell: it relaxes towards equilibrium, or reflects, and sends each population to its neighbor.
__global__ void stream_collide(const real* src, real* dst, const unsigned char* flags, real omega) {
    const int cell = blockIdx.x * blockDim.x + threadIdx.x;
    if (cell >= NX * NY * NZ) return;
    const int x = cell % NX, y = cell / NX % NY, z = cell / (NX * NY);
    // [collide and stream]
    DIRECTIONS(LOAD)
    if (flags[cell] & OBSTACLE) {
        DIRECTIONS(BOUNCE)
        return;
    }
    real rho = 0, ux = 0, uy = 0, uz = 0;
    DIRECTIONS(MOMENTS)
    ux /= rho;
    uy /= rho;
    uz /= rho;
    if (flags[cell] & ACCELERATE) {
        ux = real(0.005);
        uy = real(0.002);
        uz = 0;
    }
    const real squared = real(1.5) * (ux * ux + uy * uy + uz * uz);
    DIRECTIONS(STREAM)
}
