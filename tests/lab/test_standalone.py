"""`kernel.standalone` writes a CUDA C++ program that compiles without a warning, and computes what `sim` computes."""

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from persistent import SMOOTH, begin

import minigrad as mg
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.devices.host_compiler import find_compiler
from minigrad.errors import LaunchError

NVCC, FAKE = find_nvcc(), Path(__file__).with_name("fake_cuda_runtime.h")
M = np.arange(24, dtype=np.float32).reshape(4, 6)
LONG = ((np.arange(1000) % 11 - 5) / 2).astype(np.float32)
SCALE = """
#ifndef FACTOR
#define FACTOR 2
#endif
#define UNUSED 5
struct Unused { float x[UNUSED]; };
__device__ float helper(float x) { return FACTOR * x; }
__device__ float unused(Unused x) { return x.x[0]; }
extern "C" __global__ void other(float* y) { y[0] = 1; }

// y = s FACTOR x, and a copy of x unless that is a null pointer.
extern "C" __global__ void scale(const float* x, float* y, float* copy, float s, bool twice, int grid) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < grid) y[i] = s * helper(x[i]) * (twice ? 2 : 1);
    if (i < grid && copy) copy[i] = x[i];
}
"""
SHARED = """
extern "C" __global__ void turned(const float4* x, float4* y, unsigned long long* count) {
    extern __shared__ float4 row[];
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
    atomicAdd(count, 1ull);
}
"""
AWKWARD = """
extern "C" __global__ void awkward(
    const float* i, const float* error, float* awkward, int printf, const float* i_, const float* dim3, int cudaMalloc
) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < printf) awkward[at] = i[at] + error[at] * i_[at] - dim3[at] * cudaMalloc;
}
"""
scale = mg.kernel(SCALE, "scale", defines={"FACTOR": 3})
turned = mg.kernel(SHARED, "turned")
awkward = mg.kernel(AWKWARD, "awkward")


def taken(name, path):
    return mg.kernel(f'extern "C" __global__ void {name}(int n) {{}}', name).standalone(path, 1, grid=1, block=1)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


CASES = {  # by name: kernel, arguments, and the rest of the launch
    "scale": (scale, [LONG, zeros(1000), None, -0.1, True, 1000], {"grid": 4, "block": 256}),
    "again": (scale, [M, zeros(4, 6), zeros(24), float("inf"), False, 24], {"grid": (2, 1, 1), "block": 12}),
    "add": (mg.add["forward"], [M.astype(np.float64), M[:, :1].astype(np.float64)], {"BLOCK": 32}),
    "transpose": (mg.transpose["naive"], [np.arange(600.0).reshape(20, 30)], {"TILE": 8}),
    "pool": (mg.avg_pool2d["forward"], [np.arange(60.0).reshape(1, 2, 6, 5)], {"size": 3, "stride": 2, "padding": 1}),
    "less": (mg.less["forward"], [LONG, mg.tensor(1.5, device="sim")], {}),
    "awkward": (awkward, [LONG, LONG, zeros(1000), 24, M, M, 2], {"grid": 1, "block": 24}),
    "turned": (turned, [LONG[:96], zeros(96), zeros(1, dtype=np.uint64)], {"grid": 1, "block": 24, "shared": 65536}),
    "together": (SMOOTH, [begin(16), zeros(1, dtype=np.uint32), 16, 3], {"grid": 2, "block": 8}),
    "padded": (mg.transpose["padded"], [M], {"TILE": 32}),
    "tree": (mg.sum["tree"], [LONG], {"BLOCK": 64}),
    "softmax": (mg.softmax["backward"], [M / 8], {"axis": 0, "dy": 2 * M}),
    "matmul": (mg.matmul["warp_tiled"], [np.ones((70, 30), np.float32), np.ones((30, 50), np.float32)], {}),
}  # fmt: skip
WITHOUT_BARRIERS = ["scale", "again", "awkward", "add", "transpose", "less", "pool"]
COMPILED = ["together", "scale", "awkward", "pool", "add", "turned", "padded", "tree", "softmax", "matmul"]


def wanted(case):
    """The output by name on `sim`."""
    kernel, args, named = CASES[case]
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    return mg.inspect(kernel, *copies, blocks=0, **named).outputs


