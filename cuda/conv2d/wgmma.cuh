// A convolution by wgmma, of images and kernels whose channels are last in memory.
#pragma once
#include "conv2d/epilogue.cuh"
#include "matmul/hopper.cuh"
#include "window.cuh"

#ifndef DOWN
#define DOWN 2
#endif
#ifndef PIXELS
#define PIXELS 256
#endif

// block -> tiles of 64 * DOWN kernels x PARTS * PIXELS pixels of y, one after another, so that it copies the next tile's
// factors while it stores. Of its three groups of four warps two multiply, each 64 kernels x PIXELS pixels, and one thread
// of the third feeds the copy engine. A stage, 128 bytes of a tap's channels of w and of x, passes from the third group to
// the others.
constexpr int PARTS = 2 / DOWN, GROUP = 128, BYTES = 128, SHARED = 221312;
constexpr int W_SIZE = 64 * DOWN * BYTES, SIZE = W_SIZE + PARTS * PIXELS * BYTES;
template <class T> constexpr int DEPTH = BYTES / sizeof(T);  // channels of a stage

template <int N>
__device__ void multiply(float (&sum)[N], const unsigned char* w, const unsigned char* x, bfloat16) {
#pragma unroll
    for (int i = 0; i < BYTES; i += 32) wgmma<false, false>(sum, describe(w + i, 16), describe(x + i, 16));
}
template <int N>
__device__ void multiply(float (&sum)[N], const unsigned char* w, const unsigned char* x, float) {
#pragma unroll
    for (int i = 0; i < BYTES; i += 32) wgmma_tf32(sum, describe(w + i, 16), describe(x + i, 16));
}

// Where a pixel's first kernel lies in y, if it is a pixel of y.
struct Place {
    int at;
    bool inside;
};

// Stores a lane's sums of 64 kernels x PIXELS pixels: of every eighth pair of pixels those of kernels `row` and row + 8. It
// reads the residuals of 32 pixels before it stores the first, since the compiler must not exchange the two. places.of gives
// a function: the place of each of 32 pixels, asked by all lanes together.
constexpr int AHEAD = 8;
template <class Places>
__device__ void store(
    const float (&sum)[PIXELS / 2], const Epilogue<float>& end, const Places& places, float* y, int kernel, int first,
    int lane) {
    int row = kernel + lane / 4;
    float low = end.start(row), high = end.start(row + 8);
    auto number = [=](int i) { return i / 2 * 8 + lane % 4 * 2 + i % 2; };
#pragma unroll
    for (int group = 0; group < PIXELS; group += 32) {
        auto place = places.of(first + group, lane);
        float more[AHEAD][2] = {};
        if (end.residual) {
#pragma unroll
            for (int i = 0; i < AHEAD; ++i) {
                Place pixel = place(number(i));
                int at = pixel.at + row;
                if (pixel.inside) more[i][0] = end.more(at), more[i][1] = end.more(at + 8);
            }
        }
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            Place pixel = place(number(i));
            int at = pixel.at + row, own = group / 2 + i / 2 * 4 + i % 2;
            if (pixel.inside) {
                y[at] = end.cut(sum[own] + low + more[i][0]);
                y[at + 8] = end.cut(sum[own + 2] + high + more[i][1]);
            }
        }
    }
}
template <class Places>
__device__ void store(
    const float (&sum)[PIXELS / 2], const Epilogue<bfloat16>& end, const Places& places, bfloat16* y, int kernel, int first,
    int lane) {
    int row = kernel + lane / 4, column = kernel + lane % 4 * 2;
    float low = end.start(row), high = end.start(row + 8);
    // The residual is read like y is written, in pairs of kernels, and turned to pairs of pixels, like the sums.
    auto pair = [&](int at) { return *reinterpret_cast<const unsigned*>(end.residual + at); };
#pragma unroll
    for (int group = 0; group < PIXELS; group += 32) {
        auto place = places.of(first + group, lane);
        unsigned more[AHEAD / 2][2] = {};
        if (end.residual) {
#pragma unroll
            for (int i = 0; i < AHEAD / 2; ++i) {
                Place pixel = place(i * 8 + lane / 4);
                int at = pixel.at + column;
                if (pixel.inside) more[i][0] = pair(at), more[i][1] = pair(at + 8);
            }
#pragma unroll
            for (int i = 0; i < AHEAD; ++i) more[i / 2][i % 2] = transposed(more[i / 2][i % 2]);
        }
#pragma unroll
        for (int i = 0; i < AHEAD / 2; ++i) {
            const float* own = sum + group / 2 + i * 4;
            auto y_of = [&](int j) {
                unsigned both = more[i][j / 2];  // pixel 0 in the lower half, pixel 1 in the upper one
                float residual = __uint_as_float(j % 2 ? both & 0xffff0000 : both << 16);
                return end.cut(own[j] + (j < 2 ? low : high) + residual);
            };
            unsigned upper = transposed(to_bf16(y_of(0), y_of(1))), lower = transposed(to_bf16(y_of(2), y_of(3)));
            Place pixel = place(i * 8 + lane / 4);
            int at = pixel.at + column;
            if (pixel.inside) {
                *reinterpret_cast<unsigned*>(y + at) = upper;
                *reinterpret_cast<unsigned*>(y + at + 8) = lower;
            }
        }
    }
}

