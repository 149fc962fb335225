"""Orders by fences, atomics, flags and warps: correct kernels, and the same kernels with one mistake each."""

import re

import numpy as np
import pytest

import minigrad as mg
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

LAST = """
    __shared__ bool last;
    int t = threadIdx.x;
    y[64 * blockIdx.x + t] = 1;
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd(count, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += y[64 * b + 63 - t];
        y[512 + t] = sum;
        if (t == 0) count[0] = 0;
    }"""
LOCK = """
    int* lock = count;
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        y[0] += 1;
        __threadfence();
        atomicExch(lock, 0);
    }"""
TICKETS = """
    int mine = atomicAdd(&count[0], 1);
    for (bool done = false; !done;) {
        if (*(volatile int*)&count[1] == mine) {
            __threadfence();
            y[0] += 1;
            __threadfence();
            *(volatile int*)&count[1] = mine + 1;
            done = true;
        }
    }"""
SHARED_LOCK = """
    __shared__ int lock;
    __shared__ float sum;
    if (threadIdx.x == 0) lock = 0, sum = 0;
    __syncthreads();
    for (bool done = false; !done;) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            __threadfence_block();
            sum += 1;
            __threadfence_block();
            atomicExch_block(&lock, 0);
            done = true;
        }
    }
    __syncthreads();
    y[64 * blockIdx.x + threadIdx.x] = sum;"""
FLAG = """
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        y[t] = 3;
        __syncthreads();
        if (t == 0) {
            __threadfence();
            atomicExch(count, 1);
        }
    } else {
        if (t == 0) while (atomicAdd(count, 0) == 0) {}
        __syncthreads();
        y[64 * blockIdx.x + t] = y[63 - t];
    }"""
CHAIN = """
    int t = threadIdx.x;
    if (t == 0) {
        y[5] = 3;
        __threadfence_block();
        atomicExch(&count[0], 1);
    }
    if (t == 33) {
        while (atomicAdd(&count[0], 0) == 0) {}
        __threadfence_block();
        atomicExch(&count[1], 1);
    }
    if (t == 63) {
        while (atomicAdd(&count[1], 0) == 0) {}
        y[6] = y[5];
    }"""
LANES = """
    int t = threadIdx.x % 32;
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        y[t] = 3;
        __threadfence();
        __syncwarp();
        if (t == 0) atomicExch(count, 1);
    } else if (blockIdx.x == 1 && threadIdx.x < 32) {
        if (t == 0) while (atomicAdd(count, 0) == 0) {}
        __syncwarp();
        y[64 + t] = y[31 - t];
    }"""
TICKET = """
    __shared__ int arrived;
    int t = threadIdx.x;
    if (t == 0) arrived = 0;
    __syncthreads();
    y[64 * blockIdx.x + t] = t;
    __threadfence_block();
    if (atomicAdd(&arrived, 1) == 63) {
        float sum = 0;
        for (int i = 0; i < 64; ++i) sum += y[64 * blockIdx.x + i];
        y[512 + blockIdx.x] = sum;
        arrived = 0;
    }"""
SWAP = """
    int old = *(volatile int*)count, was;
    do {
        was = old;
        old = atomicCAS(count, was, was + 1);
    } while (old != was);"""
HISTOGRAM = """
    __shared__ int bins[16];
    int t = threadIdx.x;
    if (t < 16) bins[t] = 0;
    __syncthreads();
    atomicAdd_block(&bins[t * 7 % 16], 1);
    __syncthreads();
    if (t < 16) atomicAdd(&count[t], bins[t]);"""
QUEUE = """
    __shared__ int next;
    for (;;) {
        if (threadIdx.x == 0) next = atomicAdd(count, 64);
        __syncthreads();
        int i = next + threadIdx.x;
        bool end = next >= 256;
        __syncthreads();  // before the next turn
        if (end) break;
        y[i] = x[i % 64];
    }"""
BUFFERS = """
    __shared__ float s[2][64];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 6; ++i) {
        s[i % 2][t] = x[t] + i;
        __syncthreads();
        sum += s[i % 2][63 - t];
    }
    y[64 * blockIdx.x + t] = sum;"""
