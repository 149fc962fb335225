#include "row_in_warps.cuh"

// The residual stream and its norm. h = x + y + bias, n = (h - mean(h)) / sqrt(var(h) + eps) * weight + shift, and with
// CENTER 0, in add_rms_norm, the mean is 0 and the shift null. The stream, x and h, is in the type of arithmetic, what a layer
// reads and writes, n and y, in bfloat16 where the network computes in that. WARPS warps -> a row: see row_in_warps.cuh.

extern "C" __global__ void __launch_bounds__(256, SINGLE ? 4 : 1) add_layer_norm_forward(
    const wide* x, const real* y, const wide* weight, const wide* shift, const wide* bias, wide* h, real* normed, wide eps,
    int rows, int n) {
    __shared__ Four<wide> x_places[STAGES][256];
    __shared__ Four<real> y_places[STAGES][256];
    Walk walk(rows, n);
    Rows<wide> xs{x, x_places};
    Rows<real> ys{y, y_places};
    Four<wide> each = walk.columns(bias, 0), factors = walk.columns(weight, 1), terms = walk.columns(shift, 0);
    for (begin(walk, xs, ys); walk.goes_on(); walk.next()) {
        advance(walk, xs, ys);
        Four<wide> own = xs.take(walk), more = ys.take(walk);
#pragma unroll
        for (int j = 0; j < LANES; ++j) own.at[j] += more.at[j] + each.at[j];
        walk.write(h, own);
        Moments all = moments(own, n, walk.turn);
        normalize(own, all.mean, all.inverse(eps, n), factors, terms);
        walk.write(normed, own);
    }
}

// dx = dh + inverse (g - mean(g) - normal mean(g normal)), g = dn weight; dy is the same in the type of y, null where that is
// the same array. A thread keeps its columns' sums for weight, shift and bias; parts (3, gridDim.x, n) are those of each
// block. The sums of a row need its mean, so a warp makes them around the mean of its part: g (h - mean) is g times the
// distance from there, and that of the means.
extern "C" __global__ void __launch_bounds__(256, SINGLE ? 4 : 1) add_layer_norm_backward(
    const wide* dh, const real* dn, const wide* h, const wide* weight, wide* dx, real* dy, wide* parts, wide eps, int rows,
    int n) {
    __shared__ Four<real> dn_places[STAGES][256];
    __shared__ Four<wide> places[2][STAGES][256];
    Walk walk(rows, n);
    Rows<real> dns{dn, dn_places};
    Rows<wide> dhs{dh, places[0]}, hs{h, places[1]};
    Four<wide> factors = walk.columns(weight, 1), sums[3] = {};
    for (begin(walk, dns, dhs, hs); walk.goes_on(); walk.next()) {
        advance(walk, dns, dhs, hs);
        Four<wide> own = dns.take(walk), stream = dhs.take(walk), normal = hs.take(walk);
        // [sums of the row]
        Moments all(normal, n);
        wide sum = warp_sum([&](int j) { return own.at[j] * factors.at[j]; });
        wide dot = warp_sum([&](int j) { return own.at[j] * factors.at[j] * (normal.at[j] - all.mean); });
        if (WARPS > 1) {
            const Sums<4>* warps = of_warps(Sums<4>{all.mean, all.squares, sum, dot}, walk.turn);
            all.join(warps, n);
            sum = dot = 0;
            for (int w = 0; w < WARPS; ++w) {
                sum += warps[w].at[2], dot += warps[w].at[3] + warps[w].at[2] * (warps[w].at[0] - all.mean);
            }
        }
        wide inverse = walk.row < rows ? all.inverse(eps, n) : 0;
        sum = CENTER ? sum / n : 0, dot *= inverse / n;
        // [gradients]
#pragma unroll
        for (int j = 0; j < LANES; ++j) {
            wide place = (normal.at[j] - all.mean) * inverse;
            sums[0].at[j] += own.at[j] * place, sums[1].at[j] += own.at[j];
            own.at[j] = stream.at[j] + inverse * (own.at[j] * factors.at[j] - sum - place * dot);
            sums[2].at[j] += own.at[j];
        }
        walk.write(dx, own);
        if (dy) walk.write(dy, own);
    }
    write_sums(sums, places, parts, walk);
}