// The stages of a tile's sums, from `begin` to `stop`. Stage 0 is of tap (down, across) of a window whose rows have `columns`
// taps, and lies in w behind `before` others.
struct Stages {
    int begin, stop, before, columns, down, across;
};

// All pixels of y, in order; their sums in parts of `chunk` stages.
struct Parts {
    static constexpr bool FULL = true;  // each tile has stages
    int columns, steps, chunk, layers;

    __device__ Parts(const Window& at, int depth, int chunk)
        : columns(at.columns), steps(at.rows * at.columns * at.channels / depth), chunk(chunk),
          layers((steps + chunk - 1) / chunk) {}
    __device__ int next(int tile) const { return tile + gridDim.x; }
    __device__ Stages stages(int part) const {
        int begin = part * chunk;
        return {begin, min(begin + chunk, steps), 0, columns, 0, 0};
    }
    struct Places {
        int pixels, kernels;
        __device__ auto of(int first, int) const {
            return [*this, first](int i) { return Place{(first + i) * kernels, first + i < pixels}; };
        }
    };
    __device__ Places places(int, int pixels, int kernels) const { return {pixels, kernels}; }
};

// y^T = w @ patches^T + bias. Its rows are kernels, a multiple of 64, and its columns pixels (n, p, q). The sum goes along
// the rows of both, as wgmma wants it: (r, s, c), channels in multiples of 128 bytes. The copy engine finds the patches:
// its map of x holds stride and padding, and it rounds floats to TF32.
// SPLIT: w_rest and x_rest are what that rounding leaves out. A product of two sums is w x + w x_rest + w_rest x, and
// what is missing, w_rest x_rest, is 2^-22 of it. Tensor cores round their sums toward zero, so the sum of each stage is
// added to the total by ordinary additions.
// Few tiles would leave multiprocessors idle. Then the stages of a sum are split into parts of `chunk`, which different
// blocks add up: the partial sums go to `sums`, (parts, pixels, kernels), and conv2d_finish makes y of them.
// way: the layers of tiles, such as these parts: their order, and the stages and the places in y of each.
template <class T, bool SPLIT, class Way>
__device__ void product(
    const TensorMap& w, const TensorMap& w_rest, const TensorMap& x, const TensorMap& x_rest, const Epilogue<T>& end, T* y,
    float* sums, const Window& at, int kernels, int images, const Way& way) {
    constexpr int STAGE = SIZE * (1 + SPLIT), FIT = SHARED / (STAGE + 16), STAGES = FIT < 4 ? FIT : 4;
    extern __shared__ __align__(1024) unsigned char stages[];
    Barrier *full = reinterpret_cast<Barrier*>(stages + STAGES * STAGE), *empty = full + STAGES;
    int group = threadIdx.x / GROUP, image = at.out_height * at.out_width, pixels = images * image, turn = 0;
    int tall = kernels / (64 * DOWN), tiles = (pixels + PARTS * PIXELS - 1) / (PARTS * PIXELS) * tall;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) barrier_init(&full[stage], 1), barrier_init(&empty[stage], 2);
        barriers_ready();
    }
    __syncthreads();
    for (int tile = blockIdx.x; tile < tiles * way.layers; tile = way.next(tile)) {
        // [own]
        int kernel = tile % tall * 64 * DOWN, first = tile % tiles / tall * PARTS * PIXELS;
        Stages own = way.stages(tile / tiles);
        // [copy]
        if (group == 2) {
            if (threadIdx.x != 2 * GROUP) return;
            auto copy = [&](unsigned char* to, const TensorMap& w, const TensorMap& x, int step, int c, int tap, Barrier* barrier) {
                copy_box(to, &w, (own.before + step) * DEPTH<T>, kernel, 0, barrier);
#pragma unroll
                for (int part = 0; part < PARTS; ++part) {
                    int n = (first + part * PIXELS) / image, place = (first + part * PIXELS) % image;
                    copy_pixels(
                        to + W_SIZE + part * PIXELS * BYTES, &x, c, at.column(place % at.out_width, 0),
                        at.row(place / at.out_width, 0), n, own.across + tap % own.columns * at.dilation_x,
                        own.down + tap / own.columns * at.dilation_y, barrier);
                }
            };
            int each = at.channels / DEPTH<T>, tap = own.begin / each, c = own.begin % each * DEPTH<T>;
            for (int step = own.begin; step < own.stop; ++step, ++turn) {
                int stage = turn % STAGES, round = turn / STAGES;
                if (round > 0) barrier_wait(&empty[stage], (round - 1) % 2);
                barrier_expect(&full[stage], STAGE);
                copy(stages + stage * STAGE, w, x, step, c, tap, &full[stage]);
                if (SPLIT) copy(stages + stage * STAGE + SIZE, w_rest, x_rest, step, c, tap, &full[stage]);
                c += DEPTH<T>;
                if (c == at.channels) c = 0, ++tap;
            }
            continue;
        }
        // [multiply]
        int w_at = DOWN == 2 ? group * 64 * BYTES : 0, x_at = W_SIZE + (DOWN == 1 ? group * PIXELS * BYTES : 0);
        float sum[PIXELS / 2] = {}, total[SPLIT ? PIXELS / 2 : 1] = {};
        for (int step = own.begin; step < own.stop; ++step, ++turn) {
            int stage = turn % STAGES;
            const unsigned char *its = stages + stage * STAGE, *rest = its + SIZE;
            barrier_wait(&full[stage], turn / STAGES % 2);
            wgmma_fence(sum);
            if (SPLIT) multiply(sum, rest + w_at, its + x_at, T()), multiply(sum, its + w_at, rest + x_at, T());
            multiply(sum, its + w_at, its + x_at, T());
            wgmma_commit();
            if (SPLIT) {
                wgmma_wait<0>(sum);
                if (threadIdx.x % GROUP == 0) barrier_arrive(&empty[stage]);
#pragma unroll
                for (int i = 0; i < PIXELS / 2; ++i) total[SPLIT ? i : 0] += sum[i], sum[i] = 0;
            } else {
                wgmma_wait<1>(sum);  // the products of the step before are complete: its stage is free
                if (step > own.begin && threadIdx.x % GROUP == 0) barrier_arrive(&empty[(turn - 1) % STAGES]);
            }
        }
        if (!SPLIT) {
            wgmma_wait<0>(sum);
            if ((Way::FULL || own.begin < own.stop) && threadIdx.x % GROUP == 0) barrier_arrive(&empty[(turn - 1) % STAGES]);
        }
        // [store]
        int lane = threadIdx.x % 32, below = threadIdx.x / 32 % 4 * 16;
        kernel += below + (DOWN == 2 ? group * 64 : 0), first += DOWN == 1 ? group * PIXELS : 0;
        const auto& whole = [&]() -> const float(&)[PIXELS / 2] {
            if constexpr (SPLIT) return total;
            else return sum;
        }();
        auto places = way.places(tile / tiles, pixels, kernels);
        if (sums) {
            float* part = sums + tile / tiles * pixels * kernels;
            store(whole, Epilogue<float>{}, places, part, kernel, first, lane);
        } else {
            store(whole, end, places, y, kernel, first, lane);
        }
    }
}
