// The lookup of macroscopic cross-sections in a Monte Carlo code of neutrons, event by event, in the language that such
// codes use: structs, references, pointers into tables, a random number generator of 64-bit integers.

#define NUCLIDE_GRID 0    // each nuclide's own energies are searched
#define UNIONIZED_GRID 1  // the energies of all nuclides are searched once; a table has each nuclide's place in its own
#define KINDS 5
#define MATERIALS 12

typedef unsigned long long Seed;

struct GridPoint {
    double energy;
    double total, elastic, absorption, fission, nu_fission;
};

struct Problem {
    int lookups, nuclides, points, places, grid_type;
    Seed seed;
};

// A linear congruential generator, modulo 2^64.
__device__ double random_number(Seed* seed) {
    *seed = 6364136223846793005ULL * (*seed) + 1442695040888963407ULL;
    return (double)(*seed >> 11) * 0x1p-53;
}

// The seed after n numbers, by squaring the step.
__device__ Seed skip_ahead(Seed seed, Seed n) {
    Seed a = 6364136223846793005ULL, c = 1442695040888963407ULL, factor = 1, sum = 0;
    while (n > 0) {
        if (n & 1) {
            factor *= a;
            sum = sum * a + c;
        }
        c *= a + 1;
        a *= a;
        n >>= 1;
    }
    return factor * seed + sum;
}

// A material with the share that it has of a reactor: fuel, cladding, cold and hot water, vessel and the rest.
__device__ int pick_material(Seed& seed) {
    const double share[MATERIALS] = {0.140, 0.052, 0.275, 0.134, 0.154, 0.064, 0.066, 0.055, 0.008, 0.015, 0.025, 0.012};
    double roll = random_number(&seed), below = 0;
    for (int m = 0; m < MATERIALS; m++) {
        below += share[m];
        if (roll < below) return m;
    }
    return 0;
}

__device__ int search(const double* __restrict__ energies, int n, double e) {
    int low = 0, high = n - 1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (energies[middle] > e) high = middle; else low = middle;
    }
    return low;
}

__device__ int search(const GridPoint* __restrict__ points, int n, double e) {
    int low = 0, high = n - 1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (points[middle].energy > e) high = middle; else low = middle;
    }
    return low;
}

// The microscopic cross-sections of one nuclide, between two points of its grid.
__device__ void micro(double e, int nuclide, int place, const Problem& in, const int* index_grid, const GridPoint* grid,
                      double* xs) {
    const GridPoint* low;
    if (in.grid_type == NUCLIDE_GRID) {
        low = &grid[nuclide * in.points + search(grid + nuclide * in.points, in.points, e)];
    } else {
        int at = index_grid[place * in.nuclides + nuclide];
        low = &grid[nuclide * in.points + (at == in.points - 1 ? at - 1 : at)];
    }
    const GridPoint* high = low + 1;
    double f = (high->energy - e) / (high->energy - low->energy);
    xs[0] = high->total - f * (high->total - low->total);
    xs[1] = high->elastic - f * (high->elastic - low->elastic);
    xs[2] = high->absorption - f * (high->absorption - low->absorption);
    xs[3] = high->fission - f * (high->fission - low->fission);
    xs[4] = high->nu_fission - f * (high->nu_fission - low->nu_fission);
}

// thread -> one lookup, at a random energy in a random material. nuclide_of and density are tables of material x place,
// of which count[material] are in use; union_energy has nuclides * points energies, index_grid a row of each.
__global__ void lookup(
    Problem in, const int* count, const int* nuclide_of, const double* density, const double* union_energy,
    const int* index_grid, const GridPoint* grid, double* macro) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in.lookups) return;
    Seed seed = skip_ahead(in.seed, 2 * (Seed)i);
    const double e = random_number(&seed);
    const int material = pick_material(seed);
    double sum[KINDS] = {0};
    int place = 0;
    if (in.grid_type == UNIONIZED_GRID) place = search(union_energy, in.nuclides * in.points, e);
    for (int j = 0; j < count[material]; j++) {
        double xs[KINDS];
        const int row = material * in.places + j;
        micro(e, nuclide_of[row], place, in, index_grid, grid, xs);
        for (int k = 0; k < KINDS; k++) sum[k] += xs[k] * density[row];
    }
    for (int k = 0; k < KINDS; k++) macro[i * KINDS + k] = sum[k];
}
