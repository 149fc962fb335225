"""Cooperative groups on the simulator: ranks, shuffles, votes, reductions and scans agree with NumPy for every size."""

import os
import subprocess

import numpy as np
import pytest
from group_kernels import FILE, TEXT, run
from sim_kernels import array, filled

from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.errors import CompileError, KernelError
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source


def bits(flags):
    return sum(int(flag) << rank for rank, flag in enumerate(flags))


def test_blocks_and_grids_know_their_threads():
    y = run("block_ranks", filled(8 * 144, np.int32), grid=(2, 3), block=(4, 3, 2)).reshape(6, 24, 8)
    rank, number = np.arange(24), np.arange(6)[:, None]
    assert (y[..., 0] == rank).all() and (y[..., 1] == 240024).all() and (y[..., 6] == rank + 240000).all()
    assert (y[..., 2] == number % 2 + 10 * (number // 2)).all()
    assert (y[..., 3] == rank % 4 + 10 * (rank // 4 % 3) + 100 * (rank // 12)).all()
    assert (y[..., 4] == 4 + 30 + 200).all() and (y[..., 5] == number + 600 + 1440000).all() and not y[..., 7].any()


def folded(values):
    """The butterfly of a reduction, by an operator that shows its order."""
    values = np.array(values, np.int32)
    step = len(values) // 2
    while step:
        values = values * np.int32(31) + values[np.arange(len(values)) ^ step] * np.int32(31)
        step //= 2
    return values.tolist()


def of_tile(v, number, tiles):
    """The rows of `tile_of` for one tile."""
    n, rank = len(v), np.arange(len(v))
    at = [rank, [101 * n] * n, [number] * n, [number + 100 * tiles] * n]
    at += [[v[1]] * n, v[np.maximum(rank - 1, 0)], v[np.minimum(rank + 1, n - 1)], v[rank ^ 1]]
    at += [[7 in v] * n, [(v < 40).all()] * n, [bits(v % 2)] * n, [bits(v % 3 == one % 3) for one in v]]
    at += [[(1 << n) - 1 if len(set(v // 1000)) == 1 else 0] * n]
    ufuncs = np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor
    at += [[ufunc.reduce(v)] * n for ufunc in ufuncs]
    at += [np.cumsum(v), np.cumsum(v) - v, np.maximum.accumulate(v), [0, *np.maximum.accumulate(v)[:-1]], folded(v)]
    return np.array([np.asarray(row).astype(np.uint32) for row in at])


@pytest.mark.sample(3)
@pytest.mark.parametrize("size", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("block", [32, 96, 256])
def test_tiles(size, block):
    x = np.random.default_rng(size + block).integers(0, 60, block).astype(np.int32)
    x[3::size] += 1000
    y = run(f"tile_{size}", array(x), filled(24 * block, np.int32), block=block).view(np.uint32).reshape(24, block)
    tiles = block // size
    expected = np.hstack([of_tile(v, number, tiles) for number, v in enumerate(x.reshape(tiles, size))])
    assert (y == expected).all(1).all(), np.flatnonzero((y != expected).any(1))


@pytest.mark.parametrize("block", [1, 2, 31, 32, 33, 75])
def test_coalesced_threads(block):
    x = np.random.default_rng(block).integers(1, 60, block).astype(np.int32)
    x[::32] |= 1  # somebody in each warp
    y = run("coalesced", array(x), filled(17 * block, np.int32, -1), block, block=block).reshape(17, block)
    assert (y[:, x % 2 == 0] == -1).all()
    for first in range(0, block, 32):
        lanes = first + np.flatnonzero(x[first : first + 32] % 2)
        v, n, rank = x[lanes], len(lanes), np.arange(len(lanes))
        down = np.where(rank + 2 < n, rank + 2, rank)
        rows = [rank, [101 * n] * n, [100] * n, [v[0]] * n, [v[-1]] * n, v[np.maximum(rank - 1, 0)], v[down]]
        rows += [[7 in v] * n, [1] * n, [bits(v % 3 == 0)] * n, [bits(v % 3 == one % 3) for one in v]]
        rows += [[v.sum()] * n, [v.min()] * n, np.cumsum(v), np.cumsum(v) - v]
        four = [v[r // 4 * 4 : r // 4 * 4 + 4] for r in rank]
        number = rank // 4 if n > 4 else 0 * rank
        rows += [[r % 4 + 100 * len(f) + 10000 * k for r, f, k in zip(rank, four, number, strict=True)]]
        rows += [[f.sum() for f in four]]
        assert (y[:, lanes] == np.array([np.asarray(row, np.int64).astype(np.int32) for row in rows])).all()


def test_partitions():
    x = np.random.default_rng(0).integers(0, 50, 64).astype(np.int32)
    x[:32] = x[:32] // 2 * 2  # a warp in which all agree
    y = run("partitions", array(x), filled(5 * 64, np.int32), block=64).reshape(5, 64)
    for warp in np.split(np.arange(64), 2):
        v = x[warp]
        odd, labels = v % 2, v % 3
        order = list(dict.fromkeys(labels.tolist()))
        assert (y[0, warp] == [v[odd == one].sum() for one in odd]).all()
        assert (y[1, warp] == (odd + 20 if odd.any() else 10)).all()
        assert (y[2, warp] == [v[labels == one].sum() for one in labels]).all()
        assert (y[3, warp] == [order.index(one) + 10 * len(order) for one in labels]).all()
        assert (y[4, warp] == [v[: i + 1][v[: i + 1] % 6 == one % 6].sum() for i, one in enumerate(v)]).all()


@pytest.mark.parametrize("block", [1, 31, 33, 64])
@pytest.mark.parametrize("size", [2, 8, 32])
def test_tiles_of_a_size_known_at_run_time(size, block):
    y = run("run_time", filled(4 * block, np.int32), size, block=block).reshape(block, 4)
    i = np.arange(block)
    of, pair = np.minimum(size, block - i // size * size), np.minimum(2, block - i // 2 * 2)
    assert (y == np.stack([i % size, of, i % 2 + 10 * pair, i + 10000 * block], 1)).all()


@pytest.mark.parametrize("size", [0, 3, 64])
def test_a_size_that_no_tile_has_is_an_error(size):
    with pytest.raises(KernelError, match="the size of a tile is a power of two up to 32"):
        run("run_time", filled(4 * 64, np.int32), size, block=64)


def test_values_of_more_than_8_bytes():
    x = np.random.default_rng(0).permutation(32).astype(np.float64)
    y = run("wide_values", array(x), filled(96, np.float64))
    assert (y == np.repeat([31, x.argmax(), x.argmax() + 16], 32)).all()


def test_floats_are_added_in_the_order_of_the_gpu():
    x, some = np.random.default_rng(0).normal(size=32).astype(np.float32), 0x7F3B9A51
    y = run("float_sums", array(x), filled(66), some)
    for tile in range(2):
        v = x[16 * tile : 16 * tile + 16]
        while len(v) > 1:
            v = v[: len(v) // 2] + v[len(v) // 2 :]
        assert (y[16 * tile : 16 * tile + 16] == v).all() and y[64 + tile] == v[0]
    lanes = [lane for lane in range(32) if some >> lane & 1]
    v, step = x[lanes], 1
    while step < len(v):
        v = np.concatenate([v[:step], v[step:] + v[:-step]])
        step *= 2
    assert (y[32:64][lanes] == v[-1]).all()


@pytest.mark.parametrize("n", [1, 2, 3, 31, 33, 1023, 1025, 5000])
@pytest.mark.parametrize("block", [32, 96, 1024])
def test_a_sum_by_tiles(n, block):
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    y = run("sum", array(x), filled(1), n, grid=3, block=block)
    np.testing.assert_allclose(y, x.sum(dtype=np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("grid, block", [(1, 1), (2, 33), (3, 64)])
def test_the_blocks_of_a_cooperative_launch_meet(grid, block):
    for count in (0, 1, 5):
        x = np.arange(grid * block, dtype=np.int32)
        on_sim = array(x)
        assert run("rounds", on_sim, filled(x.size, np.int32), count, grid=grid, block=block, cooperative=True).all()
        for _ in range(count):
            x = x + np.roll(x, -block)
        assert (on_sim.numpy() == x).all()


@pytest.mark.parametrize("n", [1, 31, 33, 100])
@pytest.mark.parametrize("block", [1, 32, 75])
def test_copies_by_a_group(n, block):
    x = np.random.default_rng(n).normal(size=2 * n).astype(np.float32)
    y = run("copied", array(x), filled(2 * n), n, block=block)
    assert (y == x.reshape(2, n)[:, ::-1].ravel()).all()


@pytest.mark.parametrize("n", [1, 2, 31, 33, 1023, 1025])
def test_a_filter_by_coalesced_threads(n):
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    y, count = filled(n), filled(1, np.int32)
    Kernel(FILE, "kept")(array(x), y, count, n, grid=-(-n // 96), block=96)
    assert count.numpy() == (x > 0).sum() and (np.sort(y.numpy()[: (x > 0).sum()]) == np.sort(x[x > 0])).all()


def test_a_grid_meets_only_in_a_cooperative_launch():
    with pytest.raises(KernelError, match=r"grid_group::sync outside a cooperative launch.*cooperative=True"):
        run("rounds", filled(64, np.int32), filled(64, np.int32), 1, grid=2)


def test_threads_that_do_not_meet_are_named():
    run("one_missing", filled(1, np.int32))  # it has returned, and is not waited for
    with pytest.raises(KernelError, match=r"(?=.* 5 wait at thread_block::sync).* 27 wait at thread_block::sync"):
        run("two_branches", filled(1, np.int32))
    with pytest.raises(KernelError, match="lane . waits at __shfl_sync in line .*, lane . at __ballot_sync in line"):
        run("two_operations", filled(1, np.int32))


REJECTED = {
    "cg::tiled_partition<64>(block)": "tiles of 1, 2, 4, 8, 16 and 32 threads",
    "cg::tiled_partition<3>(block)": "tiles of 1, 2, 4, 8, 16 and 32 threads",
    "cg::tiled_partition<16>(cg::tiled_partition<16>(block))": "smaller than the tile that it is a part of",
    "cg::reduce(block, 1, cg::plus<int>())": "no matching function",
    "cg::reduce(cg::tiled_partition<4>(block), 1, cg::plus<float>())": "another type than the value has",
    "cg::labeled_partition(cg::tiled_partition<4>(block), 1.0f)": "a label is an integer or a pointer",
    "cg::tiled_partition(block, 4).shfl(1, 0)": "shfl",
}


@pytest.mark.parametrize("call", REJECTED)
def test_what_cuda_rejects_does_not_compile(call):
    head = "\n".join(TEXT.splitlines()[:6])
    text = f'{head}\nextern "C" __global__ void k() {{\n    cg::thread_block block = cg::this_thread_block();\n    {call};\n}}'
    with pytest.raises(CompileError, match=REJECTED[call]) as error:
        Kernel(Source(text, "rejected.cu"), "k")(grid=1, block=32)
    assert call in str(error.value)


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc on this machine")
def test_the_kernels_are_cuda(tmp_path):
    (tmp_path / "groups.cu").write_text(TEXT)
    options = "-std=c++17", "-arch=sm_80", "-ptx", "-Werror", "all-warnings", "-o", os.devnull
    done = subprocess.run([find_nvcc(), *options, tmp_path / "groups.cu"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