TREE = """
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        float v = s[t] += s[t + 32];
        __syncwarp();  // first
        for (int step = 16; step > 0; step /= 2) {
            float u = s[(t + step) % 32];
            __syncwarp();  // second
            s[t] = v += u;
            __syncwarp();  // third
        }
    }
    if (t == 0) y[blockIdx.x] = s[0];"""
HALVES = """
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t % 32 < 16) __syncwarp(0x0000ffff);
    else __syncwarp(0xffff0000);
    y[64 * blockIdx.x + t] = s[t ^ 15];"""
SORT = """
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = t * 37 % 64;
    for (int k = 2; k <= 64; k *= 2) {
        for (int j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            int u = t ^ j;
            if (u > t && (s[t] > s[u]) == ((t & k) == 0)) {
                float higher = s[t];
                s[t] = s[u];
                s[u] = higher;
            }
        }
    }
    __syncthreads();
    y[64 * blockIdx.x + t] = s[t];"""
PACK = """
    int t = threadIdx.x, base = 0;
    unsigned kept = __ballot_sync(0xffffffff, t % 3 == 0);
    if (t % 32 == 0) base = atomicAdd(count, __popc(kept));
    base = __shfl_sync(0xffffffff, base, 0);
    if (t % 3 == 0) y[base + __popc(kept & ((1u << t % 32) - 1))] = x[t];"""

CORRECT = {
    "last": LAST, "lock": LOCK, "tickets": TICKETS, "shared_lock": SHARED_LOCK, "flag": FLAG, "chain": CHAIN,
    "lanes": LANES, "ticket": TICKET, "swap": SWAP, "histogram": HISTOGRAM, "queue": QUEUE, "buffers": BUFFERS,
    "tree": TREE, "halves": HALVES, "sort": SORT, "pack": PACK,
}  # fmt: skip
ONE_BLOCK = {"chain"}
FENCE, BARRIER = "__threadfence();", "__syncthreads();"
# The name of a wrong version, the right one, the text to replace, its replacement, and which occurrence.
WRONG = [
    ("last_without_fence", "last", FENCE, "", 0),
    ("last_without_barrier_before_the_ticket", "last", BARRIER, "", 0),
    ("last_without_barrier_after_the_ticket", "last", BARRIER, "", 1),
    ("last_but_one", "last", "gridDim.x - 1", "gridDim.x - 2", 0),
    ("last_with_fence_of_a_block", "last", FENCE, "__threadfence_block();", 0),
    ("last_with_ticket_of_a_block", "last", "atomicAdd", "atomicAdd_block", 0),
    ("last_with_fence_of_thread_0", "last", FENCE, "if (t == 0) __threadfence();", 0),
    ("lock_without_fence_at_its_end", "lock", FENCE, "", 1),
    ("lock_that_a_plain_write_opens", "lock", "atomicExch(lock, 0)", "lock[0] = 0", 0),
    ("lock_that_is_two", "lock", "lock = count", "lock = count + blockIdx.x % 2", 0),
    ("lock_left_too_early", "lock", "atomicExch(lock, 0);", "atomicExch(lock, 0); y[1] += 1;", 0),
    ("lock_that_nobody_waits_for", "lock", "while (atomicCAS(lock, 0, 1) != 0) {}", "atomicExch(lock, 1);", 0),
    ("tickets_without_fence", "tickets", FENCE, "", 1),
    ("tickets_served_by_a_plain_write", "tickets", "*(volatile int*)&count[1] = mine", "count[1] = mine", 0),
    ("shared_lock_for_global_memory", "shared_lock", "sum += 1", "y[1000] += 1", 0),
    ("flag_before_the_data", "flag", "y[t] = 3;\n        __syncthreads();", "__syncthreads();\n        y[t] = 3;", 0),
    ("flag_not_waited_for", "flag", "while (atomicAdd(count, 0) == 0) {}", "atomicAdd(count, 0);", 0),
    ("flag_that_one_thread_has_seen", "flag", BARRIER, "", 1),
    ("flag_without_fence", "flag", FENCE, "", 0),
    ("chain_with_a_missing_fence", "chain", "__threadfence_block();", "", 0),
    ("lanes_that_do_not_meet", "lanes", "__syncwarp();", "", 0),
    ("lanes_that_do_not_meet_again", "lanes", "__syncwarp();", "", 1),
    ("ticket_without_fence", "ticket", "__threadfence_block();", "", 0),
    ("swap_with_a_plain_read", "swap", "*(volatile int*)count", "*count", 0),
    ("histogram_filled_too_early", "histogram", BARRIER, "", 0),
    ("histogram_read_too_early", "histogram", BARRIER, "", 1),
    ("histogram_of_block_atomics", "histogram", "atomicAdd(&count", "atomicAdd_block(&count", 0),
    ("queue_turned_too_early", "queue", BARRIER, "", 1),
    ("buffers_that_are_one", "buffers", "[i % 2][t]", "[0][t]", 0),
    ("tree_without_the_first", "tree", "__syncwarp();  // first", "", 0),
    ("tree_without_the_second", "tree", "__syncwarp();  // second", "", 0),
    ("tree_without_the_third", "tree", "__syncwarp();  // third", "", 0),
    ("tree_by_shuffles", "tree", "__syncwarp();  // third", "__shfl_sync(0xffffffff, v, 0);", 0),
    ("halves_that_cross", "halves", "s[t ^ 15]", "s[t ^ 16]", 0),
    ("sort_without_barrier", "sort", BARRIER, "", 0),
    ("pack_without_atomic", "pack", "base = atomicAdd(count, __popc(kept))", "base = count[0], count[0] += 1", 0),
]  # fmt: skip


