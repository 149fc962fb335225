"""Builds of the device `sim`: compile errors, included files, the disk cache, other compilers and processes."""

import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sim_kernels import filled, python, works

import minigrad as mg
from minigrad.devices import get
from minigrad.devices.host_compiler import find_compiler
from minigrad.errors import CompileError, KernelError
from minigrad.kernels.kernel import Kernel
from minigrad.kernels.source_kernel import kernel
from minigrad.simulator.runtime import runtime
from minigrad.source import Source


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("__global__ void k(float* y) {\n  y[0] = x;\n}", 2, ["x", "y[0] = x;"]),
        ("__global__ void k(float* y) {\n  y[0] = 1\n}", 2, ["expected", "y[0] = 1"]),
        ("__global__ void k(float* y) {\n  __shared__ int a[2],\n b;\n  y[0] = c;\n}", 4, ["c"]),
        ("__global__ void k(float* y) {\n  __shared__ float s[1 - 3]; s[0] = 1; y[0] = s[0];\n}", 2, ["'-2'"]),
        ("__global__ void k(float* y) {\n  atomicMax(y, 1.0f);\n}", 2, ["atomicMax"]),
        ("__global__ void k(float* y) {\n\n  struct { float a[9]; } b; __shfl_sync(~0u, b, 0);\n}", 3, ["at most 8 bytes", "b, 0"]),
        ('__global__ void k(int* y) {\n  asm volatile("mov.u32 %0, %%laneid;" : "=r"(y[0]));\n}', 2, ["inline PTX", "GPU"]),
        ("__global__ void k(float* y) {\n  __shared__ Nothing s[4]; s[0] = 1; y[0] = s[0];\n}", 2, ["Nothing"]),
        ('#include "helper.cuh"\nextern "C" __global__ void k(float* y) { y[0] = helper(1); }', 3, ["helper.cuh(3)", "nothing"]),
    ],
)  # fmt: skip
def test_a_compile_error_names_the_readers_file_and_line(tmp_path, text, line, words):
    (tmp_path / "helper.cuh").write_text("#pragma once\n__device__ float helper(float x) {\n  return nothing;\n}")
    source = Source(f'extern "C" {text}' if "#" not in text else text, "cuda/broken.cu", tmp_path)
    with pytest.raises(CompileError) as caught:
        Kernel(source, "k")(filled(1, np.int32 if "int* y" in text else np.float32), grid=1, block=1)
    message = str(caught.value)
    assert message.startswith(f"cuda/{'helper.cuh' if 'helper' in text else 'broken.cu'}({line}): error: ")
    assert all(word in message for word in words) and "minigrad" not in message.lower() and str(tmp_path) not in message


def test_an_error_below_several_functions_is_that_of_the_innermost_one():
    text = """__device__ float warp_sum(float v) {
    return v + __shfl_down(v, 1);
}
__device__ float block_sum(float v) { return warp_sum(v); }
__device__ float twice(float v) { return 2 * block_sum(v); }
__global__ void k(float* y) { y[0] = twice(y[0]); }
"""
    with pytest.raises(CompileError, match=r"\Ak\.cu\(2\): error: .*__shfl_down.*\n.*__shfl_down_sync"):
        mg.kernel(text, "k")(mg.zeros(1, device="sim"), grid=1, block=1)


def test_that_ptx_runs_only_on_a_gpu_is_said_once():
    lines = "".join(f'asm volatile("mov.u32 %0, %{each};" : "=r"(y[0]));\n' for each in ("laneid", "warpid"))
    with pytest.raises(CompileError) as caught:
        kernel(f'extern "C" __global__ void k(int* y) {{\n{lines}}}', "k")(filled(1, np.int32), grid=1, block=1)
    assert str(caught.value).count("inline PTX") == 1 and "laneid" in str(caught.value)


