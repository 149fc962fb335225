"""Barriers of the grid under the microscope: the blocks of a cooperative launch take turns, and every lost line is found."""

import re
from dataclasses import replace

import numpy as np
import pytest
from persistent import FILE, IN_TURN, ROTATE, SMOOTH, TEXT, begin, smoothed

import minigrad as mg
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.source import CUDA, Source

HEADER = (CUDA / "grid_barrier.cuh").read_text()
RIGHT = HEADER[HEADER.index("__device__") :]
KERNEL = TEXT[TEXT.index('extern "C"') : TEXT.index("\n}\n") + 3]
WAIT = "while (atomicAdd(counter, 0) < target)"
RACES = {  # the text to replace, and its replacement
    "no_meeting_before": ("__syncthreads();  // before", "// before"),
    "no_meeting_after": ("__syncthreads();  // until", "// until"),
    "no_release": ("__threadfence();  // release", "// release"),
    "no_acquire": ("__threadfence();  // acquire", "// acquire"),
    "release_to_its_own_block": ("__threadfence();  // release", "__threadfence_block();  // release"),
    "acquire_from_its_own_block": ("__threadfence();  // acquire", "__threadfence_block();  // acquire"),
    "arrival_at_its_own_block": ("atomicAdd(counter, 1)", "atomicAdd_block(counter, 1)"),
    "no_wait": (WAIT, "if (false)"),
    "one_too_few": ("= blocks * step", "= (blocks - 1) * step"),
    "step_before": ("= blocks * step", "= blocks * (step - 1)"),
    "wait_by_a_plain_read": (WAIT, "while (*counter < target)"),
}
HANGS = {
    "one_too_many": ("= blocks * step", "= (blocks + 1) * step"),
    "step_after": ("= blocks * step", "= blocks * (step + 1)"),
    "no_arrival": ("atomicAdd(counter, 1)", "atomicAdd(counter, 0)"),
    "block_that_does_not_arrive": ("atomicAdd(counter, 1)", "if (blockIdx.x) atomicAdd(counter, 1)"),
    "counter_set_back": (
        "__threadfence();  // acquire",
        "__threadfence(); if (blockIdx.x == 0) atomicExch(counter, 0);  // acquire",
    ),
}
CLEAN = {
    "by_volatile_reads": (WAIT, "while (*(volatile unsigned*)counter < target)"),
    "by_compare_and_swap": (WAIT, "while (atomicCAS(counter, 0, 0) < target)"),
    "without_sleep": ("__nanosleep(0)", ""),
    "fence_in_the_loop": ("__nanosleep(0)", "__threadfence()"),
    "fence_of_all_threads": ("__syncthreads();  // before", "__threadfence(); __syncthreads();  // before"),
}


def barrier(name: str, old: str, new: str) -> str:
    """The kernel with a barrier of its own, of which one line is another."""
    assert RIGHT.count(old) == 1
    return f"{RIGHT.replace(old, new)}{KERNEL}".replace("grid_", f"{name}_").replace("smooth", name)


BARRIERS = Source("".join(barrier(name, *change) for name, change in (RACES | HANGS | CLEAN).items()), "barriers.cu")


def look(name: str | Kernel, grid: int, steps: int = 4, threads: int = 32, **named) -> tuple:
    """The record, and the array that the kernel has written."""
    kernel = Kernel(BARRIERS, name, cooperative=True) if isinstance(name, str) else name
    n = grid * threads
    y = begin(n)
    return mg.inspect(kernel, y, np.zeros(1, np.uint32), n, steps, grid=grid, block=threads, **named), y


@pytest.mark.parametrize("blocks", [2, 5])
@pytest.mark.parametrize("name", RACES)
def test_a_barrier_with_one_line_wrong_is_a_race_with_its_two_lines(name, blocks):
    record, _ = look(name, blocks)
    assert record.problems and {problem.kind for problem in record.problems} == {"race"}
    race = next(problem for problem in record.problems if problem.variable == "y")
    assert "from[i]" in race.text and race.other.text == race.text and race.block != race.other.block
    assert "At a barrier of the grid" in race.message
    also = {"counter"} if name == "wait_by_a_plain_read" else set()
    assert {problem.variable for problem in record.problems} == {"y"} | also


