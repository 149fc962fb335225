"""Cooperative groups under the microscope: no false alarm on a right reduction by tiles; each lost sync is found."""

import numpy as np
import pytest
from watched_kernels import line_of

import minigrad as mg
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

SUM = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float of_tile[32], all;
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    int t = block.thread_rank();
    float mine = t < n ? x[t] : 0;
    mine = cg::reduce(tile, mine, cg::plus<float>());
    if (tile.thread_rank() == 0) of_tile[tile.meta_group_rank()] = mine;  // fill
    block.sync();  // first
    if (tile.meta_group_rank() == 0) {
        mine = t < tile.meta_group_size() ? of_tile[t] : 0;  // use
        mine = cg::reduce(tile, mine, cg::plus<float>());
        if (t == 0) all = mine;  // total
    }
    cg::sync(block);  // second
    y[t] = all;  // result
}
"""
# Tiles of 8 turn their values round in shared memory.
TURN = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[64];
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    float* own = s + 8 * tile.meta_group_rank();
    for (int round = 0; round < 2; ++round) {
        own[tile.thread_rank()] = x[block.thread_rank()];  // fill
        tile.sync();  // first
        y[block.thread_rank()] = own[7 - tile.thread_rank()];  // use
        tile.sync();  // second
    }
}
"""
HALVES = TURN.replace("7 - tile.thread_rank()", "(tile.thread_rank() + 8) % 16").replace("s[64]", "s[80]")
STEPS = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(float* x, float* y, int n) {
    cg::grid_group grid = cg::this_grid();
    for (int round = 0; round < n; ++round) {
        float next = x[(grid.thread_rank() + 1) % grid.size()];  // read
        grid.sync();  // first
        x[grid.thread_rank()] = next;  // write
        grid.sync();  // second
    }
    y[grid.thread_rank()] = x[grid.thread_rank()];
}
"""

COPY = """#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ float s[64];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof s);
    cg::wait(block);  // wait
    y[threadIdx.x] = s[63 - threadIdx.x];  // use
}
"""
# Half of the lanes of each warp take places by one atomic; a partition adds up its own.
KEPT = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const float* x, float* y, int n) {
    __shared__ int count;
    __shared__ float sums[2];
    cg::thread_block block = cg::this_thread_block();
    if (block.thread_rank() == 0) sums[0] = sums[1] = count = 0;
    block.sync();
    auto tile = cg::tiled_partition<32>(block);
    cg::coalesced_group part = cg::binary_partition(tile, block.thread_rank() % 3 == 0);
    float sum = cg::reduce(part, x[block.thread_rank()], cg::plus<float>());
    if (part.thread_rank() == 0) atomicAdd(&sums[block.thread_rank() % 3 == 0], sum);
    if (block.thread_rank() % 2) {
        cg::coalesced_group active = cg::coalesced_threads();
        int place = 0;
        if (active.thread_rank() == 0) place = atomicAdd(&count, active.size());
        y[active.shfl(place, 0) + active.thread_rank()] = 1;
    }
    block.sync();
    if (block.thread_rank() >= count) y[block.thread_rank()] = sums[block.thread_rank() % 2];
}
"""


def look(text, block=64, grid=1, n=1000, cooperative=False):
    kernel = Kernel(Source(text, "k.cu"), "k", cooperative=cooperative)
    x = np.arange(block * grid, dtype=np.float32)
    return mg.inspect(kernel, x, np.zeros_like(x), n, grid=grid, block=block)


def without(text, mark):
    assert f"  // {mark}\n" in text
    return "\n".join(line for line in text.splitlines() if not line.endswith(f"// {mark}"))


@pytest.mark.parametrize("block", [32, 64, 256, 1024])
def test_a_right_sum_by_tiles_has_no_problem(block):
    record = look(SUM, block, n=block - 3)
    assert record.ok and (record.outputs["y"] == sum(range(block - 3))).all()


@pytest.mark.parametrize("mark, early, late", [("first", "fill", "use"), ("second", "total", "result")])
def test_a_lost_sync_of_the_block_is_a_race(mark, early, late):
    text = without(SUM, mark)
    problems = look(text).problems
    assert {problem.kind for problem in problems} == {"race"}
    pairs = [{problem.line, problem.other.line} for problem in problems]
    assert {line_of(text, f"// {early}"), line_of(text, f"// {late}")} in pairs


def test_tiles_that_meet_have_no_problem():
    record = look(TURN)
    assert record.ok and (record.outputs["y"].reshape(8, 8) == np.arange(64).reshape(8, 8)[:, ::-1]).all()


