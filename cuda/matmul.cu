#include "common.cuh"

#ifndef TILE
#define TILE 16
#endif

// c = a @ b: (m, k) @ (k, n) -> (m, n), row after row in memory.
// All three forward kernels take the same arguments and run TILE x TILE threads per block.

// thread -> one element of c. Neighboring threads (x) own neighboring ROWS: a warp reads elements
// of a that lie k apart, and writes elements of c that lie n apart. Correct, and slow.
extern "C" __global__ void matmul_naive(
    const real* a, const real* b, real* c, int m, int n, int k) {
    int row = blockIdx.x * TILE + threadIdx.x, column = blockIdx.y * TILE + threadIdx.y;
    if (row < m && column < n) {
        real sum = 0;
        for (int i = 0; i < k; ++i) {
            sum += a[row * k + i] * b[i * n + column];
        }
        c[row * n + column] = sum;
    }
}

// thread -> one element of c. Neighboring threads (x) own neighboring COLUMNS: a warp reads
// neighbors of b, writes neighbors of c and shares one element of a. Only x and y are swapped.
extern "C" __global__ void matmul_coalesced(
    const real* a, const real* b, real* c, int m, int n, int k) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    if (row < m && column < n) {
        real sum = 0;
        for (int i = 0; i < k; ++i) {
            sum += a[row * k + i] * b[i * n + column];
        }
        c[row * n + column] = sum;
    }
}

// block -> TILE x TILE tile of c; thread -> one element of it.
// Tiles of a and b pass through shared memory: each number from global memory is used TILE times.
extern "C" __global__ void matmul_tiled(
    const real* a, const real* b, real* c, int m, int n, int k) {
    // [own]
    __shared__ real a_tile[TILE][TILE], b_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    real sum = 0;
    for (int start = 0; start < k; start += TILE) {
        // [load tile]
        a_tile[y][x] = row < m && start + x < k ? a[row * k + start + x] : 0;
        b_tile[y][x] = start + y < k && column < n ? b[(start + y) * n + column] : 0;
        __syncthreads();  // the tiles are complete
        // [multiply]
        for (int i = 0; i < TILE; ++i) {
            sum += a_tile[y][i] * b_tile[i][x];
        }
        __syncthreads();  // and read by all, before the next ones overwrite them
    }
    // [store]
    if (row < m && column < n) c[row * n + column] = sum;
}

// da = dy @ b^T: (m, n) @ (n, k). block -> tile of da; thread -> one element of it.
// b is read along its rows, as it is stored, so the reads are coalesced; its tile in shared memory is
// read transposed. One more element per row puts the elements of a column in different banks.
extern "C" __global__ void matmul_backward_a(
    const real* dy, const real* b, real* da, int m, int n, int k) {
    // [own]
    __shared__ real dy_tile[TILE][TILE], b_tile[TILE][TILE + 1];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    int b_row = blockIdx.x * TILE + y;  // the row of b that this thread loads: a column of da
    real sum = 0;
    for (int start = 0; start < n; start += TILE) {
        // [load tile]
        dy_tile[y][x] = row < m && start + x < n ? dy[row * n + start + x] : 0;
        b_tile[y][x] = b_row < k && start + x < n ? b[b_row * n + start + x] : 0;
        __syncthreads();
        // [multiply]
        for (int i = 0; i < TILE; ++i) {
            sum += dy_tile[y][i] * b_tile[x][i];
        }
        __syncthreads();
    }
    // [store]
    if (row < m && column < k) da[row * k + column] = sum;
}

// db = a^T @ dy: (k, m) @ (m, n). block -> tile of db; thread -> one element of it.
// a is read as it is stored, too, and its tile transposed: threads of one y read the same element,
// so there is no conflict.
extern "C" __global__ void matmul_backward_b(
    const real* a, const real* dy, real* db, int m, int n, int k) {
    // [own]
    __shared__ real a_tile[TILE][TILE], dy_tile[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    int a_column = blockIdx.y * TILE + x;  // the column of a that this thread loads: a row of db
    real sum = 0;
    for (int start = 0; start < m; start += TILE) {
        // [load tile]
        a_tile[y][x] = start + y < m && a_column < k ? a[(start + y) * k + a_column] : 0;
        dy_tile[y][x] = start + y < m && column < n ? dy[(start + y) * n + column] : 0;
        __syncthreads();
        // [multiply]
        for (int i = 0; i < TILE; ++i) {
            sum += a_tile[i][y] * dy_tile[i][x];
        }
        __syncthreads();
    }
    // [store]
    if (row < k && column < n) db[row * n + column] = sum;
}