def changed(text: str, old: str, new: str, place: int) -> str:
    start = [match.start() for match in re.finditer(re.escape(old), text)][place]
    return text[:start] + new + text[start + len(old) :]


BROKEN = {name: (right, changed(CORRECT[right], old, new, place)) for name, right, old, new, place in WRONG}
TEXT = "\n".join(
    f'extern "C" __global__ void {name}(const float* x, float* y, int* count) {{{body}\n}}\n'
    for name, body in [*CORRECT.items(), *((name, body) for name, (_, body) in BROKEN.items())]
)
SOURCE = Source(TEXT, "fences.cu")  # one file, so that it is compiled once


def problems(name: str, blocks: int) -> list:
    x, y, count = np.ones(64, np.float32), np.zeros(1024, np.float32), np.zeros(16, np.int32)
    return mg.inspect(Kernel(SOURCE, name), x, y, count, grid=blocks, block=64, blocks=0).problems


@pytest.mark.parametrize("name", CORRECT)
def test_what_is_in_order_has_no_problem(name):
    assert problems(name, 1 if name in ONE_BLOCK else 4) == []


@pytest.mark.parametrize("name", BROKEN)
def test_the_same_with_one_thing_wrong_is_a_race(name):
    found = problems(name, 1 if BROKEN[name][0] in ONE_BLOCK else 4)
    assert found and {problem.kind for problem in found} == {"race"}


def test_the_second_look_begins_as_the_first_and_leaves_nothing(capsys):
    """A launch whose order depends on a release runs twice: counter, output and prints are those of one run."""
    text = """__device__ int tickets;
extern "C" __global__ void counted(float* y, int* out) {
    y[blockIdx.x] += 1;
    __threadfence();
    if (atomicAdd(&tickets, 1) % 4 == 3) {
        float sum = 0;
        for (int b = 0; b < 4; ++b) sum += y[b];
        y[4] = sum;
        *out = tickets;
        printf("last\\n");
    }
}"""
    y, out = np.zeros(5, np.float32), np.zeros(1, np.int32)
    for launch in (1, 2):
        assert mg.inspect(text, y, out, grid=4, block=1).ok
        assert (y == [launch] * 4 + [4 * launch]).all() and out == 4  # tickets begin at 0 each time
    assert capsys.readouterr().out == "last\n" * 2


@pytest.mark.parametrize("there", ["atomicAdd(ready, 0)", "*(volatile int*)ready"])
@pytest.mark.parametrize("fence", ["", "__threadfence();"])
def test_a_block_that_looks_for_what_a_later_one_leaves_is_seen_finding_it(there, fence):
    leave = "atomicExch(ready, 1)" if "atomic" in there else "*(volatile int*)ready = 1"
    text = f"""extern "C" __global__ void k(int* ready, float* x, float* y) {{
    if (blockIdx.x == 0 && {there}) y[0] = x[0];  // read
    if (blockIdx.x == 2) {{
        x[0] = 1;
        {fence}
        {leave};
    }}
}}"""
    given = [np.zeros(1, dtype) for dtype in (np.int32, np.float32, np.float32)]
    problems = mg.inspect(text, *given, grid=3, block=1).problems
    assert [(problem.kind, problem.variable, problem.line) for problem in problems] == [("race", "x", 2)] * (not fence)


