"""The microscope finds what stops a kernel: barriers that not all threads reach, endless loops, division by zero."""

import subprocess
import sys

import numpy as np
import pytest
from watched_kernels import X, kernels, line_of, look, source

import minigrad as mg
from minigrad.devices import get

NEWLINE = "\n"


@pytest.mark.parametrize(
    "around",
    ["if (t < 48) {\n@\n}\ny[t] = 1;", "for (int i = 0; i < 1 + (t < 48); i++) {\n@\n}", "if (t < 48)\n@"],
)
def test_a_barrier_that_threads_go_around(around):
    problem, text = look("int t = threadIdx.x;\n" + around.replace("@", "__syncthreads();  // wrong"))
    assert (problem.kind, problem.line, problem.harmless) == ("missed-barrier", line_of(text, "wrong"), False)
    assert problem.thread == (48, 0, 0) and "16 threads have gone around __syncthreads" in problem.message


LANES = [
    "__syncwarp();",
    "__syncwarp(0xffff);",
    "y[t] = __ballot_sync(~0u, 1);",
    "y[t] = __reduce_add_sync(~0u, t);",
    "cooperative_groups::tiled_partition<16>(cooperative_groups::this_thread_block()).sync();",
]


@pytest.mark.parametrize("call", LANES)
def test_a_call_of_a_warp_that_lanes_of_its_mask_go_around(call):
    text = f"#include <cooperative_groups.h>\n{source(f'int t = threadIdx.x;{NEWLINE}@ {call}  // here')}"
    (problem,) = mg.inspect(text.replace("@", "if (t < 8)"), X, X * 0, 1000, grid=1, block=32).problems
    assert (problem.kind, problem.line, problem.thread) == ("missed-barrier", line_of(text, "here"), (8, 0, 0))
    count = 8 if "16>" in call or "0xffff)" in call else 24
    assert not problem.harmless and f"{count} threads have gone around" in problem.message
    for right in ("if (t >= 8) return;", "if (t < 16)" if count == 8 else ""):
        assert mg.inspect(text.replace("@", right), X, X * 0, 1000, grid=1, block=20).problems == []


RETURNS = {
    "at once": "if (t >= 48) return;",
    "of a macro": "END(48);",
    "of a value": "if (t >= 48) return (void)(y[t] = 2);",
    "of a call": "if (t >= 48) return set(y + t);",
    "before a destructor": "At at{y + t};\nif (t >= 48) return;",
    "of a branch": "if (t >= 48) { y[t] = 2; return; } else y[t] = 3;",
    "of a loop": "for (int i = 0; ; i++) { if (t >= 48 && i) return; if (i) break; }",
    "of a case": "switch (t / 48) { case 1: return; default: break; }",
}


@pytest.mark.parametrize("returns", RETURNS.values(), ids=RETURNS)
def test_a_barrier_that_threads_miss_by_returning_is_harmless(returns):
    text = source(f"int t = threadIdx.x;\n{returns}\n__syncthreads();  // missed\ny[t] = 1;")
    text = f"#define END(n) if (threadIdx.x >= n) return\n__device__ void set(float* p) {{ *p = 2; }}\n{text}"
    text = f"struct At {{ float* p; __device__ ~At() {{ *p = 2; }} }};\n{text}"
    (problem,) = mg.inspect(text, X, X * 0, 1000, grid=1, block=64).problems
    assert (problem.kind, problem.line, problem.harmless) == ("missed-barrier", line_of(text, "missed"), True)
    assert problem.thread == (48, 0, 0) and "16 threads have returned without" in problem.message


def test_a_barrier_that_some_miss_by_returning_and_others_go_around():
    problem, _ = look("int t = threadIdx.x;\nif (t >= 48) return;\nif (t < 20) __syncthreads();\ny[t] = 1;")
    assert (problem.kind, problem.thread, problem.harmless) == ("missed-barrier", (20, 0, 0), False)
    assert "28 threads have gone around" in problem.message


