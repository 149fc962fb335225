"""The checking build: its counts are the same with either compiler, and its cost is bounded."""

import json
import os
import shutil
import subprocess
import sys

import pytest

COST = """
import resource, statistics
import minigrad as mg
from minigrad.microscope import watching

a, b, c = (mg.randn(128, 128, device="sim") for _ in range(3))
launch = mg.matmul["tiled"].launch(128, 128, 128)

def plain():
    launch(a, b, c, 128, 128, 128)

def checked():
    with watching(blocks=1) as report:
        plain()
    assert not report.problems and report.launches[0].lines

def seconds(run, times):
    start = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    for _ in range(times):
        run()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_utime - start) / times

plain(), checked()
rounds = [(seconds(checked, 1), seconds(plain, 10)) for _ in range(5)]
print(*map(statistics.median, zip(*rounds)))
"""


@pytest.mark.parametrize("compiler", [name for name in ("g++", "clang++") if shutil.which(name)] or [""])
def test_checking_costs_at_most_forty_times_the_plain_build(compiler):
    env = os.environ | {"MINIGRAD_CXX": compiler or os.environ.get("MINIGRAD_CXX", "")}
    done = subprocess.run([sys.executable, "-c", COST], env=env, capture_output=True, text=True, check=True)
    checked, plain = map(float, done.stdout.split())
    assert checked < 40 * plain, f"{checked / plain:.0f} times"


PARTS = """__device__ short table[2][16];
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ double s[16];
    int i = threadIdx.x;
    ((float*)s)[i] = x[i];
    __syncthreads();
    volatile float* v = y;
    v[i] = ((float*)s)[31 - i];
    table[i / 16][i % 16] = i;
}
"""


COUNTS = """
import json, sys
import numpy as np
import minigrad as mg
from minigrad.microscope import watching
from test_microscope_by_hand import BY_HAND, inspect, inspect_reads
from test_microscope_compilers import PARTS
from test_microscope_counts import ARGUMENTS, ASSIGNMENTS, BRANCHES, CALLS, DOUBLES, INDIRECT, LOOPS, STRUCTS, VECTORS, X

def table(record):
    assert record.ok, record
    lines = [[l.line, l.space, l.kind, l.variable, l.requests, l.sectors, l.ideal_sectors, l.wavefronts, l.bank_conflicts, l.lanes, l.bytes, l.per_thread] for l in record.lines]
    own = record.kernel == "k"  # compilers give a function called in a branch different first lines
    simple = "_vectorized" not in record.kernel  # Clang has a basic block before a loop without initialisation
    return [record.kernel, sorted(lines), sorted({(b.line * own, b.lanes) for b in record.branches if simple})]

found = [table(mg.inspect(mg.transpose[v].launch(64, 64), X, X.copy(), 64, 64, blocks=4)) for v in ("naive", "tiled", "padded")]
found.append(table(mg.inspect(BRANCHES, np.zeros(65, np.float32), grid=1, block=64)))
found.append(table(mg.inspect(VECTORS, np.zeros(128, np.float32), np.zeros(32), grid=1, block=32)))
found += [table(mg.inspect(STRUCTS % a, X, np.zeros(96, np.float32), grid=1, block=32)) for a in ("", "alignas(16)")]
found.append(table(mg.inspect(ASSIGNMENTS, X[0], X[1], np.zeros(96, np.int32), grid=1, block=32))[:2])
found.append(table(mg.inspect(DOUBLES, np.arange(64.0), np.zeros(32), grid=1, block=32)))
found.append(table(mg.inspect(CALLS, X, np.zeros(32, np.float32), grid=1, block=32)))
found.append(table(mg.inspect(ARGUMENTS, X, np.zeros(32, np.float32), grid=1, block=32)))
found.append(table(mg.inspect(PARTS, X, np.zeros(32, np.float32), grid=1, block=32)))
found.append(table(mg.inspect(INDIRECT, np.zeros(32, np.float32), np.arange(32, dtype=np.int32), grid=1, block=32)))
found.append(table(mg.inspect(LOOPS, X, np.zeros(32, np.float32), 256, grid=1, block=32))[:2])  # compilers divide while (true) into different basic blocks
with watching(blocks=9) as report:
    x = mg.tensor(X[:33, :21].copy(), requires_grad=True, device="sim")
    for variant in ("naive", "coalesced", "tiled"):
        mg.softmax(mg.matmul.using(variant)(x, x.T)).max(axis=0).sum().backward()
    for variant in ("atomic", "tree", "warp", "columns"):
        mg.sum.using(variant)(x)
found += map(table, report.launches)
found += [table(inspect(name))[:2] for name in BY_HAND]
found += [table(inspect_reads(pointer))[:2] for pointer in ("const int*", "int*")]
print(json.dumps(found))
"""


@pytest.mark.skipif(not (shutil.which("g++") and shutil.which("clang++")), reason="needs g++ and clang++")
def test_both_compilers_give_the_same_counts():
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    running = [
        subprocess.Popen(
            [sys.executable, "-c", COUNTS],
            env=os.environ | {"PYTHONPATH": paths, "MINIGRAD_CXX": name},
            stdout=subprocess.PIPE,
        )
        for name in ("g++", "clang++")
    ]
    one, other = (json.loads(process.communicate()[0]) for process in running)
    assert len(one) > 20
    for mine, theirs in zip(one, other, strict=True):
        assert mine == theirs
