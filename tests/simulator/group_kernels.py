"""Kernels with cooperative groups for the tests of `sim`, and a function that runs them."""

from minigrad.devices.array import Array
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

TEXT = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;

extern "C" __global__ void block_ranks(int* y) {
    cg::thread_block block = cg::this_thread_block();
    dim3 group = block.group_index(), thread = block.thread_index(), extent = block.dim_threads();
    cg::grid_group grid = cg::this_grid();
    int* own = y + 8 * grid.thread_rank();
    own[0] = block.thread_rank();
    own[1] = block.size() + 10000 * block.num_threads();
    own[2] = group.x + 10 * group.y + 100 * group.z;
    own[3] = thread.x + 10 * thread.y + 100 * thread.z;
    own[4] = extent.x + 10 * extent.y + 100 * block.group_dim().z;
    own[5] = grid.block_rank() + 100 * grid.num_blocks() + 10000 * grid.size();
    own[6] = cg::thread_rank(block) + 10000 * cg::group_size(block);
    own[7] = grid.is_valid();
}

template <unsigned N>
__device__ void tile_of(const int* x, int* y) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<N>(block);
    cg::thread_block_tile<N> plain = tile;
    int i = block.thread_rank(), n = block.size(), v = x[i];
    int* at = y + i;
    auto put = [&](int value) { *at = value, at += n; };
    put(tile.thread_rank());
    put(tile.size() + 100 * tile.num_threads());
    put(tile.meta_group_rank());
    put(plain.meta_group_rank() + 100 * plain.meta_group_size());
    put(tile.shfl(v, 1));
    put(tile.shfl_up(v, 1));
    put(tile.shfl_down(v, 1));
    put(plain.shfl_xor(v, 1));
    put(tile.any(v == 7));
    put(tile.all(v < 40));
    put(tile.ballot(v % 2));
    put(tile.match_any(v % 3));
    int same, mask = tile.match_all(v / 1000, same);
    put(same ? mask : -mask);
    put(cg::reduce(tile, v, cg::plus<int>()));
    put(cg::reduce(plain, v, cg::less<int>()));
    put(cg::reduce(tile, v, cg::greater<int>()));
    put(cg::reduce(tile, unsigned(v), cg::bit_and<unsigned>()));
    put(cg::reduce(tile, v, cg::bit_or<int>()));
    put(cg::reduce(tile, v, cg::bit_xor<int>()));
    put(cg::inclusive_scan(tile, v));
    put(cg::exclusive_scan(tile, v));
    put(cg::inclusive_scan(tile, v, cg::greater<int>()));
    put(cg::exclusive_scan(plain, v, cg::greater<int>()));
    put(cg::reduce(tile, v, [](int a, int b) { return a * 31 + b * 31; }));
}
extern "C" __global__ void tile_2(const int* x, int* y) { tile_of<2>(x, y); }
extern "C" __global__ void tile_4(const int* x, int* y) { tile_of<4>(x, y); }
extern "C" __global__ void tile_8(const int* x, int* y) { tile_of<8>(x, y); }
extern "C" __global__ void tile_16(const int* x, int* y) { tile_of<16>(x, y); }
extern "C" __global__ void tile_32(const int* x, int* y) { tile_of<32>(x, y); }

extern "C" __global__ void coalesced(const int* x, int* y, int n) {
    int i = threadIdx.x, v = x[i];
    if (!(v & 1)) return;
    cg::coalesced_group active = cg::coalesced_threads();
    int* at = y + i;
    auto put = [&](int value) { *at = value, at += n; };
    put(active.thread_rank());
    put(active.size() + 100 * active.num_threads());
    put(active.meta_group_rank() + 100 * active.meta_group_size());
    put(active.shfl(v, 0));
    put(active.shfl(v, active.size() - 1));
    put(active.shfl_up(v, 1));
    put(active.shfl_down(v, 2));
    put(active.any(v == 7));
    put(active.all(v < 1000));
    put(active.ballot(v % 3 == 0));
    put(active.match_any(v % 3));
    put(cg::reduce(active, v, cg::plus<int>()));
    put(cg::reduce(active, v, cg::less<int>()));
    put(cg::inclusive_scan(active, v));
    put(cg::exclusive_scan(active, v));
    cg::coalesced_group fours = cg::tiled_partition(active, 4);
    put(fours.thread_rank() + 100 * fours.size() + 10000 * fours.meta_group_rank());
    put(cg::reduce(fours, v, cg::plus<int>()));
    active.sync();
}

extern "C" __global__ void partitions(const int* x, int* y) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int i = block.thread_rank(), n = block.size(), v = x[i];
    cg::coalesced_group odd = cg::binary_partition(warp, v % 2 == 1);
    y[i] = cg::reduce(odd, v, cg::plus<int>());
    y[i + n] = odd.meta_group_rank() + 10 * odd.meta_group_size();
    cg::coalesced_group third = cg::labeled_partition(warp, v % 3);
    y[i + 2 * n] = cg::reduce(third, v, cg::plus<int>());
    y[i + 3 * n] = third.meta_group_rank() + 10 * third.meta_group_size();
    cg::coalesced_group again = cg::labeled_partition(third, v % 2);
    y[i + 4 * n] = cg::inclusive_scan(again, v);
}