@pytest.mark.parametrize("blocks", [2, 5])
@pytest.mark.parametrize("name", HANGS)
def test_a_barrier_that_nobody_can_leave_is_explained_long_before_time_is_out(name, blocks):
    (problem,) = look(name, blocks)[0].problems
    assert (problem.kind, problem.thread) == ("timeout", (0, 0, 0)) and WAIT in problem.text
    assert re.match(rf"{blocks} of {blocks} blocks wait for memory to change, and none is left", problem.message)
    assert "each block must arrive as often as the others expect" in problem.message


@pytest.mark.parametrize("blocks", [2, 5])
@pytest.mark.parametrize("name", CLEAN)
def test_a_right_barrier_of_another_form_is_clean(name, blocks):
    record, y = look(name, blocks, steps=3)
    assert record.ok, record
    n = 32 * blocks
    np.testing.assert_array_equal(y[n:], smoothed(begin(n)[:n], 3))


@pytest.mark.parametrize("blocks", [1, 2, 8, 33, 132])
def test_the_barrier_is_clean(blocks):
    record, y = look(SMOOTH, blocks, outputs="y")
    assert record.ok, record
    n = 32 * blocks
    np.testing.assert_array_equal(y[:n], smoothed(begin(n)[:n], 4))


def test_a_counter_that_does_not_begin_at_0_is_a_race():
    y = begin(64)
    record = mg.inspect(SMOOTH, y, np.ones(1, np.uint32), 64, 3, grid=2, block=32)
    assert {problem.kind for problem in record.problems} == {"race"}


def test_blocks_that_wait_in_turn_are_clean():
    x, total = np.arange(99, dtype=np.float64), np.zeros(1)
    assert mg.inspect(IN_TURN, x, total, np.zeros(1, np.uint32), 99, grid=12, block=1).ok
    assert total == x.sum()


def rotate(kernel: Kernel, blocks: int = 5) -> tuple:
    y = np.zeros(8 * blocks, np.int32)
    return mg.inspect(kernel, y, np.zeros(1, np.uint32), 3, grid=blocks, block=8, shared=32, blocks=blocks), y


def test_each_block_has_its_own_shared_memory():
    record, y = rotate(ROTATE)
    assert record.ok
    np.testing.assert_array_equal(y.reshape(-1, 8), np.roll(np.arange(40).reshape(-1, 8), -3, axis=1))


@pytest.mark.parametrize(
    ("old", "new", "kind", "variable"),
    [
        (
            "mine[t] = more[7 - t] = ",
            "if (blockIdx.x != 3 || t) mine[t] = t;\n    more[7 - t] = ",
            "uninitialised",
            "mine",
        ),
        ("more[7 - (t + 1) % 8]", "more[7 - (t + 1) % 8 + 8 * (blockIdx.x == 3)]", "out-of-bounds", "more"),
        ("        __syncthreads();\n", "        if (blockIdx.x == 3) continue;\n        __syncthreads();\n", "", ""),
        ("y[8 * blockIdx.x + t]", "y[8 * blockIdx.x + t + 50 * (blockIdx.x == 3)]", "out-of-bounds", "y"),
    ],
)
def test_a_problem_of_one_block_is_that_of_this_block(old, new, kind, variable):
    text = TEXT[TEXT.index("// Shared memory") :]
    assert text.count(old) == 1
    file = Source(f'#include "grid_barrier.cuh"\n{text.replace(old, new)}', "rotate.cu", CUDA)
    problems = rotate(Kernel(file, "rotate", cooperative=True))[0].problems
    found = {(problem.kind, problem.variable) for problem in problems if problem.block == (3, 0, 0)}
    assert found == ({(kind, variable)} if kind else set()) and len(found) == len(problems)