def test_a_barrier_for_the_compiler_is_no_ptx():
    barriers = 'asm volatile("" ::: "memory");', '__asm__ __volatile__ ("" : : : "memory");', 'asm("");'
    y = filled(1)
    for barrier in barriers:
        kernel(f"__global__ void k(float* y) {{ y[0] = 1; {barrier} y[0] += 2; }}", "k")(y, grid=1, block=1)
        assert y.numpy()[0] == 3


def test_a_function_that_is_defined_nowhere():
    text = '__device__ float far(float x);\nextern "C" __global__ void k(float* y) { y[0] = far(y[0]); }'
    with pytest.raises(CompileError, match="k.cu: error: 'far' is used but defined nowhere"):
        kernel(text, "k")(filled(1), grid=1, block=1)


@pytest.mark.parametrize(
    ("text", "call", "words"),
    [
        ("#include <cub/cub.cuh>\n", "cub::CTA_SYNC()", "There is no file cub/cub.cuh. Of CUDA's own headers"),
        ("#include <cuda/atomic>\n", "cuda::atomic_ref<int> r(y[0])", "libcu++ runs only on a GPU; atomicAdd"),
        ('#include "mine.cuh"\n', "mine()", "There is no file mine.cuh. Put what"),
        ("__device__ int f(int x) { return __vadd9(x, x); }\n", "f(1)", "the simulator does not have it"),
    ],
)
def test_a_name_that_is_not_here_is_told_with_the_headers_that_are_not(text, call, words):
    text = f"{text}__global__ void k(int* y) {{ {call}; }}\n__global__ void other(int* y) {{ y[0] = 5; }}"
    y = mg.tensor(np.zeros(1, np.int32), device="sim")
    with pytest.raises(CompileError) as caught:
        mg.kernel(text, "k")(y, grid=1, block=1)
    assert words in str(caught.value) and "?." not in str(caught.value)
    assert ("does not have it" in str(caught.value)) == ("__vadd9" in text)
    with pytest.warns(UserWarning, match=r"^other\.cu: left out: (there is no file|f does not compile here)"):
        mg.kernel(text, "other")(y, grid=1, block=1)
    assert y.item() == 5


@pytest.mark.parametrize(
    ("statement", "header"),
    [
        *(
            (name, "<cuda_fp16.h>")
            for name in ("half z", "__half2 z", "__float2half(1)", "__hmul2(y, y)", "hexp(y[0])")
        ),
        *((name, "<cuda_bf16.h>") for name in ("__nv_bfloat16 z", "__float2bfloat16(1)")),
        ('asm volatile(\n"mma.sync.aligned" ::)', '"matmul/mma.cuh"'),
    ],
)
def test_a_name_of_a_header_is_told_with_the_header(statement, header):
    with pytest.raises(CompileError, match=f"(?s)k.cu.1.: error: .*write #include {header}") as caught:
        mg.kernel(f"__global__ void k(float* y) {{ {statement}; }}", "k")(filled(1), grid=1, block=1)
    assert "does not have it" not in str(caught.value)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the functions are refused where glibc declares them")
@pytest.mark.parametrize("call", ["exit(3)", "abort()", "_exit(1)", "_Exit(1)", "quick_exit(1)"])
def test_a_kernel_cannot_end_python(call):
    text = f'extern "C" __global__ void k(float* y) {{\n    if (y[0] > 1) {call};\n}}'
    with pytest.raises(CompileError, match=r"k.cu\(2\): error: .* function of the host, not of a kernel"):
        mg.inspect(mg.kernel(text, "k"), np.zeros(1, "f"), grid=1, block=1)


def test_ptx_that_is_not_compiled_is_no_error():
    text = """extern "C" __global__ void k(float* y) {
#ifdef MINIGRAD_SIM
        y[0] = 1;  // asm
#else
        asm("trap;");
#endif
    }"""
    kernel(text, "k")(filled(1), grid=1, block=1)


