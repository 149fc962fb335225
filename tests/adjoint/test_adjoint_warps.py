"""Shuffles and cooperative groups, against central differences, in full and in partly filled warps."""

from functools import partial

import numpy as np
import pytest

import minigrad as mg
from minigrad.adjoint import NotDifferentiable

HEAD = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\nnamespace cg = cooperative_groups;\n"
AHEAD = """
typedef cg::thread_block_tile<8> tile8;
__device__ double with(const tile8& t, double v) { return t.shfl_xor(v, 1) * v; }
__device__ double warp_sum(double v) {
    for (int step = warpSize / 2; step > 0; step >>= 1) v += __shfl_down_sync(0xffffffffu, v, step);
    return v;
}
template <typename T> __device__ T block_sum(T v) {
    __shared__ T parts[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    v = warp_sum(v);
    if (lane == 0) parts[warp] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? parts[lane] : 0;
    if (warp == 0) v = warp_sum(v);
    return v;
}
#define LOG 5
#define WIDTH (1 << LOG)
constexpr unsigned LANES = 32u;
template <typename T> __device__ T lanes_sum(T v) {
    for (int step = WIDTH / 2; step > 0; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);
    return v;
}
"""
TILE = "cg::thread_block block = cg::this_thread_block(); auto tile = cg::tiled_partition<32>(block);\n"
FORMS = {
    "other names of tiles": "cg::thread_block block = cg::this_thread_block();\n"
    "using Half = cg::thread_block_tile<16>; Half t = cg::tiled_partition<16>(block);\n"
    "tile8 s = cg::tiled_partition<8>(block); auto q = cg::tiled_partition(block, 4);\n"
    "y[i] = with(s, x[i]) * t.shfl_down(x[i], 1) * q.thread_rank() * q.size();",
    "down": "double v = warp_sum(x[i] * x[i]); if (i % 32 == 0) y[i] = v * v; else y[i] = x[i];",
    "some warps, by names for 32": "double v = lanes_sum(x[i]); if (i / LANES == 0) v *= lanes_sum(x[i] * x[i]);\n"
    "if (threadIdx.x <= WIDTH - 1) v += lanes_sum(v); if (i >> LOG == 1) v = lanes_sum(v * x[i]); y[i] = v * x[i];",
    "up": "double v = x[i]; for (int d = 1; d < 32; d *= 2) { double w = __shfl_up_sync(~0u, v, d); "
    "if (i % 32 >= d) v += w; } y[i] = v * x[i];",
    "xor beyond a group": "double v = sin(x[i]); v *= 2 + __shfl_xor_sync(~0u, v, 9, 8); "
    "for (int d = 16; d > 0; d /= 2) v += x[i] * __shfl_xor_sync(~0u, v, d, 4); y[i] = v;",
    "xor": "double v = sin(x[i]); for (int d = 16; d > 0; d /= 2) v = fmax(v, __shfl_xor_sync(~0u, v, d)); "
    "y[i] = exp(x[i] - v);",
    "some lanes of a warp": "double v = x[i] * x[i]; int l = i % 32; if (l >= 16) { "
    "double u = __shfl_down_sync(0xffff0000, v, 4), w = __shfl_sync(0xffff0000, v, 19); v += (l < 28 ? u : 0) * w; } "
    "else { double u = __shfl_up_sync(0xffff, v, 4); v += l < 4 ? 0 : u * v; } if (l % 2) v += "
    "__shfl_sync(0xaaaaaaaa, v, 5, 8) * __shfl_xor_sync(0xaaaaaaaa, v, 2); y[i] = v;",
    "a broadcast and a permutation": "double v = x[i] * x[i]; y[i] = __shfl_sync(~0u, v, 3) * "
    "__shfl_sync(~0u, v, i * 5 % (blockDim.x < 32 ? blockDim.x : 32)) + __shfl_sync(~0u, v, i + 1, 8) * "
    "__shfl_up_sync(~0u, v, 2, 16) * __shfl_down_sync(~0u, v, 3, 4);",
    "a block": "double v = block_sum(x[i] * x[i]); if (i == 0) y[0] = v * x[0]; else y[i] = x[i];",
    "reductions by functions": f"{TILE} auto times = [](double a, double b) {{ return a * b; }};\n"
    "double p = cg::reduce(tile, x[i], times);\n"
    "y[i] = p * cg::reduce(tile, x[i] * p, [](double a, double b) { return a > b ? a : b; });",
    "loops of warps": "double s = 0; for (int r = i / 32; r < 4; r += 2) { double v = warp_sum(x[i] * x[r]); "
    "if (i % 32 == 0) s += v * v; } y[i] = s;",
    "a warp to a row": "int n = blockIdx.x * blockDim.x + threadIdx.x, row = n / 32; if (row < 2) { double s = 0;\n"
    "for (int j = i & 31; j < 40; j += 32) s += x[row + j % 8] * x[i]; for (int d = 16; d > 0; d /= 2) "
    "s += __shfl_down_sync(~0u, s, d); if (i % 32 == 0) y[row] = s * s; }",
    "a tile": f"{TILE} double v = x[i]; for (int d = tile.size() / 2; d > 0; d /= 2) v += tile.shfl_xor(v * x[i], d);\n"
    "y[i] = cg::reduce(tile, x[i] * v, cg::plus<double>()) * cg::reduce(tile, v, cg::greater<double>{}) * "
    "tile.shfl(v, 0) + tile.meta_group_rank() * tile.thread_rank(); block.sync();",
}