def test_a_function_that_has_returned_is_no_end_of_the_thread():
    text = "__device__ void f(float* y) {\nif (threadIdx.x > 9) return;\ny[threadIdx.x] = 2;\n}\n"
    text += source("if (threadIdx.x < 8) __syncthreads();\nf(y);")
    (problem,) = mg.inspect(text, X, X * 0, 1000, grid=1, block=32).problems
    assert (problem.kind, problem.thread, problem.harmless) == ("missed-barrier", (8, 0, 0), False)


CALLED = """__device__ float sum(float v) {
    v = __syncthreads_count(v > 0);  // here
    if (threadIdx.x == 0) return 0;
    return v;
}
__device__ void f(float* y, int n) {
    auto twice = [&](int end) {
        if (threadIdx.x >= end) return;
        y[threadIdx.x] = 2 * sum(1);
    };
    @
}
"""


@pytest.mark.parametrize(
    "body, harmless",
    [
        ("if (threadIdx.x >= n) return;\ny[threadIdx.x] = sum(1);", True),
        ("y[threadIdx.x] = sum(1);\nif (threadIdx.x >= n) return;\ny[threadIdx.x] += sum(1);", True),
        ("y[0] += 1;\ntwice(n);", True),
        ("if (threadIdx.x < n) y[threadIdx.x] = sum(1);", False),
    ],
)
def test_a_function_that_returns_before_its_barrier_has_returned(body, harmless):
    text = CALLED.replace("@", body) + source("f(y, 48);")
    found = [each for each in mg.inspect(text, X, X * 0, 1000, grid=1, block=64).problems if each.kind != "race"]
    assert [(each.kind, each.line, each.harmless) for each in found] == [("missed-barrier", 2, harmless)]


def test_a_missed_barrier_ranks_behind_what_follows_from_it():
    body = (
        "__shared__ float s[64];\nif (threadIdx.x >= 48) return;\ns[threadIdx.x] = x[threadIdx.x];\n__syncthreads();\n"
    )
    record = mg.inspect(source(f"{body}y[threadIdx.x] = s[63 - threadIdx.x];"), X, X * 0, 1000, grid=1, block=64)
    assert [problem.kind for problem in record.problems] == ["uninitialised", "missed-barrier"]


@pytest.mark.parametrize("call", ["__syncthreads()", "__syncthreads_or(1)"])
def test_two_barriers_of_one_line_are_two(call):
    problem, text = look(f"if (threadIdx.x < 48) {call}; else {call};  // wrong")
    assert (problem.kind, problem.line) == ("barrier-divergence", line_of(text, "wrong"))
    assert f"48 wait at {call[:-3].rstrip('(')}" in problem.message and "16 wait at" in problem.message


@pytest.mark.parametrize(
    "body, way_out",
    [
        ("if (threadIdx.x > 9) return;\n__syncthreads();", "let no thread return before it: what it must not touch"),
        ("if (threadIdx.x > 9) __syncthreads();\nelse __syncthreads();", "Move the call out of the condition, so that"),
        ("y[0] = 1 / (n - 1000);", "integer division by zero, or of the lowest number by -1. Check the divisor"),
    ],
)
def test_what_stops_a_kernel_says_its_place_once(body, way_out):
    problem, _ = look(body)
    assert way_out in " ".join(problem.message.split()) and problem.thread and problem.line
    assert not any(word in problem.message for word in ("k: ", "k.cu", "block (", "thread ("))


def test_what_else_stops_a_kernel_is_a_problem_too():
    problem, _ = look("y[0] = n / (n - 1000);", block=1)
    assert (problem.kind, problem.line) == ("division", 2)


def test_an_endless_loop_is_a_problem_with_its_line(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 0.3)
    problem, text = look("volatile int* p = (volatile int*)y;\nwhile (*p == 0) {}  // for ever", block=1)
    assert (problem.kind, problem.line) == ("timeout", line_of(text, "for ever"))