def test_an_included_file_is_followed(tmp_path):
    source = Source('#include "a.cuh"\nextern "C" __global__ void k(float* y) { y[0] = A; }', "k.cu", tmp_path)
    sim, y, entry = get("sim"), filled(1), {}
    for number, stamp in ((1, 10**9), (2, 2 * 10**9)):
        (tmp_path / "a.cuh").write_text(f"#define A {number}")
        os.utime(tmp_path / "a.cuh", ns=(stamp, stamp))
        entry[number] = sim.build(source, {}, "k")
        assert sim.build(source, {}, "k") is entry[number]
        Kernel(source, "k")(y, grid=1, block=1)
        assert y.numpy() == number


def test_the_disk_cache_serves_several_processes_at_once(tmp_path):
    script = """
from sim_kernels import *
y = filled(32)
Kernel(Source('extern "C" __global__ void one(float* y) { y[threadIdx.x] = 1; }', "one.cu"), "one")(y, grid=1, block=32)
assert (y.numpy() == 1).all()
"""
    shutil.copy2(runtime()._name, tmp_path)  # it is one more object, which takes seconds to compile
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: python(script, MINIGRAD_CACHE=str(tmp_path)), range(2)))
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 2
    objects = sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".gch")
    assert len(objects) == 2 and objects[0].startswith("one-") and objects[1].startswith("runtime-")
    stamps = [path.stat().st_mtime_ns for path in tmp_path.iterdir()]
    assert python(script, MINIGRAD_CACHE=str(tmp_path)).returncode == 0
    assert [path.stat().st_mtime_ns for path in tmp_path.iterdir()] == stamps  # nothing was built again


def test_a_file_may_include_streams_of_cpp():
    """They are objects with constructors, which a kernel without the C++ library could not be linked with."""
    kernel("#include <iostream>\n__global__ void k(float* y) { y[0] = 3; }", "k")(y := filled(1), grid=1, block=1)
    assert y.numpy() == 3