extern "C" __global__ void run_time(int* y, int size) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_group tile = cg::tiled_partition(block, size), part = cg::tiled_partition(tile, 2), all = block;
    tile.sync();
    cg::sync(part);
    all.sync();
    int* own = y + 4 * block.thread_rank();
    own[0] = tile.thread_rank();
    own[1] = tile.size();
    own[2] = part.thread_rank() + 10 * part.size();
    own[3] = all.thread_rank() + 10000 * all.size();
}

struct Best { double value; int at; };
extern "C" __global__ void wide_values(const double* x, double* y) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    Best best = {x[threadIdx.x], int(threadIdx.x)};
    best = cg::reduce(warp, best, [](Best a, Best b) { return b.value > a.value ? b : a; });
    y[threadIdx.x] = best.value;
    y[threadIdx.x + 32] = best.at;
    y[threadIdx.x + 64] = warp.shfl(best, 3).at + cg::reduce(warp, 0.5, cg::plus<double>());
}
extern "C" __global__ void float_sums(const float* x, float* y, unsigned some) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    float v = x[threadIdx.x];
    y[threadIdx.x] = cg::reduce(tile, v, cg::plus<float>());
    if (some >> threadIdx.x & 1) y[threadIdx.x + 32] = cg::reduce(cg::coalesced_threads(), v, cg::plus<float>());
    cg::reduce_store_async(tile, y + 64 + tile.meta_group_rank(), v, cg::plus<float>());
}

// The sum of n numbers: each thread adds its own, a tile adds its threads, one tile adds the tiles of the block.
extern "C" __global__ void sum(const float* x, float* y, int n) {
    __shared__ double of_tile[32];
    cg::grid_group grid = cg::this_grid();
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    double mine = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) mine += x[i];
    mine = cg::reduce(tile, mine, cg::plus<double>());
    if (tile.thread_rank() == 0) of_tile[tile.meta_group_rank()] = mine;
    block.sync();
    if (tile.meta_group_rank() == 0) {
        double part = tile.thread_rank() < tile.meta_group_size() ? of_tile[tile.thread_rank()] : 0;
        for (int step = tile.size() / 2; step > 0; step /= 2) part += tile.shfl_down(part, step);
        if (tile.thread_rank() == 0) atomicAdd(y, float(part));
    }
}
// Each round, a block adds what its neighbour had; the grid meets before and after.
extern "C" __global__ void rounds(int* x, int* y, int count) {
    cg::grid_group grid = cg::this_grid();
    for (int round = 0; round < count; ++round) {
        int next = x[(grid.thread_rank() + blockDim.x) % grid.size()];
        grid.sync();
        x[grid.thread_rank()] += next;
        cg::sync(grid);
    }
    y[grid.thread_rank()] = grid.is_valid();
}

extern "C" __global__ void copied(const float* x, float* y, int n) {
    __shared__ float first[100], second[100];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, first, x, sizeof(float) * n);
    cg::memcpy_async(block, second, 100, x + n, n);
    cg::wait_prior<1>(block);
    for (int i = block.thread_rank(); i < n; i += block.size()) y[i] = first[n - 1 - i];
    cg::wait(block);
    for (int i = block.thread_rank(); i < n; i += block.size()) y[n + i] = second[n - 1 - i];
}

// Keeps the numbers above 0; the lanes that have one take their places by one atomic.
extern "C" __global__ void kept(const float* x, float* y, int* count, int n) {
    int i = cg::this_grid().thread_rank();
    if (i >= n || x[i] <= 0) return;
    cg::coalesced_group active = cg::coalesced_threads();
    int place = 0;
    if (active.thread_rank() == 0) place = atomicAdd(count, active.size());
    y[active.shfl(place, 0) + active.thread_rank()] = x[i];
}

extern "C" __global__ void one_missing(int* y) {
    cg::thread_block block = cg::this_thread_block();
    if (block.thread_rank() != 5) block.sync();  // here
    y[0] = 1;
}
extern "C" __global__ void two_branches(int* y) {
    cg::thread_block block = cg::this_thread_block();
    if (block.thread_rank() < 5) block.sync();
    else block.sync();
    y[0] = 1;
}
extern "C" __global__ void two_operations(int* y) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int v = threadIdx.x;
    if (v < 5) v = tile.shfl(v, 1);
    else v = tile.any(v);
    y[0] = v;
}
"""
FILE = Source(TEXT, "groups.cu")


def run(name, *args, grid=1, block=32, cooperative=False):
    """Run one of the kernels and return its last array."""
    Kernel(FILE, name, cooperative=cooperative)(*args, grid=grid, block=block)
    return next(one.numpy() for one in reversed(args) if isinstance(one, Array))