def test_nan_is_of_the_block_that_wrote_it():
    text = TEXT.replace("+ from[(i + 1) % n]) / 4", "+ from[(i + 1) % n]) / 4 + (blockIdx.x == 3 && t == 3 ? NAN : 0)")
    kernel = Kernel(Source(f'#include "common.cuh"\n{text}', "nan.cu", CUDA), "smooth", cooperative=True)
    record, _ = look(kernel, 5, steps=3, outputs="y")
    (problem,) = record.problems
    assert (problem.kind, problem.block) == ("nan", (3, 0, 0))


def test_counts_are_those_of_blocks_that_run_one_after_the_other():
    alone = RIGHT.replace(WAIT, "while (false)") + KERNEL  # blocks that do not wait
    together, apart = (
        look(kernel, 4, steps=3, blocks=3)[0] for kernel in (SMOOTH, Kernel(Source(alone, "alone.cu"), "smooth"))
    )
    assert together.ok and not apart.ok
    for text in ("from[i]", "atomicAdd(counter, 1)"):
        ours, theirs = (counts(record, text) for record in (together, apart))
        assert ours and ours == theirs


def counts(record: mg.microscope.Inspection, text: str) -> list:
    """The counts of the lines with this text, without the place of these."""
    return [replace(one, file="", line=0) for one in record.lines if text in one.text]


def test_the_lanes_of_an_iteration_are_one_request_although_other_blocks_run_in_between():
    text = """extern "C" __global__ void k(float* y, unsigned* arrived) {
    for (int i = 0; i < 4; ++i) {
        y[i * 128 + blockIdx.x * 32 + threadIdx.x] = i;
        if (threadIdx.x == 0) {
            atomicAdd(arrived, 1);
            while (atomicAdd(arrived, 0) < gridDim.x * (i + 1)) {}
        }
    }
}"""
    given = np.zeros(512, np.float32), np.zeros(1, np.uint32)
    record = mg.inspect(mg.kernel(text, "k", cooperative=True), *given, grid=4, block=32, blocks=4)
    (write,) = (line for line in record.lines if line.variable == "y")
    assert record.ok and (write.requests, write.sectors, write.per_thread) == (16, 64, 4)


def test_a_look_is_the_same_each_time():
    first, second = (repr(look("no_release", 5, blocks=5)[0]) for _ in range(2))
    assert first == second


def test_more_blocks_than_run_at_once_are_rejected_here_too():
    with pytest.raises(LaunchError, match="'sim' runs 16 at once"):
        look(SMOOTH, 17, threads=1024)


def test_other_launches_still_run_one_block_after_the_other():
    (problem,) = look(Kernel(FILE, "smooth"), 3)[0].problems
    assert problem.kind == "timeout" and "1 of 3 blocks run at once here" in problem.message
    assert "mg.kernel(..., cooperative=True)" in problem.message


CHAIN = """extern "C" __global__ void k(float* y) {
    __shared__ float data;
    __shared__ int flags[2];
    if (threadIdx.x < 2) flags[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        data = 7;
        __threadfence_block();
        atomicExch_block(&flags[0], 1);
    } else if (threadIdx.x == 32) {
        while (atomicAdd_block(&flags[0], 0) == 0) {}
        __threadfence_block();
        atomicExch_block(&flags[1], 1);
    } else if (threadIdx.x == 64) {
        while (atomicAdd_block(&flags[1], 0) == 0) {}
        __threadfence_block();
        y[blockIdx.x] = data;
    }
}"""


@pytest.mark.parametrize("cooperative", [False, True])
def test_what_a_block_passes_on_within_itself_needs_no_fence_of_the_device(cooperative):
    record = mg.inspect(mg.kernel(CHAIN, "k", cooperative=cooperative), np.zeros(2, np.float32), grid=2, block=96)
    assert record.ok
    broken = CHAIN.replace("__threadfence_block();\n        atomicExch_block(&flags[0]", "atomicExch_block(&flags[0]")
    record = mg.inspect(mg.kernel(broken, "k", cooperative=cooperative), np.zeros(2, np.float32), grid=2, block=96)
    assert {problem.kind for problem in record.problems} == {"race"}
