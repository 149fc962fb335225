"""Asynchronous copies: what is used before its copy has arrived is found, whatever the order of the threads."""

import resource
import subprocess
import sys

import numpy as np
import pytest

import minigrad as mg
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

REVERSE = """
#include "async_copy.cuh"
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    __shared__ float now[64], next[64];
    int t = threadIdx.x;
    copy_async(&now[t], &x[t], t < n);
    copy_commit();
    copy_async(&next[t], &x[64 + t], 64 + t < n);
    copy_commit();
    copy_wait<1>();
    __syncthreads();
    y[t] = now[63 - t];
    copy_wait<0>();
    __syncthreads();
    y[64 + t] = next[63 - t];
}
"""
X = np.arange(128, dtype=np.float32)


def reverse(*change):
    text = REVERSE.replace(*change) if change else REVERSE
    assert change == () or text != REVERSE
    y = np.zeros_like(X)
    kernel = Kernel(Source(text, "k.cu"), "reverse")
    return mg.inspect(kernel, X, y, 100, grid=1, block=64), y


def test_copies_that_are_waited_for():
    record, y = reverse()
    assert record.problems == []
    wanted = np.where(X < 100, X, 0)
    assert np.array_equal(y, np.concatenate([wanted[63::-1], wanted[:63:-1]]))
    assert [line.requests for line in record.lines if line.kind == "write" and line.space == "shared"] == [2, 2]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("copy_wait<1>();", ""), "y[t]"),
        (("copy_wait<1>();", "copy_wait<2>();"), "y[t]"),
        (("copy_wait<0>();", ""), "y[64 + t]"),
        (("copy_wait<0>();", "copy_wait<1>();"), "y[64 + t]"),
        (("    copy_commit();\n    copy_wait<1>", "    copy_wait<0>"), "y[64 + t]"),  # of no group
        (("y[t] = now[63 - t];", "y[t] = next[t];"), "y[t]"),  # its own copy, no thread else
        (("y[t] = now[63 - t];", "next[63 - t] = 0;"), "next[63"),
    ],
)
def test_what_a_copy_may_not_have_brought(change, line):
    record, _ = reverse(*change)
    problem = record.problems[0]
    assert problem.kind == "race" and line in problem.text
    assert "under way" in problem.message and "copy_wait" in problem.message
    assert problem.other.file.endswith("async_copy.cuh")


@pytest.mark.parametrize("first", ["    copy_wait<1>();\n", "    copy_wait<0>();\n"])
def test_a_wait_needs_a_barrier(first):
    record, _ = reverse(first + "    __syncthreads();\n", first)
    assert "race" in {problem.kind for problem in record.problems}


def test_a_copy_may_not_begin_while_others_read():
    record, _ = reverse(
        "    copy_wait<0>();\n", "    copy_async(&now[t], &x[t], true);\n    copy_commit();\n    copy_wait<0>();\n"
    )
    assert "y[t] = now" in record.problems[0].text and "under way" not in record.problems[0].message


PIPELINE = """
#include "async_copy.cuh"
extern "C" __global__ void pipeline(const float* x, float* y, int n) {
    __shared__ float tile[2];
    copy_async(&tile[0], &x[0], true);
    copy_commit();
    for (int i = 1; i < n; ++i) {  // always one more copy is under way
        copy_async(&tile[i % 2], &x[i % 128], true);
        copy_commit();
        copy_wait<1>();
        y[0] = tile[(i - 1) % 2];
    }
}
"""


def pipelined():
    """What the process has grown by, in MiB, while a thread makes two million copies in a pipeline."""
    peak = []
    for n in (10, 2_000_000):
        y = np.zeros(1, np.float32)
        record = mg.inspect(Kernel(Source(PIPELINE, "k.cu"), "pipeline"), X, y, n, grid=1, block=1, blocks=0)
        assert not record.problems and y == X[(n - 2) % 128]
        peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return peak[1] - peak[0]


def test_copies_that_have_arrived_take_no_memory():
    command = [sys.executable, "-c", f"import runpy; print(runpy.run_path({__file__!r})['pipelined']())"]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout) < 8, "32 bytes for each copy would be 60 MiB"


WAIT = "        copy_wait<0>();\n"
BARRIER = "        __syncthreads();  // these tiles are complete, and the ones before have been read by all\n"
COPY = "        if (start + DEPTH < k) copy(buffer ^ 1, start + DEPTH);\n"


@pytest.mark.parametrize("change", [(WAIT, ""), (WAIT + BARRIER, BARRIER + WAIT), (BARRIER + COPY, COPY + BARRIER)])
def test_double_buffering_with_one_mistake(change):
    source = mg.matmul["double_buffered"].source
    text = source.text.replace(*change)
    assert text != source.text
    answer = mg.check.kernel(mg.matmul, "double_buffered", text[text.index('extern "C"') :])
    assert not answer.correct and "under way" in str(answer)