def test_a_device_variable_begins_as_the_file_sets_it_in_each_call():
    text = """__device__ unsigned done = 0;
__device__ float parts[2];
extern "C" __global__ void k(float* y) {
    parts[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    if (atomicAdd(&done, 1) == gridDim.x - 1) y[0] = ((volatile float*)parts)[0] + ((volatile float*)parts)[1];
}"""
    for _ in range(2):
        record = mg.inspect(text, np.zeros(1, np.float32), grid=2, block=1, outputs="y")
        assert record.ok and record.outputs["y"] == 3


WAITS = {
    "reads": ("y[blockIdx.x] = x[0];", "x[0] = 5;"),
    "atomics": ("atomicAdd(&x[0], 1);", "y[0] = x[0];"),
}


@pytest.mark.parametrize("waits", [(0, 1, 2), (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("kind", WAITS)
def test_who_waits_for_two_of_three_blocks_races_with_the_third(kind, waits):
    first, last = WAITS[kind]
    loops = "".join(f"while (atomicAdd(&flag[{b}], 0) == 0); " for b in waits)
    text = f"""extern "C" __global__ void k(int* x, int* y, int* flag) {{
    if (blockIdx.x < 3) {{ {first} __threadfence(); atomicExch(&flag[blockIdx.x], 1); }}
    else {{ {loops} __threadfence(); {last} }}
}}"""
    record = mg.inspect(text, *np.zeros((3, 4), np.int32), grid=4, block=1)
    assert [(p.kind, p.line, p.other.line) for p in record.problems] in ([], [("race", 2, 3)], [("race", 3, 2)])
    assert record.ok == (len(waits) == 3)
    for race in record.problems:
        (left,) = {0, 1, 2} - set(waits)
        assert {race.block[0], race.other.block[0]} == {left, 3}


@pytest.mark.parametrize("mask, ok", [("0xffffffff", True), ("0x80000001", False)])
def test_a_syncwarp_of_two_lanes_orders_none_of_the_others(mask, ok):
    text = f"""extern "C" __global__ void k(int* y) {{
    __shared__ int s;
    int t = threadIdx.x;
    if (t == 0) s = 1;
    __syncwarp();
    y[t] = s;
    if ({mask} >> t & 1) __syncwarp({mask});
    if (t == 0) s = 2;
}}"""
    record = mg.inspect(text, np.zeros(32, np.int32), grid=1, block=32)
    assert [(p.line, p.other.line, p.count) for p in record.problems] == [(6, 8, 30)] * (not ok)


@pytest.mark.parametrize("taken", ["atomicCAS(lock, 0, 1) != 0", "atomicExch(lock, 1)"])
def test_a_race_beside_a_lock_is_told_of_the_fence_before_it_is_given_back(taken):
    text = f"""extern "C" __global__ void k(float* y, int* lock) {{
    while ({taken}) {{}}
    __threadfence();
    y[0] += 1;
    atomicExch(lock, 0);
}}"""
    record = mg.inspect(text, np.zeros(1, np.float32), np.zeros(1, np.int32), grid=4, block=1)
    races = [p.message for p in record.problems]
    assert races and all("one before the atomicExch() that gives it back" in message for message in races)


@pytest.mark.parametrize(
    "grid, way_out",
    [(1, "ask all threads of the block by __syncthreads_or()"), (2, "make it an int and change it by atomicOr()")],
)
def test_a_bool_is_not_advised_an_atomic_that_there_is_not(grid, way_out):
    text = 'extern "C" __global__ void k(bool* any) { any[0] = true; }'
    record = mg.inspect(text, np.zeros(1, bool), grid=grid, block=2 // grid)
    (race,) = record.problems
    assert way_out in race.message and "atomicAdd" not in race.message
