#include "matmul/hopper.cuh"
#include "window.cuh"

#ifndef DOWN
#define DOWN 2
#endif

// block -> tiles of 64 * DOWN kernels x 512 / DOWN pixels of y, one after another, so that it copies the next tile's factors
// while it stores. Of its three groups of four warps two multiply, each 64 kernels x 256 pixels, and one thread of the third
// feeds the copy engine. A stage, 128 bytes of a tap's channels of w and of x, passes from the third group to the others.
constexpr int PIXELS = 256, PARTS = 2 / DOWN, GROUP = 128, BYTES = 128;
constexpr int W_SIZE = 64 * DOWN * BYTES, STAGE = W_SIZE + PARTS * PIXELS * BYTES, STAGES = DOWN == 2 ? 4 : 3;

template <class T> constexpr int DEPTH = BYTES / sizeof(T);  // channels of a stage

__device__ inline void multiply(float (&sum)[128], Tile w, Tile x, bfloat16) { wgmma<false, false>(sum, w, x); }
__device__ inline void multiply(float (&sum)[128], Tile w, Tile x, float) { wgmma_tf32(sum, w, x); }

// Four lanes have two rows each of four columns; after it each has two columns of four rows: an 8 x 8 matrix transposed.
__device__ inline unsigned transposed(unsigned pair) {
    unsigned turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
    return turned;
}

// Stores a lane's sums of 64 kernels x 256 pixels, of which it has two pixels, 8 apart, of kernels `row` and row + 8.
__device__ inline void store(
    const float (&sum)[128], const float* bias, float* y, int kernel, int first, int kernels, int pixels, int lane) {
    int row = kernel + lane / 4;
    float low = bias ? bias[row] : 0, high = bias ? bias[row + 8] : 0;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        int pixel = first + i / 2 * 8 + lane % 4 * 2 + i % 2;
        if (pixel < pixels) {
            y[pixel * kernels + row] = sum[i / 2 * 4 + i % 2] + low;
            y[pixel * kernels + row + 8] = sum[i / 2 * 4 + i % 2 + 2] + high;
        }
    }
}
__device__ inline void store(
    const float (&sum)[128], const bfloat16* bias, bfloat16* y, int kernel, int first, int kernels, int pixels, int lane) {
    int row = kernel + lane / 4, column = kernel + lane % 4 * 2;
    float low = bias ? __uint_as_float(bias[row] << 16) : 0, high = bias ? __uint_as_float(bias[row + 8] << 16) : 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        unsigned upper = transposed(to_bf16(sum[i * 4] + low, sum[i * 4 + 1] + low));
        unsigned lower = transposed(to_bf16(sum[i * 4 + 2] + high, sum[i * 4 + 3] + high));
        int pixel = first + i * 8 + lane / 4;
        if (pixel < pixels) {
            *reinterpret_cast<unsigned*>(y + pixel * kernels + column) = upper;
            *reinterpret_cast<unsigned*>(y + pixel * kernels + column + 8) = lower;
        }
    }
}

// y^T = w @ patches^T + bias. Its rows are kernels, a multiple of 64, and its columns pixels (n, p, q). The sum goes along
// the rows of both, as wgmma wants it: (r, s, c), channels in multiples of 128 bytes. The copy engine finds the patches:
// its map of x holds stride and padding.
template <class T>
__device__ void product(const TensorMap& w, const TensorMap& x, const T* bias, T* y, const Window& at, int kernels, int images) {
    extern __shared__ __align__(1024) unsigned char stages[];
    Barrier *full = reinterpret_cast<Barrier*>(stages + STAGES * STAGE), *empty = full + STAGES;
    int group = threadIdx.x / GROUP, image = at.out_height * at.out_width, pixels = images * image, turn = 0;
    int tall = kernels / (64 * DOWN), tiles = (pixels + PARTS * PIXELS - 1) / (PARTS * PIXELS) * tall;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) barrier_init(&full[stage], 1), barrier_init(&empty[stage], 2);
        barriers_ready();
    }
    __syncthreads();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        // [own]
        int kernel = tile % tall * 64 * DOWN, first = tile / tall * PARTS * PIXELS;
        int steps = at.rows * at.columns * at.channels / DEPTH<T>;
        // [copy]
        if (group == 2) {
            if (threadIdx.x != 2 * GROUP) return;
            for (int step = 0, c = 0, tap = 0; step < steps; ++step, ++turn) {
                int stage = turn % STAGES, round = turn / STAGES;
                unsigned char* to = stages + stage * STAGE;
                if (round > 0) barrier_wait(&empty[stage], (round - 1) % 2);
                barrier_expect(&full[stage], STAGE);
                copy_box(to, &w, step * DEPTH<T>, kernel, 0, &full[stage]);
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    int pixel = first + part * PIXELS, p = pixel % image / at.out_width;
                    copy_pixels(
                        to + W_SIZE + part * PIXELS * BYTES, &x, c, at.column(pixel % image % at.out_width, 0), at.row(p, 0),
                        pixel / image, tap % at.columns * at.dilation_x, tap / at.columns * at.dilation_y, &full[stage]);
                }
                c += DEPTH<T>;
                if (c == at.channels) c = 0, ++tap;
            }
            continue;
        }
        // [multiply]
        float sum[128] = {};
        for (int step = 0; step < steps; ++step, ++turn) {
            int stage = turn % STAGES;
            const unsigned char* w_tile = stages + stage * STAGE + (DOWN == 2 ? group * 64 * BYTES : 0);
            const unsigned char* x_tile = stages + stage * STAGE + W_SIZE + (DOWN == 1 ? group * PIXELS * BYTES : 0);
            barrier_wait(&full[stage], turn / STAGES % 2);
            wgmma_fence(sum);
#pragma unroll
            for (int i = 0; i < BYTES; i += 32) multiply(sum, describe(w_tile + i, 16), describe(x_tile + i, 16), T());
            wgmma_commit();
            wgmma_wait<1>(sum);  // the products of the step before are complete: its stage is free
            if (step > 0 && threadIdx.x % GROUP == 0) barrier_arrive(&empty[(turn - 1) % STAGES]);
        }
        wgmma_wait<0>(sum);
        if (threadIdx.x % GROUP == 0) barrier_arrive(&empty[(turn - 1) % STAGES]);
        // [store]
        int lane = threadIdx.x % 32, below = threadIdx.x / 32 % 4 * 16;
        kernel += below + (DOWN == 2 ? group * 64 : 0), first += DOWN == 1 ? group * PIXELS : 0;
        store(sum, bias, y, kernel, first, kernels, pixels, lane);
    }
}

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_tf32(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const float* bias, float* y, Window at,
    int kernels, int images) {
    product(w, x, bias, y, at, kernels, images);
}

extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) conv2d_wgmma_bf16(
    const __grid_constant__ TensorMap w, const __grid_constant__ TensorMap x, const bfloat16* bias, bfloat16* y, Window at,
    int kernels, int images) {
    product(w, x, bias, y, at, kernels, images);
}
