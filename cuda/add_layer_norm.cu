#include "row_in_warp.cuh"
#include "row_in_warps.cuh"

// The residual stream and its norm. h = x + y + bias, n = (h - mean(h)) / sqrt(var(h) + eps) * weight + shift, and with
// CENTER 0, in add_rms_norm, the mean is 0 and the shift null. The stream, x and h, is in the type of arithmetic, what a layer
// reads and writes, n and y, in bfloat16 where the network computes in that. Forward a warp -> a row, backward WARPS warps: see
// row_in_warp.cuh and row_in_warps.cuh.

extern "C" __global__ void __launch_bounds__(128, SINGLE ? 6 : 1) add_layer_norm_forward(
    const wide* x, const real* y, const wide* weight, const wide* shift, const wide* bias, wide* h, real* normed, wide eps,
    int rows, int n) {
    HeldRow row(n), more(n);
    if (row.number >= rows) return;
    row.read(x), more.read(y);
    row.each([&](int k, int i) {
        Four<wide> each = {0, 0, 0, 0};
        if (bias) each = vec(bias + i);
#pragma unroll
        for (int j = 0; j < LANES; ++j) row.own[k].at[j] += more.own[k].at[j] + each.at[j];
    });
    row.write(h);
    wide mean, inverse;
    row.normalize(weight, shift, eps, mean, inverse);
    row.write(normed);
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