def test_an_endless_loop_that_fills_the_record_is_a_problem_and_has_no_counts(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 0.3)
    monkeypatch.setattr("minigrad.microscope.watch.LIMIT", 1 << 16)
    record = mg.inspect(source("while (n) y[threadIdx.x] += 1;"), X, np.zeros_like(X), 1000, grid=1, block=64)
    assert [problem.kind for problem in record.problems] == ["timeout"]
    assert "timeout" in repr(record) and "no counts" in repr(record) and "no counts" in record._repr_html_()
    for count in ("lines", "branches", "traffic", "per_thread"):
        with pytest.raises(MemoryError, match=r"more than 65536 accesses .* count fewer blocks"):
            getattr(record, count)


WAITS = {
    "a counter": "if (threadIdx.x == 0) atomicAdd(p, 1);\nwhile (atomicAdd(p, 0) < gridDim.x) {}  // wait",
    "two flags": "volatile int* f = p;\nwhile (!(f[0] == 0 && f[1])) {}  // wait",
    "others at a barrier": "if (threadIdx.x) __syncthreads();\nelse while (atomicCAS(p, 1, 1) == 0) {}  // wait",
    "a maximum": "int seen = 0;\nwhile (seen < gridDim.x) seen = atomicMax(p, 0);  // wait",
}


@pytest.mark.parametrize("kernel", kernels(f"int* p = (int*)y;\n{wait}" for wait in WAITS.values()), ids=WAITS.keys())
def test_blocks_that_wait_for_one_that_cannot_begin_are_told_so_long_before_time_is_out(kernel):
    problem, _ = look(kernel, grid=8, block=32)
    assert (problem.kind, problem.block) == ("timeout", (0, 0, 0)) and problem.text.endswith("// wait")
    assert "waits for another block" in problem.message
    assert "1 of 8 blocks run at once here" in problem.message and "cooperative launch" in problem.message


def test_a_block_that_looks_at_memory_in_vain_and_counts_is_not_stopped(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 4.0)
    counts = "volatile float* f = y;\nint i = 0;\nwhile (*f == 0 && i < n) ++i;\nif (threadIdx.x == 0) y[1 + blockIdx.x] = i;"
    y = np.zeros(3, np.float32)
    assert mg.inspect(source(counts), X, y, 100_000, grid=2, block=1).ok
    assert (y == [0, 100_000, 100_000]).all()


def test_two_volatile_flags_may_be_waited_for_at_once(monkeypatch):
    monkeypatch.setattr(get("sim"), "timeout", 2.0)
    body = """volatile float* f = y;
if (threadIdx.x == 0) { while (!(f[0] && f[1])) {} }
else if (threadIdx.x == 32) f[0] = 1;
else if (threadIdx.x == 64) { while (!f[2]) {} f[1] = 1; }
else if (threadIdx.x == 96) f[2] = 1;"""
    assert mg.inspect(source(body), X, np.zeros_like(X), 1000, grid=1, block=128).ok


def test_a_volatile_flag_within_a_block_may_be_waited_for_whoever_runs_first():
    body = "volatile float* flag = y;\nif (threadIdx.x == 0) {\n  while (*flag == 0) {}\n}\nelse if (threadIdx.x == 40) *flag = 1;"
    assert mg.inspect(source(body), X, np.zeros_like(X), 1000, grid=1, block=64).ok


AFTER_AN_OVERFLOW = """
import numpy as np
import minigrad as mg
head = "__global__ void k(const float* x, float* y, int n) { int t = threadIdx.x;"
long = mg.kernel(head + " float a[4]; for (int i = 0; i < n; ++i) a[i] = i; y[t] = a[n / 2]; }", "k")
next = mg.kernel(head + " y[t] = x[t]; }", "k")
x, y = mg.zeros(8, device="sim"), mg.zeros(8, device="sim")
for n in range(4, 100, 2):
    try:
        long(x, y, n, grid=1, block=8)
    except mg.errors.KernelError:
        pass
    print(*mg.inspect(next, x, y, n, grid=1, block=8).problems, end="")
"""


def test_a_kernel_that_writes_past_its_local_array_does_not_accuse_the_next():
    """What the runtime knows of the thread's stack may lie right above the array."""
    done = subprocess.run([sys.executable, "-c", AFTER_AN_OVERFLOW], capture_output=True, text=True, check=True)
    assert done.stdout == ""
