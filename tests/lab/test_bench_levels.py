"""The levels of memory: what their kernels read is checked on sim, and on a GPU what is measured."""

import numpy as np
import pytest
from bench_examples import H200, example

from minigrad import bench
from minigrad.create import tensor, zeros
from minigrad.kernels.kernel import Kernel
from minigrad.lab import cli as command_line
from minigrad.lab.bench import levels
from minigrad.lab.bench import record as dated
from minigrad.lab.bench.record import Level

FOUND = {"L2": Level(5e12, 1.5e-7), "host": Level(5e10, None)}


def numbers(n, device="sim"):
    return tensor(np.arange(n) % 7, device=device, dtype="float32")


@pytest.mark.parametrize("blocks, vectors, steps", [(1, 64, 4), (3, 192, 4), (2, 64, 5), (4, 64, 9)])
def test_each_block_walks_through_the_array_from_its_own_place(blocks, vectors, steps):
    """The sum of a block is that of `steps` neighboring groups of vectors, the first group after the last."""
    block, x, sums = 16, numbers(4 * vectors), zeros(16 * blocks, device="sim")
    Kernel("bench/levels.cu", "stream")(x, sums, vectors, steps, grid=blocks, block=block)
    groups = x.numpy().reshape(-1, block, 4).sum(axis=2)
    starts = [vectors // blocks * (61 * b % blocks) // block for b in range(blocks)]
    wanted = [groups[np.arange(start, start + steps) % len(groups)].sum(axis=0) for start in starts]
    assert np.array_equal(sums.numpy().reshape(blocks, block), wanted)


def test_shared_memory_is_walked_through_too():
    sums, last = zeros(64, device="sim"), zeros(1, device="sim", dtype="int32")
    Kernel("bench/levels.cu", "stream_shared")(sums, 70, grid=1, block=64)
    at = (np.arange(64)[:, None] + 32 * np.arange(70)) % 2048
    assert np.array_equal(sums.numpy(), 4 * at.sum(axis=1))
    Kernel("bench/levels.cu", "chase_shared")(last, 300, grid=1, block=1)
    assert last.numpy() == [300 * 33 % 8192]


def test_a_chase_visits_every_line_once():
    following = levels.places(32 * 50)
    seen, at = [], 0
    for _ in range(50):
        seen.append(at)
        at = following[at]
    assert at == 0 and sorted(seen) == list(range(0, 1600, 32)) and seen != sorted(seen)
    last = zeros(1, device="sim", dtype="int32")
    Kernel("bench/levels.cu", "chase")(tensor(following, device="sim", dtype="int32"), last, 7, grid=1, block=1)
    assert last.numpy() == [seen[7]]


def test_levels_come_back_from_a_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dated, "FOLDERS", (tmp_path,))
    example("2026-01-03").save()
    with pytest.raises(ValueError, match="no record has the levels of memory"):
        bench.recorded_levels()
    measured = bench.Levels("NVIDIA H200", "2026-01-02", H200, FOUND)
    monkeypatch.setattr(command_line, "why_not", lambda name: "")
    monkeypatch.setattr(bench, "memory_levels", lambda: measured)
    monkeypatch.setattr(
        dated,
        "todays_record",
        lambda command, **tables: bench.Record("NVIDIA H200", "2026-01-02", command, {}, H200, **tables),
    )
    assert command_line.main(["bench", "--levels"]) == 0
    assert bench.recorded_levels() == measured
    said = capsys.readouterr().out
    assert "L2     5,000  150" in said and "host      50" in said


@pytest.mark.gpu
def test_levels_are_slower_from_the_threads_outwards():
    found, *others = (bench.memory_levels() for _ in range(3))  # other processes may use the GPU: the best of three

    def best(name):
        runs = [run.levels[name] for run in (found, *others)]
        return Level(max(run.bandwidth for run in runs), min(run.latency for run in runs))

    near = [best(name) for name in ("shared memory", "L1", "L2", "global memory")]
    assert near[0].latency <= near[1].latency * 1.2 < near[2].latency < near[3].latency < 2e-6
    assert near[0].bandwidth > near[2].bandwidth > near[3].bandwidth > found.levels["host"].bandwidth > 1e9
    most = found.chip.sms * 128 * found.chip.clock  # 32 banks of 4 bytes, each clock
    assert 0.7 * most < near[0].bandwidth <= 1.02 * most
    assert 0.5 * found.chip.bandwidth < near[3].bandwidth <= 1.02 * found.chip.bandwidth
