// Batch norm, with or without a relu behind it: what batch_norm.cu and batch_norm_relu.cu share. x is seen as
// (images, channels, inner), or with the channels last as (pixels, channels), four of them to a thread.
#pragma once
#include "channels_last.cuh"
#include "reduce.cuh"

// The numbers that make z = (x - mean) * scale + bias of an x of this channel. Forward and backward compute z by the same
// instructions, so both see the same sign.
struct Channel {
    wide mean, scale, bias;

    __device__ wide operator()(wide x) const { return fma(x - mean, scale, bias); }
};

// Arrays with a number for each channel; weight and bias may be null.
struct Channels {
    const wide *mean, *var, *weight, *bias;
    wide eps;

    __device__ wide inverse(int c) const { return rsqrt(var[c] + eps); }
    __device__ Channel operator[](int c) const {
        return {mean[c], (weight ? weight[c] : wide(1)) * inverse(c), bias ? bias[c] : wide(0)};
    }

    // The numbers of four channels from c on; nothing is read beyond the last channel.
    __device__ void load(Channel (&own)[LANES], int c, int channels) const {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) {
            if (c < channels) own[lane] = (*this)[c + lane];
        }
    }
};

// The gradient of x: dx = scale * (dz - share - slope * (x - mean)). mean and var depend on x, too: share and slope are
// the part of the sums dbias and dweight that each element has. In evaluation they do not depend on x, and part is 0.
struct Gradient {
    wide mean, scale, share, slope;

    __device__ Gradient() {}
    __device__ Gradient(const Channels& of, const wide* dweight, const wide* dbias, wide part, int c)
        : mean(of.mean[c]), scale(of[c].scale), share(part ? dbias[c] * part : wide(0)),
          slope(part ? dweight[c] * of.inverse(c) * part : wide(0)) {}
    __device__ wide operator()(wide dz, wide x) const {
        return scale * (dz - share - (slope == 0 ? wide(0) : slope * (x - mean)));  // 0 * NaN would be NaN
    }
};

// Where a gradient passes: everywhere, where z > 0, or where the forward pass has noted that z > 0.
enum Gate { OPEN, POSITIVE, NOTED };

template <Gate GATE>
__device__ bool passes(const Channel& channel, wide x, unsigned noted) {
    return GATE == OPEN || (GATE == NOTED ? noted != 0 : channel(x) > 0);
}

// --- channels first: thread -> one element ---

// Element i of channel c, as the i-th of that channel.
__device__ inline int place(int c, int i, int channels, int inner) { return (i / inner * channels + c) * inner + i % inner; }

// y = z + residual, with RELU cut off at 0; noted[i] says whether it is positive. thread -> one element.
template <bool RELU>
__device__ void normalize(
    const real* x, const Channels& of, const real* residual, real* y, unsigned char* noted, int channels, int inner,
    int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    wide z = of[i / inner % channels](x[i]);
    if (residual) z += residual[i];
    y[i] = RELU && z < 0 ? wide(0) : z;  // asked this way round, NaN stays NaN
    if (noted) noted[i] = z > 0;
}

// The sums of dz and of dz * (x - mean) over a part of a channel. block -> `chunk` elements of a channel. dz is dy where
// it passes, else 0; it is stored unless null.
template <Gate GATE>
__device__ void add_up(
    const real* dy, const real* x, const Channels& of, const unsigned char* noted, real* dz, wide* parts, int images,
    int channels, int inner, int chunk) {
    int c = blockIdx.x, begin = blockIdx.y * chunk, end = min(begin + chunk, images * inner);
    Channel own = of[c];
    wide sum = 0, slope = 0;
#pragma unroll 4
    for (int i = begin + threadIdx.x; i < end; i += blockDim.x) {
        int at = place(c, i, channels, inner);
        wide value = x[at], passed = passes<GATE>(own, value, GATE == NOTED ? noted[at] : 0) ? dy[at] : wide(0);
        if (GATE != OPEN && dz) dz[at] = passed;
        sum += passed;
        slope += passed * (value - own.mean);
    }
    sum = block_reduce(sum, Add()), slope = block_reduce(slope, Add());
    if (threadIdx.x == 0) {
        parts[2 * blockIdx.y * channels + c] = sum;
        parts[(2 * blockIdx.y + 1) * channels + c] = slope;
    }
}

