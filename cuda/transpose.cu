#include "vector.cuh"

#ifndef TILE
#define TILE 16
#endif

// y[j, i] = x[i, j], directly. block -> a tile of TILE x TILE of matrix blockIdx.z; thread -> one element.
// Neighboring threads read neighbors of x, but write to y a whole column apart.
extern "C" __global__ void transpose_naive(const real* x, real* y, int rows, int cols) {
    // [locate]
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    int matrix = blockIdx.z * rows * cols;
    // [move]
    if (row < rows && col < cols) {
        y[matrix + col * rows + row] = x[matrix + row * cols + col];
    }
}

// The same through shared memory. block -> a tile; thread -> one element of x to read, another of y to write,
// chosen so that neighboring threads touch neighbors both times.
extern "C" __global__ void transpose_tiled(const real* x, real* y, int rows, int cols) {
    __shared__ real tile[TILE][TILE];
    int matrix = blockIdx.z * rows * cols;
    // [load tile]
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    if (row < rows && col < cols) {
        tile[threadIdx.y][threadIdx.x] = x[matrix + row * cols + col];
    }
    __syncthreads();  // a thread takes out what another one put in
    // [store tile]
    row = blockIdx.y * TILE + threadIdx.x;  // threadIdx.x and threadIdx.y are swapped
    col = blockIdx.x * TILE + threadIdx.y;
    if (row < rows && col < cols) {
        y[matrix + col * rows + row] = tile[threadIdx.x][threadIdx.y];  // down a column of the tile
    }
}

// The same with one more column in the tile: elements of a column now lie in different banks.
// block -> a tile; thread -> one element of x to read and another one of y to write.
extern "C" __global__ void transpose_padded(const real* x, real* y, int rows, int cols) {
    __shared__ real tile[TILE][TILE + 1];
    int matrix = blockIdx.z * rows * cols;
    // [load tile]
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
    if (row < rows && col < cols) {
        tile[threadIdx.y][threadIdx.x] = x[matrix + row * cols + col];
    }
    __syncthreads();
    // [store tile]
    row = blockIdx.y * TILE + threadIdx.x;
    col = blockIdx.x * TILE + threadIdx.y;
    if (row < rows && col < cols) {
        y[matrix + col * rows + row] = tile[threadIdx.x][threadIdx.y];
    }
}

// The same with larger tiles and fewer threads. block -> a tile by TILE x 4 threads; thread -> every fourth element of a
// column of x, and of y. It issues all of its loads before it uses the first, which keeps the memory busy.
extern "C" __global__ void transpose_strips(const real* x, real* y, int rows, int cols) {
    __shared__ real tile[TILE][TILE + 1];
    int matrix = blockIdx.z * rows * cols;
    // [load tile]
    int row = blockIdx.y * TILE + threadIdx.y;
    int col = blockIdx.x * TILE + threadIdx.x;
#pragma unroll
    for (int i = 0; i < TILE; i += 4) {
        if (row + i < rows && col < cols) tile[threadIdx.y + i][threadIdx.x] = x[matrix + (row + i) * cols + col];
    }
    __syncthreads();
    // [store tile]
    row = blockIdx.y * TILE + threadIdx.x;
    col = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
    for (int i = 0; i < TILE; i += 4) {
        if (row < rows && col + i < cols) y[matrix + (col + i) * rows + row] = tile[threadIdx.x][threadIdx.y + i];
    }
}

#ifndef EDGE
#define EDGE 64
#endif

// The same for any permutation that moves the last axis: the columns of the matrices are the last axis of x, `cols` long,
// their rows the last axis of y, `rows` long, and the other axes are a batch. The views find the beginning of matrix
// blockIdx.z in x and in y, and a pitch is the distance of its rows there.
extern "C" __global__ void transpose_planes(
    const real* x, real* y, int rows, int cols, int x_pitch, int y_pitch, View x_at, View y_at) {
    __shared__ real tile[EDGE][EDGE + 1];
    x += x_at(blockIdx.z);
    y += y_at(blockIdx.z);
    // [load tile]
    int row = blockIdx.y * EDGE + threadIdx.y;
    int col = blockIdx.x * EDGE + threadIdx.x;
#pragma unroll
    for (int i = 0; i < EDGE; i += 4) {
        if (row + i < rows && col < cols) tile[threadIdx.y + i][threadIdx.x] = x[(row + i) * x_pitch + col];
    }
    __syncthreads();
    // [store tile]
    row = blockIdx.y * EDGE + threadIdx.x;
    col = blockIdx.x * EDGE + threadIdx.y;
#pragma unroll
    for (int i = 0; i < EDGE; i += 4) {
        if (row < rows && col + i < cols) y[(col + i) * y_pitch + row] = tile[threadIdx.x][threadIdx.y + i];
    }
}

// y[i] = element i of the view of x: any permutation of any axes. thread -> one element of y.
extern "C" __global__ void transpose_permute(const real* x, real* y, View x_at, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[x_at(i)];
    }
}

// The same with four elements per thread: see vector.cuh.
extern "C" __global__ void transpose_permute_vectorized(const real* x, real* y, View x_at, int n) {
    map(y, n, [](real x) { return x; }, Viewed{x, x_at});
}
