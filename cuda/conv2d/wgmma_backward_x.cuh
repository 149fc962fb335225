#pragma once
#include "conv2d/comb.cuh"
#include "conv2d/wgmma.cuh"

// The pixels of dx by their parities, whose rows and columns leave the same rests when divided by the strides: each is a
// convolution of dy with stride 1 and the taps of its combs, all of them of the same extents. Those with most taps come
// first, so that the last tiles are short; a parity without taps has no stages, and dx is 0.
struct Parities {
    static constexpr bool FULL = false;
    const Window& at;  // over x
    int each, layers;  // stages of a tap; parities

    __device__ Parities(const Window& at, int each) : at(at), each(each), layers(at.stride_y * at.stride_x) {}
    __device__ Combs combs(int layer) const { return Combs(at, layer / at.stride_x, layer % at.stride_x); }
    // Back and forth: a block that got a longer tile than others gets a shorter one next.
    __device__ int next(int tile) const { return (tile / gridDim.x * 2 + 2) * gridDim.x - 1 - tile; }
    __device__ Stages stages(int layer) const {
        Combs own = combs(layer);
        return {0, own.taps() * each, own.earlier(at) * each, own.x.taps, own.y.start, own.x.start};
    }
    struct Places {
        const Window& at;
        int down, across, pixels;
        __device__ auto of(int first, int lane) const {
            int pixel = first + lane, width = at.width / at.stride_x, row = pixel / width, column = pixel - row * width;
            int place = ((row * at.stride_y + down) * at.width + column * at.stride_x + across) * at.channels;
            int own = pixel < pixels ? place : -1;
            return [own](int i) {
                int at = __shfl_sync(~0u, own, i);
                return Place{at, at >= 0};
            };
        }
    };
    __device__ Places places(int layer, int pixels, int) const {
        Combs own = combs(layer);
        return {at, own.y.rest, own.x.rest, pixels};
    }
};