// thread -> one element of dx.
template <Gate GATE>
__device__ void differentiate(
    const real* dy, const real* x, const Channels& of, const wide* dweight, const wide* dbias, real* dx, wide part,
    int channels, int inner, int size) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    int c = i / inner % channels;
    dx[i] = Gradient(of, dweight, dbias, part, c)(passes<GATE>(of[c], x[i], 0) ? dy[i] : wide(0), x[i]);
}

// --- channels last: thread -> four channels of pairs of pixels, see Strip ---

// Stores two sums for each channel of a strip, (strips, 2, channels).
__device__ inline void put_parts(wide* parts, const Strip& strip, const Four<wide>& first, const Four<wide>& second) {
    Four<wide> sums[2] = {add_rows(first), add_rows(second)};
    if (threadIdx.y == 0 && strip.c < strip.channels) {
#pragma unroll
        for (int j = 0; j < 2; ++j) vec(&parts[(2 * blockIdx.x + j) * strip.channels + strip.c]) = sums[j];
    }
}

// noted: a bit for each element.
template <bool RELU>
__device__ void normalize(
    const real* x, const Channels& of, const real* residual, real* y, unsigned char* noted, const Strip& strip) {
    Channel own[LANES];
    of.load(own, strip.c, strip.channels);
    strip.each_pair([&](int i, bool both, int pair) {
        Vec in[2], more[2] = {};
        unsigned bits = 0;
        strip.load(in, x, i, both);
        if (residual) strip.load(more, residual, i, both);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            if (j && !both) break;
            Vec out;
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) {
                wide z = own[lane](in[j].at[lane]) + (residual ? more[j].at[lane] : wide(0));
                out.at[lane] = RELU && z < 0 ? wide(0) : z;
                bits |= unsigned(z > 0) << (j * LANES + lane);
            }
            vec(&y[i + j * strip.channels]) = out;
        }
        if (noted) noted[strip.byte(pair)] = bits;
    });
}

template <Gate GATE>
__device__ void add_up(
    const real* dy, const real* x, const Channels& of, const unsigned char* noted, real* dz, wide* parts,
    const Strip& strip) {
    Channel own[LANES];
    of.load(own, strip.c, strip.channels);
    Four<wide> sum = {}, slope = {};
    strip.each_pair([&](int i, bool both, int pair) {
        Vec upstream[2], in[2];
        unsigned bits = GATE == NOTED ? noted[strip.byte(pair)] : 0;
        strip.load(upstream, dy, i, both);
        strip.load(in, x, i, both);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            if (j && !both) break;
            Vec out;
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) {
                wide value = in[j].at[lane];
                bool open = passes<GATE>(own[lane], value, bits >> (j * LANES + lane) & 1);
                wide passed = open ? wide(upstream[j].at[lane]) : wide(0);
                out.at[lane] = passed;
                sum.at[lane] += passed;
                slope.at[lane] += passed * (value - own[lane].mean);
            }
            if (GATE != OPEN && dz) vec(&dz[i + j * strip.channels]) = out;
        }
    });
    put_parts(parts, strip, sum, slope);
}

template <Gate GATE>
__device__ void differentiate(
    const real* dy, const real* x, const Channels& of, const wide* dweight, const wide* dbias, real* dx, wide part,
    const Strip& strip) {
    Channel own[LANES];
    Gradient gradient[LANES];
    of.load(own, strip.c, strip.channels);
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) {
        if (strip.c < strip.channels) gradient[lane] = Gradient(of, dweight, dbias, part, strip.c + lane);
    }
    strip.each_pair([&](int i, bool both, int) {
        Vec upstream[2], in[2];
        strip.load(upstream, dy, i, both);
        strip.load(in, x, i, both);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            if (j && !both) break;
            Vec out;
#pragma unroll
            for (int lane = 0; lane < LANES; ++lane) {
                wide value = in[j].at[lane];
                bool open = passes<GATE>(own[lane], value, 0);
                out.at[lane] = gradient[lane](open ? wide(upstream[j].at[lane]) : wide(0), value);
            }
            vec(&dx[i + j * strip.channels]) = out;
        }
    });
}