def text(body):
    return f"{HEAD}{AHEAD}__global__ void f(const double* x, double* y) {{ int i = threadIdx.x;\n{body}\n}}"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("form", "threads"), [*((f, 64) for f in FORMS), ("up", 40), ("a broadcast and a permutation", 24)]
)
def test_right(form, threads, kernel_device):
    made, kernel = mg.adjoint(text(FORMS[form]), ["x"]), mg.kernel(text(FORMS[form]), "f")
    rng = np.random.default_rng(3)
    x, w = 0.6 + 0.3 * rng.random(threads), rng.standard_normal(threads)
    at, y = partial(mg.tensor, device=kernel_device), mg.zeros(threads, dtype="float64", device=kernel_device)

    def value(x):
        kernel(at(x), y, grid=1, block=threads)
        return w @ y.numpy()

    with mg.microscope.watching() as report:
        (dx,) = made.vjp(at(x), y, dy=[at(w)], grid=1, block=threads)
    assert not report.problems
    for direction in rng.standard_normal((4, threads)):
        slope = (value(x + 1e-6 * direction) - value(x - 1e-6 * direction)) / 2e-6
        np.testing.assert_allclose(dx.numpy() @ direction, slope, rtol=2e-7)


def test_a_loop_of_lanes_is_refused():
    """The last iteration of one lane would meet an earlier one of another when they run in reverse."""
    loop = "{ v = v * __shfl_xor_sync(~0u, v, 1); }"
    few = "int n = 2; if (i < 3) n = 1;"
    for body in (f"for (int r = 0; r < i; ++r) {loop}", f"if (i < 16) {{ {few} for (int r = 0; r < n; ++r) {loop} }}"):
        with pytest.raises(NotDifferentiable, match=r"f.cu:\d+:\d+: this loop holds a shuffle, and threads of a warp"):
            mg.adjoint(text(f"double v = x[i]; {body} y[i] = v;"))


REFUSED = {
    "auto t = cg::tiled_partition(cg::this_thread_block(), i);": "is not known here; write 4, 8, 16 or 32",
    f"{TILE} y[i] = cg::reduce(tile, x[i], block);": "write another operator as",
    "cg::this_grid().sync(); y[i] = x[i];": "launch what stands ahead of it and behind it as two kernels",
    "auto t = cg::coalesced_threads(); y[i] = x[i] * t.size();": "only the running kernel knows the threads of this g",
}


@pytest.mark.parametrize(("body", "why"), REFUSED.items())
def test_groups_that_are_refused(body, why):
    with pytest.raises(NotDifferentiable, match=rf"f.cu:\d+:\d+: .*{why}"):
        mg.adjoint(text(body), name="f")
