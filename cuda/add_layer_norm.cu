#include "row_in_warps.cuh"

// The residual stream and its norm. h = x + y + bias, n = (h - mean(h)) / sqrt(var(h) + eps) * weight + shift, and with
// CENTER 0, in add_rms_norm, the mean is 0 and the shift null. The stream, x and h, is in the type of arithmetic, what a layer
// reads and writes, n and y, in bfloat16 where the network computes in that. WARPS warps -> a row: see row_in_warps.cuh.

extern "C" __global__ void __launch_bounds__(256, SINGLE ? 4 : 1) add_layer_norm_forward(
    const wide* x, const real* y, const wide* weight, const wide* shift, const wide* bias, wide* h, real* normed, wide eps,
    int rows, int n) {
    Walk walk(rows, n);
    Four<wide> own = walk.part(x, walk.row), more = walk.part(y, walk.row), each = walk.columns(bias, 0);
    Four<wide> factors = walk.columns(weight, 1), terms = walk.columns(shift, 0);
    for (int turn = 0; walk.goes_on(); walk.row += walk.step, turn ^= 1) {
        int then = walk.row + walk.step;
        Four<wide> next = walk.part(x, then), next_more = walk.part(y, then);
#pragma unroll
        for (int j = 0; j < LANES; ++j) own.at[j] += more.at[j] + each.at[j];
        walk.write(h, own);
        Moments all = moments(own, n, turn);
        normalize(own, all.mean, all.inverse(eps, n), factors, terms);
        walk.write(normed, own);
        own = next, more = next_more;
    }
}

// dx = dh + inverse (g - mean(g) - normal mean(g normal)), g = dn weight; dy is the same in the type of y, null where that is
// the same array. A thread keeps its columns' sums for weight, shift and bias; parts (3, gridDim.x, n) are those of each
// block. The sums of a row need its mean, so a warp makes them around the mean of its part: g (h - mean) is g times the
// distance from there, and that of the means.
extern "C" __global__ void __launch_bounds__(256, SINGLE ? 3 : 1) add_layer_norm_backward(
    const wide* dh, const real* dn, const wide* h, const wide* weight, wide* dx, real* dy, wide* parts, wide eps, int rows,
    int n) {
    extern __shared__ wide shared[];  // (3, n), where a block has several rows
    Walk walk(rows, n);
    Four<wide> own = walk.part(dn, walk.row), stream = walk.part(dh, walk.row), normal = walk.part(h, walk.row);
    Four<wide> factors = walk.columns(weight, 1), sums[3] = {};
    for (int turn = 0; walk.goes_on(); walk.row += walk.step, turn ^= 1) {
        int then = walk.row + walk.step;
        Four<wide> next = walk.part(dn, then), next_stream = walk.part(dh, then), next_normal = walk.part(h, then);
        // [sums of the row]
        Moments all(normal, n);
        wide sum = warp_sum([&](int j) { return own.at[j] * factors.at[j]; });
        wide dot = warp_sum([&](int j) { return own.at[j] * factors.at[j] * (normal.at[j] - all.mean); });
        if (WARPS > 1) {
            const Sums<4>* warps = of_warps(Sums<4>{all.mean, all.squares, sum, dot}, turn);
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
        own = next, stream = next_stream, normal = next_normal;
    }
    write_sums(sums, shared, parts, walk);
}