@pytest.mark.sample(3)
@pytest.mark.skipif(find_compiler().is_clang, reason="only GCC compiles the header ahead")
@pytest.mark.parametrize(
    "damage", [lambda b: b[:200], lambda b: b[:-100], lambda b: b[: len(b) // 2] + bytes(len(b) // 2)]
)
def test_a_damaged_compiled_header_is_made_again(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    sizes = []
    for value in (1, 2, 3):
        text = (
            f'extern "C" __global__ void k(float* y) {{ y[0] = {value}; }}  // {tmp_path}'  # compiled by no other test
        )
        kernel(text, "k")(y := filled(1), grid=1, block=1)
        assert y.numpy() == value
        for header in tmp_path.glob("*.gch"):
            sizes.append(header.stat().st_size)
            if value == 1:
                header.write_bytes(damage(header.read_bytes()))
    # there after the first build, dropped by the second, and there again
    assert len(sizes) == 2 and sizes[1] == pytest.approx(sizes[0], rel=0.01)


ELSEWHERE = {
    "portable": {"MINIGRAD_PORTABLE": "1"},
    "clang": {"MINIGRAD_CXX": "clang++"},
    "zig": {"MINIGRAD_CXX": f"{sys.executable} -m ziglang c++"},
}
MISSING = {"clang": not shutil.which("clang++"), "zig": not find_spec("ziglang"), "portable": False}


@pytest.mark.soak
@pytest.mark.parametrize(
    "where", [pytest.param(w, marks=pytest.mark.skipif(MISSING[w], reason=f"no {w}")) for w in ELSEWHERE]
)
def test_elsewhere(where):
    """The tests that depend on the compiler or on the context switch, with another one."""
    script = f"""
import pytest, sys
words = "barriers or shuffle or votes or lock or not_end or ctrl_c or local_memory"
if {"MINIGRAD_CXX" in ELSEWHERE[where]}:
    words += " or shared or atomics or parameters or bounds or null or misaligned or division or assert or compile_error or mathematics"
files = [{str(Path(__file__).parent)!r} + f"/test_simulator{{which}}.py" for which in ("", "_faults", "_builds")]
sys.exit(pytest.main(["-q", "-x", "-c", "/dev/null", "-p", "no:nbval", "-p", "no:cacheprovider", *files, "-k", words]))
"""
    done = python(script, **ELSEWHERE[where])
    assert done.returncode == 0, done.stdout + done.stderr


def test_stacks_of_the_portable_runtime_are_known_to_the_microscope():
    """A thread has more words there than fit into a page at every height."""
    script = """
import minigrad as mg
text = "__global__ void k(float* y) { y[threadIdx.x] = blockIdx.x; __syncthreads(); y[threadIdx.x] += threadIdx.y; }"
print(mg.inspect(text, mg.zeros(256, device="sim"), grid=1, block=256).problems)
"""
    done = python(script, MINIGRAD_PORTABLE="1")
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.soak
@pytest.mark.skipif(sys.platform == "darwin" or not shutil.which("g++"), reason="needs GCC's library as an archive")
def test_the_runtime_brings_no_cpp_library(tmp_path):
    """Otherwise later libraries would find half of their exception handling in the runtime, whose symbols are global."""
    text = """
#include <exception>
#include <stdexcept>
extern "C" int caught() {
    try { throw std::runtime_error("thrown"); } catch (...) { return std::current_exception() != nullptr; }
}
"""
    (tmp_path / "later.cpp").write_text(text)
    later = tmp_path / "later.so"
    subprocess.run(["g++", "-shared", "-fPIC", str(tmp_path / "later.cpp"), "-o", str(later)], check=True)
    script = f"""
import ctypes
from minigrad.simulator.runtime import runtime
library = runtime()
print(ctypes.CDLL({str(later)!r}).caught())
"""
    done = python(script, MINIGRAD_CXX="g++ -static-libstdc++", MINIGRAD_CACHE=str(tmp_path))
    assert done.stdout == "1\n", done.stderr


def test_a_forked_child_can_launch():
    works("two_blocks" if get("sim").workers > 1 else "barriers", filled(32, np.int32), grid=2, block=1)
    script = """
import os
from test_simulator import *
from test_simulator_faults import test_assert
import warnings; warnings.simplefilter("ignore")
test_barriers(1024)
child = os.fork()
if child == 0:
    test_barriers(1024); test_every_thread_of_every_block_runs_once((7,), (1024,)); test_assert()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
test_barriers(1024)
"""
    done = python(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "__shared__ cg::block_tile_memory<128> m; cg::this_thread_block(m);",
            "tiles of more than 32 threads run only",
        ),
        ("cg::this_cluster().sync();", "clusters of blocks run only on a GPU"),
        (
            "auto token = block.barrier_arrive(); block.barrier_wait(token);",
            "a barrier in two steps runs only on a GPU",
        ),
        ("__shared__ float s[4] = {};", "a __shared__ variable has no first value"),
        ("int n = x[0]; __shared__ float s[n];", "the extent of a __shared__ array must be a positive constant"),
        ("struct Q { static __shared__ float s[4]; };", "a member of a class is not __shared__"),
    ],
)
def test_what_does_not_compile_here_is_said_alone(code, words):
    text = f"""#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(float* x) {{ auto block = cg::this_thread_block(); {code} }}"""
    with pytest.raises(CompileError, match=words) as caught:
        mg.kernel(text, "k")(mg.zeros(1, device="sim"), grid=1, block=32)
    assert str(caught.value).count("error:") == 1 and "minigrad_" not in str(caught.value)


def test_one_thread_of_a_group_is_asked():
    text = """#include <cooperative_groups.h>
__global__ void k(float* x) {
    auto tile = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
    cooperative_groups::invoke_one(tile, [&](float a) { x[threadIdx.x / 32] += a; }, 2.5f);
    float old = cooperative_groups::invoke_one_broadcast(tile, [&] { return atomicAdd(&x[2], 1.0f); });
    atomicAdd(&x[3], old);
}"""
    x = mg.zeros(4, device="sim")
    mg.kernel(text, "k")(x, grid=1, block=64)
    assert x.numpy().tolist() == [2.5, 2.5, 2, 32]


def test_vectors_are_added_number_by_number():
    text = """__global__ void k(float2* two, float4* four, float* y) {
    float2 old = atomicAdd(two, make_float2(1, 2));
    y[threadIdx.x] = old.y + atomicAdd_block(four, make_float4(1, 2, 3, 4)).w;
}"""
    two, four, y = mg.zeros(2, device="sim"), mg.zeros(4, device="sim"), mg.zeros(64, device="sim")
    mg.kernel(text, "k")(two, four, y, grid=1, block=64)
    assert two.numpy().tolist() == [64, 128] and four.numpy().tolist() == [64, 128, 192, 256]
    assert sorted(y.numpy().tolist()) == [6 * i for i in range(64)]


LOCAL_ARRAYS = """#include <cuda_fp16.h>
template <int N> struct Size { static constexpr int of = N; };
struct Pair : Size<sizeof(int)> { half first[1]; __device__ int sum() const { char c[1] = {1}, d[2] = {2}; return c[0] + d[0]; } char last[2]; };
struct Two { int a, b; };
template <class T> __device__ float second(const float* x, Pair p, int n) {
    struct { short low[1]; short high[3]; } both;
    char one[1] = {1};
    __shared__ int last \\
[1]; last[0] = 0;
    T h[4];
    unsigned char bytes[8] = {0, 0, 0, 0, 0, 0, 0, 64};
    for (int j = 0; j < 4; ++j) h[j] = x[j];
    int j = 3;
    do h[j] = x[j] + n; while (--j > 1);
    switch (n) { case 0: h[0] = 0; break; default: h[0] = x[0]; }
again: one[0] = 1;
    switch (n) { case 7: goto again; default: break; }
    const auto [a, b] = Two{1, 2};
    switch (n) {
        case 5: goto end;
        default: h[0] = n;
    }
end: h[0] = h[0];
    return __high2float(((half2*)h)[1]) + *(double*)bytes + p.sum() * one[0] + sizeof both + sizeof p + a + b;
}
extern "C" __global__ void k(const float* x, float* y, int n) { y[0] = second<half>(x, Pair(), n); }
"""


def test_arrays_of_a_thread_may_be_read_as_vectors():
    """And members of structs stay where they are."""
    y = mg.zeros(1, device="sim")
    x = mg.tensor(np.arange(4, dtype=np.float32), device="sim")
    kernel(LOCAL_ARRAYS, "k")(x, y, 5, grid=1, block=1)
    assert y.numpy()[0] == (3 + 5) + 2 + 3 + 8 + 4 + 3
    assert mg.inspect(LOCAL_ARRAYS, x, y, 5, grid=1, block=1).ok


def test_an_odd_element_of_an_array_of_a_thread_begins_no_vector():
    text = LOCAL_ARRAYS.replace("((half2*)h)[1]", "*(half2*)(h + n)")
    x, y = mg.zeros(8, device="sim"), mg.zeros(1, device="sim")
    kernel(text, "k")(x, y, 2, grid=1, block=1)
    with pytest.raises(KernelError, match="misaligned|must begin at a multiple of 4 bytes"):
        kernel(text, "k")(x, y, 1, grid=1, block=1)


def test_an_element_right_behind_a_label_is_no_declaration():
    text = """__global__ void k(float* y) {
    int i = threadIdx.x;
again:
    y[i] += 1;
    switch (i) { case 0: y[i] += 2; break; default: y[i] *= 2; }
    if (y[i] < 5) goto again;
}"""
    y = mg.zeros(2, device="sim")
    mg.kernel(text, "k")(y, grid=1, block=2)
    assert y.numpy().tolist() == [6, 6]
    assert mg.inspect(mg.kernel(text, "k"), y, grid=1, block=2).ok
