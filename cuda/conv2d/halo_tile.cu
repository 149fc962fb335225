#include "conv2d/register_tile.cuh"
#include "conv2d/taps.cuh"

#ifndef TILE_WIDTH
#define TILE_WIDTH 16
#endif

// A convolution with stride 1 whose blocks read their part of the image once. The patches of neighboring pixels overlap: in
// conv2d_register_tile the taps of a window copy a pixel one after another, rows * columns times. Here a block copies a tile
// of the image with its halo, the pixels around it that its windows reach, for a few channels at a time, and all taps find
// their patches there. Windows are at most 7 x 7, so that two such tiles fit in shared memory: while the taps meet the
// channels of one, the next ones are copied.
// block -> a tile of 256 pixels, TILE_WIDTH wide, and 64 kernels (of dx: channels).
constexpr int TILE_HEIGHT = 256 / TILE_WIDTH, ACROSS = 64, AROUND = 6, CHANNELS = 32 / sizeof(real);
constexpr int HALO = (TILE_HEIGHT + AROUND) * (TILE_WIDTH + AROUND);  // pixels, at most

// In shared memory: for each pixel its offset in the image, -1 in the padding, and its next channels, of two chunks.
struct HaloTile {
    int offset[HALO];
    alignas(16) real chunk[2][HALO * CHANNELS];
};

// The place of a stage in the sum, which goes by chunks of channels, and for each of them by taps.
struct Stage {
    int chunk, tap;
    __device__ Stage(const Division& by_taps, int start)
        : chunk(by_taps.of(start / CHANNELS)), tap(by_taps.rest(start / CHANNELS, chunk)) {}
};

// A factor whose row is a pixel of the tile.
template <int RUN>
struct TilePixels {
    static constexpr int EXTENT = 256, DEPTH = CHANNELS, SIZE = 0;
    const real* image;
    HaloTile& own;
    int channels, width, size;
    Division by_taps, by_columns;

    __device__ TilePixels(const real* image, HaloTile& own, const Taps& at, int n, int top, int left)
        : image(image), own(own), channels(at.channels), width(TILE_WIDTH + at.columns - 1),
          size(width * (TILE_HEIGHT + at.rows - 1)), by_taps(at.rows * at.columns), by_columns(at.columns) {
        // [find the pixels]
        for (int i = threadIdx.x; i < size; i += FOUR_WARPS) {
            int h = top + i / width + at.first_y, v = left + i % width + at.first_x;
            bool inside = (unsigned)h < at.height && (unsigned)v < at.width;
            own.offset[i] = inside ? ((n * at.height + h) * at.width + v) * channels : -1;
        }
        __syncthreads();
    }
    // With the first tap of a chunk, the chunk.
    __device__ void copy(real*, int start) const {
        // [copy]
        constexpr int RUNS = CHANNELS / RUN;  // of a pixel
        Stage at(by_taps, start);
        if (at.tap > 0) return;
        for (int i = threadIdx.x; i < size * RUNS; i += FOUR_WARPS) {
            int offset = own.offset[i / RUNS], channel = at.chunk * CHANNELS + i % RUNS * RUN;
            bool inside = offset >= 0 && channel < channels;
            real* to = own.chunk[at.chunk % 2] + i * RUN;
            const real* from = image + (inside ? offset + channel : 0);
            if constexpr (RUN == 1) copy_async(to, from, inside);
            else copy_async(&vec(to), &vec(from), inside);
        }
    }
    // [element]
    template <int APART>
    static __device__ int element(int me, int i) { return me + i * APART; }

    // Four channels of the pixels of a thread, where the tap of this stage finds them.
    template <int APART, int COUNT>
    __device__ void fetch(real (&four)[COUNT][LANES], const real*, int start, int first, int me, int depth) const {
        // [fetch]
        Stage at(by_taps, start);
        int pixel = first + me, r = by_columns.of(at.tap), s = by_columns.rest(at.tap, r);
        int corner = (pixel / TILE_WIDTH + r) * width + pixel % TILE_WIDTH + s;
        const real* chunk = own.chunk[at.chunk % 2] + corner * CHANNELS + depth;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            Vec found = vec(chunk + (i * APART / TILE_WIDTH * width + i * APART % TILE_WIDTH) * CHANNELS);
#pragma unroll
            for (int j = 0; j < LANES; ++j) four[i][j] = found.at[j];
        }
    }
};