def must_agree(case, printed):
    """The printed elements and sums are those of `sim`."""
    outputs = wanted(case)
    found = re.findall(r"(\w+):((?: [-\w+][-\w.+]*)+)(?: \.\.\.)?\n\1: (\d+) elements, their sum is (\S+)\n", printed)
    assert [name for name, *_ in found] == list(outputs) and printed.count("\n") == 2 * len(outputs), printed
    for name, first, size, total in found:
        assert int(size) == outputs[name].size
        np.testing.assert_allclose([float(x) for x in first.split()], outputs[name].ravel()[:8], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(float(total), outputs[name].astype(np.float64).sum(), rtol=1e-6, atol=1e-5)


def write(case, folder):
    kernel, args, named = CASES[case]
    kernel.standalone(folder / f"{case}.cu", *args, **named)
    return folder / f"{case}.cu"


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", WITHOUT_BARRIERS)
def test_the_host_code_runs_on_a_fake_runtime(case, tmp_path):
    text = write(case, tmp_path).read_text()
    kernel = CASES[case][0].name
    text, launches = re.subn(rf"{kernel}<<<(\w+), (\w+)>>>\(", rf"launch({kernel}, \1, \2, ", text)
    assert launches == 1
    (tmp_path / "host.cpp").write_text(text)
    options = ["-std=c++17", "-Wall", "-Wno-unknown-pragmas", "-include", FAKE]
    command = [*find_compiler().command, *options, "host.cpp", "-o", "host"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert built.returncode == 0 and not built.stderr, built.stderr
    ran = subprocess.run(["./host"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    must_agree(case, ran.stdout)


@pytest.fixture(scope="module")
def programs(request, tmp_path_factory):
    """The programs that nvcc makes of the cases that were asked for, compiled side by side."""
    folder = tmp_path_factory.mktemp("standalone")
    asked = {
        item.callspec.params["case"]
        for item in request.session.items
        if "programs" in getattr(item, "fixturenames", ())
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:

        def build(case):
            command = [NVCC, "-Werror", "all-warnings", write(case, folder), "-o", folder / case]
            return folder / case, subprocess.run(command, capture_output=True, text=True)

        return dict(zip(sorted(asked), pool.map(build, sorted(asked)), strict=True))


@pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine")
@pytest.mark.sample(5)
@pytest.mark.parametrize("case", COMPILED)
def test_nvcc_compiles_the_program_without_a_warning(programs, case):
    program, built = programs[case]
    assert built.returncode == 0 and program.exists(), built.stdout + built.stderr


@pytest.mark.gpu
@pytest.mark.skipif(NVCC is None, reason="no nvcc on this machine")
@pytest.mark.sample(5)
@pytest.mark.parametrize("case", COMPILED)
def test_on_a_gpu_the_program_prints_what_sim_computes(programs, case):
    ran = subprocess.run([programs[case][0]], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    must_agree(case, ran.stdout)


def test_only_what_the_kernel_needs_is_in_the_file(tmp_path):
    text = write("scale", tmp_path).read_text()
    assert "#define FACTOR 3" in text and "helper" in text and text.count("#define FACTOR") == 1
    assert not re.search("unused|Unused|UNUSED|other|ifndef|real", text)
    tree = write("tree", tmp_path).read_text()
    assert "thread_reduce" in tree and not re.search('block_reduce|Viewed|sum_warp|pragma once|#include "', tree)
    assert max(map(len, tree.splitlines())) <= 120


def test_names_of_the_program_give_way_to_those_of_the_kernel(tmp_path):
    text = write("scale", tmp_path).read_text()
    assert "int grid = 1000;" in text and "dim3 grid_(4), block(256);" in text and "scale<<<grid_, block>>>" in text
    assert "float* d_y;" in text and "nullptr" in text


@pytest.mark.parametrize(
    "values, text",
    [
        (np.full(100, 0.1, np.float32), "x[i] = 0.1f;"),
        (np.arange(100.0), "x[i] = i;"),
        (np.arange(100) + 1.0, "x[i] = i + 1;"),
        (LONG, "x[i] = (i % 11 - 5) / 2.0f;"),
        (LONG + 1, "static float x[1000];  // other numbers than in Python"),
        (LONG.astype(np.float64) ** 2, "x[i] = i % 11 / 2.0;"),
        (LONG**2 + 1, "x[i] = (1 + i % 11) / 2.0f;"),
        (np.arange(100, dtype=np.int64)[::-1] % 7 - 3, "x[i] = -3 + i % 7;"),
        (np.array([np.inf, -np.inf, np.nan], np.float32), "static float x[3] = {INFINITY, -INFINITY, NAN};"),
        (np.array([True, False]), "static bool x[2] = {true, false};"),
        (np.array([-(2**63), 2**63 - 1]), "{(-9223372036854775807 - 1), 9223372036854775807};"),
        (np.array([-(2**63), 2**63 - 1] * 20), "x[i] = (-9223372036854775807 - 1) + i % 1073741825;"),
        (2**63 + np.arange(40, dtype=np.uint64)[::-1], "static unsigned long long x[40];  // other numbers than"),
        (np.array([7, 2**63], np.uint64), "{7ull, 9223372036854775808ull};"),
        (np.zeros((3, 40)), "static double x[120];  // 3 x 40, 0 everywhere"),
    ],
)
def test_arrays_are_written_out_or_filled_by_a_formula(values, text, tmp_path):
    kind = {"f": "real", "b": "bool", "i": "long long", "u": "unsigned long long"}[values.dtype.kind]
    copy = mg.kernel(f'extern "C" __global__ void copy(const {kind}* x, {kind}* y) {{ y[0] = x[0]; }}', "copy")
    program = copy.standalone(tmp_path / "copy.cu", values, zeros(1, dtype=values.dtype), grid=1, block=1)
    assert text in program.text and ("<cmath>" in program.text) == ("NAN" in text)


@pytest.mark.parametrize(
    "values, text",
    [
        ([1, np.nan, 3], "static float x[3] = {1.0f, NAN, 3.0f};"),
        ([np.nan] * 3, "static float x[3];  // 0 everywhere"),
        ([2, np.nan] * 20, "x[i] = (1 + i % 11) / 2.0f;"),
    ],
)
def test_only_memory_that_nothing_has_written_becomes_zeros(values, text, tmp_path):
    double = mg.kernel('extern "C" __global__ void twice(float* x) { x[0] *= 2; }', "twice")
    assert text in double.standalone(tmp_path / "twice.cu", np.array(values, np.float32), grid=1, block=1).text


def test_an_array_that_is_given_twice_is_one_array_on_the_gpu(tmp_path):
    x = M.copy()
    text = mg.relu["forward"].launch(24).standalone(tmp_path / "relu.cu", x, x, 24).text
    assert "relu_forward<<<grid, block>>>(d_x, d_x, n);" in text and text.count("cudaMalloc") == 1
    assert 'print("x", x, 24);' in text


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda path: scale.standalone(path.with_suffix(".c"), M), ValueError, "must end in .cu"),
        *(
            (partial(taken, name), LaunchError, f"{name} has a meaning of its own in the program: give the kernel")
            for name in ("main", "printf")
        ),
        (lambda path: scale.standalone(path, M, M), LaunchError, "give grid=, how many blocks"),
        (lambda path: scale.standalone(path, M, grid=1, block=1), LaunchError, "takes 6 arguments"),
        (lambda path: mg.softmax["held"].standalone(path, M), LaunchError, "is not launched for inputs like these"),
        (lambda path: mg.sum["tree"].standalone(path, M, TILE=2), LaunchError, "knows no TILE="),
        (
            lambda path: scale.standalone(
                path, (x := mg.tensor(M, device="sim")), x.reshape(24), None, 1, True, 3, grid=1, block=4
            ),
            LaunchError,
            "x and y share memory",
        ),
        (lambda path: turned.standalone(path, LONG, LONG[4:], zeros(1), grid=1, block=4), LaunchError, "share memory"),
        (
            lambda path: mg.matmul["wgmma"].standalone(
                path, *(mg.ones(size, 64, dtype="bfloat16", device="sim") for size in (128, 64))
            ),
            LaunchError,
            "a is a tensor map, which takes the CUDA driver to make",
        ),
    ],
)
def test_what_cannot_be_written_is_said(call, error, message, tmp_path):
    with pytest.raises(error, match=message):
        call(tmp_path / "k.cu")
    assert not list(tmp_path.iterdir())