@pytest.mark.parametrize("mark", ["first", "second"])
def test_a_lost_sync_of_a_tile_is_a_race(mark):
    text = without(TURN, mark)
    (problem,) = look(text).problems
    assert (problem.kind, problem.variable) == ("race", "s")
    assert {problem.line, problem.other.line} == {line_of(text, "// fill"), line_of(text, "// use")}


def test_the_sync_of_a_tile_orders_no_other_tile():
    races = [problem for problem in look(HALVES).problems if problem.kind == "race"]
    assert races and {races[0].line, races[0].other.line} == {line_of(HALVES, "// fill"), line_of(HALVES, "// use")}


def test_a_reader_outside_the_tile_is_remembered():
    head = TURN[: TURN.index("    float* own")]
    tail = """    __shared__ float one;
    if (block.thread_rank() == 0) one = 1;
    block.sync();
    if (block.thread_rank() % 8) __nanosleep(0);  // thread 0 reads first, then 8, then 1 to 7
    s[block.thread_rank()] = one;  // read
    tile.sync();
    if (block.thread_rank() == 1) one = 2;  // write
    y[block.thread_rank()] = s[block.thread_rank()];
}
"""
    text = head + tail
    (problem,) = look(text, 9).problems
    assert {problem.line, problem.other.line} == {line_of(text, "// read"), line_of(text, "// write")}
    assert {problem.thread[0], problem.other.thread[0]} == {1, 8}


def test_a_tile_with_a_lane_that_has_returned_is_named_as_the_shuffle_is():
    x, seen = np.zeros(32, np.float32), []
    for shuffle in ("tile.shfl_down(x[threadIdx.x], 4)", "__shfl_down_sync(0xffffffff, x[threadIdx.x], 4, 8)"):
        kernel = f"""#include <cooperative_groups.h>
extern "C" __global__ void k(const float* x, float* y) {{
    auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
    if (threadIdx.x == 13) return;
    float other = {shuffle};
    y[threadIdx.x] = other;
}}"""
        seen.append(mg.inspect(kernel, x, x.copy(), grid=1, block=32, outputs="y").problems)
    tile, warp = ([(one.kind, one.line, one.element, one.message) for one in problems] for problems in seen)
    assert tile == warp and ("nan", 6, 9) in [one[:3] for one in tile]
    assert "a shuffle from a lane that has returned" in " ".join(str(seen[0]).split())


@pytest.mark.parametrize(("block", "thread"), [(20, 4), (48, 32), (64, None)])
def test_a_shuffle_from_a_lane_that_the_block_lacks_is_named(block, thread):
    text = """__global__ void k(const float* x, float* y) {
        float v = x[threadIdx.x];
        for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
        if (threadIdx.x == 0) *y = v;
    }"""
    x, y = np.ones(block, np.float32), np.zeros(1, np.float32)
    problems = mg.inspect(mg.kernel(text, "k"), x, y, grid=1, block=block).problems
    assert [(one.kind, one.line, one.thread[0]) for one in problems] == [("returned-lane", 3, thread)] * (
        thread is not None
    )


def test_a_copy_by_a_block_is_waited_for():
    assert look(COPY).ok
    text = without(COPY, "wait")
    for replacement in ("", "    block.sync();\n"):  # a barrier alone does not wait for copies
        problems = look(text.replace("    y[", f"{replacement}    y[")).problems
        assert problems and all(problem.text.endswith("// use") for problem in problems)


def test_a_right_filter_and_partition_have_no_problem():
    record = look(KEPT)
    third = sum(range(0, 64, 3))
    assert record.ok and (record.outputs["y"][:32] == 1).all()
    assert (record.outputs["y"][32:].reshape(16, 2) == [2016 - third, third]).all()


@pytest.mark.parametrize("grid, block", [(2, 32), (3, 40)])
def test_the_grid_meets(grid, block):
    record = look(STEPS, block, grid, n=3, cooperative=True)
    assert record.ok and (record.outputs["y"] == np.roll(np.arange(grid * block), -3)).all()


@pytest.mark.parametrize("mark", ["first", "second"])
def test_a_lost_sync_of_the_grid_is_a_race(mark):
    text = without(STEPS, mark)
    problems = look(text, 32, 2, n=3, cooperative=True).problems
    assert {problem.kind for problem in problems} == {"race"}
    read, write = line_of(text, "// read"), line_of(text, "// write")
    assert {read, write} in [{problem.line, problem.other.line} for problem in problems]
