// Images with their channels last, seen as (pixels, channels), in fours of neighboring channels.
#pragma once
#include "vector.cuh"

// block -> a strip of pixels, threadIdx.x -> four channels, threadIdx.y -> every blockDim.y-th pair of the strip's pixels.
// Neighboring threads own neighboring channels, so a warp reads whole rows of memory, and each thread keeps the numbers
// of its channels in registers. Two pixels at once: both are on their way while the thread waits, and the signs of their
// eight elements fill a byte.
struct Strip {
    int channels, pixels, c, first, stop;  // its first channel; its pairs are first, first + blockDim.y, ... below stop

    // pairs: those of a strip. With `backwards` the first blocks own the last strips: what the kernel before has read
    // last is still in the cache.
    __device__ Strip(int channels, int pixels, int pairs, bool backwards = false) : channels(channels), pixels(pixels) {
        int start = (backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x) * pairs;
        c = (blockIdx.y * blockDim.x + threadIdx.x) * LANES;
        first = start + threadIdx.y;
        stop = c < channels ? min(start + pairs, (pixels + 1) / 2) : 0;  // a thread beyond the channels owns nothing
    }

    // Calls visit(i, both, pair) for each pair of the thread: four channels of its first pixel begin at element i. The
    // last pair of an odd number of pixels has no second one.
    template <class Visit>
    __device__ void each_pair(Visit visit) const {
        for (int pair = first; pair < stop; pair += blockDim.y) visit(2 * pair * channels + c, 2 * pair + 1 < pixels, pair);
    }

    // The byte of the pair's eight signs.
    __device__ int byte(int pair) const { return pair * (channels / LANES) + c / LANES; }

    // loaded = four channels of both pixels of the pair at i.
    __device__ void load(Vec (&loaded)[2], const real* x, int i, bool both) const {
        loaded[0] = vec(&x[i]);
        if (both) loaded[1] = vec(&x[i + channels]);
    }
};

template <class T>
__device__ Four<T> operator+(const Four<T>& a, const Four<T>& b) {
    return each_lane([](T a, T b) { return a + b; }, a, b);
}

// Adds up the values of each column of a two-dimensional block: in each step the upper half of the rows adds the lower
// half to its own. The first row of threads gets the sums.
template <class T>
__device__ T add_rows(T own) {
    __shared__ T rows[1024];
    T* mine = &rows[threadIdx.y * blockDim.x + threadIdx.x];
    __syncthreads();  // another thread may still be reading what an earlier call left
    *mine = own;
    for (int height = blockDim.y, half; height > 1; height = half) {
        half = (height + 1) / 2;
        __syncthreads();
        if (threadIdx.y < height / 2) *mine = *mine + mine[half * blockDim.x];
    }
    return *mine;
}