// [kernels]
// w as the other factor. ALONG: a row is a kernel, and the sum goes along its channels. DOWN, for dx: a column is a channel,
// and the window is turned by half a turn.
template <class Its, Way WAY>
struct TapOfKernels : Its {
    const real* w;
    int kernels, channels, taps, left;
    Division by_taps;

    __device__ TapOfKernels(const real* w, const Window& at, int kernels, int left)
        : w(w), kernels(kernels), channels(at.channels), taps(at.rows * at.columns), left(left), by_taps(taps) {}
    __device__ void copy(real* tile, int start) const {
        Stage at(by_taps, start);
        int first = at.chunk * CHANNELS, tap = WAY == ALONG ? at.tap : taps - 1 - at.tap;
        int top = Its::y() + (WAY == ALONG ? left : first), channel = Its::x() + (WAY == ALONG ? first : left);
#pragma unroll
        for (int i = 0; i < Its::RUNS; ++i) {
            int k = top + i * Its::STEP;
            bool inside = k < kernels && channel < channels;
            Its::copy_run(tile, i, w + (inside ? (k * taps + tap) * channels + channel : 0), inside);
        }
    }
};

// The convolution of an image with kernels. store(pixel, column, sum) takes what register_product has, pixels (n, p, q).
template <int RUN, Way WAY, class Store>
__device__ void halo_product(
    const real* image, HaloTile& own, const Taps& taps, const real* w, const Window& at, int kernels, int columns, Store store) {
    int blocks = (columns + ACROSS - 1) / ACROSS, n = blockIdx.z / blocks, first = blockIdx.z % blocks * ACROSS;
    int top = blockIdx.y * TILE_HEIGHT, left = blockIdx.x * TILE_WIDTH, chunks = (taps.channels + CHANNELS - 1) / CHANNELS;
    auto place = [=](int row, int column, const auto& sum) {
        int p = top + row / TILE_WIDTH, q = left + row % TILE_WIDTH;
        bool inside = p < taps.grid_height && q < taps.grid_width;
        if (inside) store((n * taps.grid_height + p) * taps.grid_width + q, first + column, sum);
    };
    register_product(
        TilePixels<RUN>(image, own, taps, n, top, left),
        TapOfKernels<RegisterTile<ACROSS, WAY, RUN, 32>, WAY>(w, at, kernels, first),
        chunks * taps.rows * taps.columns * CHANNELS, place);
}

// y = the convolution of x with w, + bias.
extern "C" __global__ void __launch_bounds__(FOUR_WARPS, 2) conv2d_halo_tile(
    const real* x, const real* w, const real* bias, real* y, Window at, int kernels, int images) {
    __shared__ HaloTile own;
    auto store = [=](int pixel, int k, real sum) {
        if (k < kernels) y[pixel * kernels + k] = sum + (bias ? bias[k] : real(0));
    };
    if (at.channels % LANES == 0) halo_product<LANES, ALONG>(x, own, taps_of(at), w, at, kernels, kernels, store);
    else halo_product<1, ALONG>(x, own, taps_of(at), w, at, kernels, kernels, store);
}

// dx = the convolution of dy with the kernels turned by half a turn: where y[p] takes x[p - top + r], dx[h] takes
// dy[h + top - r].
extern "C" __global__ void __launch_bounds__(FOUR_WARPS, 2) conv2d_halo_tile_backward_x(
    const real* dy, const real* w, real* dx, Window at, int kernels, int images) {
    __shared__ HaloTile own;
    Taps taps = {at.out_height, at.out_width, kernels, at.height, at.width, at.rows, at.columns, 1, 1,
                 at.top - at.rows + 1, at.left - at.columns + 1, 1, 1};
    auto store = [=](int pixel, int channel, const Vec& sum) {
        if (at.channels % LANES == 0) write<LANES>(dx + pixel * at.channels, channel, at.channels, sum);
        else write<1>(dx + pixel * at.channels, channel, at.channels, sum);
    };
    if (at.channels % LANES == 0 && kernels % LANES == 0) halo_product<LANES, DOWN>(dy, own, taps, w, at, kernels, at.channels, store);
    else halo_product<1, DOWN>(dy, own, taps, w, at, kernels, at.channels, store);
}
