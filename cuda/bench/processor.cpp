// The limits of the cores: their multiplications and additions, and the bytes that they read, each alone or all at once.

#include "recurrent/vectors.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT const int operations = 2 * ACCUMULATORS * LANES;  // of one turn of the first loop

// x = x * 0.999 + 0.999, n times in each of as many registers as a tile has sums. The sum is returned, so that a
// compiler must compute it.
static real multiply_add(int64_t n) {
    vector x[ACCUMULATORS], total = {};
    const vector factor = vector{} + real(0.999);
#pragma GCC unroll 32
    for (int j = 0; j < ACCUMULATORS; j++) {  // unrolled, as all loops over x: else it would lie in memory
        x[j] = vector{} + real(j);
    }
    for (int64_t i = 0; i < n; i++) {
#pragma GCC unroll 32
        for (int j = 0; j < ACCUMULATORS; j++) {
            x[j] = x[j] * factor + factor;
        }
    }
#pragma GCC unroll 32
    for (int j = 0; j < ACCUMULATORS; j++) {
        total += x[j];
    }
    return total[0];
}

// All numbers are read n times, each time in the other direction, and so those first that are still in the cache; count
// is a multiple of 8 vectors'.
static real read_again(const real* from, int64_t count, int64_t n) {
    vector sum[8] = {}, total = {};
    for (int64_t i = 0; i < n; i++) {
        for (int64_t done = 0; done < count; done += 8 * LANES) {
            const real* at = from + (i % 2 ? count - 8 * LANES - done : done);
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++) {
                sum[j] += load(at + j * LANES);
            }
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        total += sum[j];
    }
    return total[0];
}

// The same by so many threads at once; the sum of all, of reading each thread's own `count` numbers.
EXPORT real multiply_add_together(int64_t n, int64_t threads) {
    real total = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : total)
    for (int64_t i = 0; i < threads; i++) {
        total += multiply_add(n);
    }
    return total;
}

EXPORT real read_together(const real* from, int64_t count, int64_t n, int64_t threads) {
    real total = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : total)
    for (int64_t i = 0; i < threads; i++) {
        total += read_again(from + i * count, count, n);
    }
    return total;
}
