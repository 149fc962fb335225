"""Headers of a project: sim, nvcc and NVRTC are given the same of them."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.cuda import compiler
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.errors import CompileError

pytestmark = pytest.mark.filterwarnings("ignore:.*left out")


def numbers(count, device="sim", dtype=np.float32):
    return mg.tensor(np.arange(count).astype(dtype), device=device)


HEADERS = {
    "main.cu": """#include <vector>
#include "lib/scale.h"
#ifdef NEVER
#include <nowhere.h>
#endif
__global__ void scale(const float* x, float* y) { y[threadIdx.x] = times(x[threadIdx.x]); }
__global__ void other(float* y) { y[0] = defined_elsewhere(y[0]); }
""",
    "lib/scale.h": """#pragma once
#include <cublasXt.h>
#include "../config.h"
__global__ void scale(const float* x, float* y);
__device__ __nv_bfloat16 brought_by_cublas(half);
std::vector<float> scale_on_the_host(const std::vector<float>& x) { return x; }
__device__ float defined_elsewhere(float);
__device__ int wrong() { return not_here(1); }
__device__ float times(float x) { return std::max(FACTOR * x, 0.f); }
""",
    "config.h": "#pragma once\n#define FACTOR 3\n",
}


def headers_of_a_project(folder):
    for file, text in HEADERS.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    return folder / "main.cu"


def test_headers_are_read_as_the_file_is(tmp_path, kernel_device):
    """Functions of the host, headers that are missing, declarations of the kernel, and what does not compile."""
    x, y = numbers(4, kernel_device), numbers(4, kernel_device)
    mg.kernel(headers_of_a_project(tmp_path), "scale")(x, y, grid=1, block=4)
    assert y.numpy().tolist() == [0, 3, 6, 9]


@pytest.mark.filterwarnings("default:.*left out")
def test_a_missing_header_is_named_once_at_the_readers_line(tmp_path):
    """Neither the adjoint nor the kernel as it was read includes it, and no line of minigrad is shown."""
    file = tmp_path / "square.cu"
    file.write_text(
        '#include <torch/extension.h>\n#include "timer.h"\n#include <cmath>\n#include "helper_math.h"\n'
        "__global__ void square(const float* x, float* y) { y[threadIdx.x] = twice(x[threadIdx.x]) * x[threadIdx.x]; }"
    )
    (tmp_path / "helper_math.h").write_text("inline __device__ float twice(float x) { return 2 * x; }")
    x = np.ones(4, np.float32)
    with pytest.warns(UserWarning) as said:
        made = mg.adjoint(file)
        (dx,) = made.vjp(x, x.copy(), dy=[x], grid=1, block=4)
    assert dx.tolist() == [4, 4, 4, 4]
    found = [line for line in made.source.splitlines() if "#include" in line]
    assert found == ["#include <cmath>", '#include "helper_math.h"']
    missing = "square.cu: left out: there is no file torch/extension.h, there is no file timer.h."
    assert [(str(each.message), each.filename) for each in said] == [(missing, __file__)]


@pytest.mark.skipif(find_nvcc() is None, reason="there is no nvcc")
def test_nvcc_is_given_headers_as_the_simulator_is(tmp_path):
    source = mg.kernel(headers_of_a_project(tmp_path), "scale").source
    image = compiler.cubin(source, {}, "sm_90")
    assert b".text.scale\0" in image and b".text.other\0" not in image


@pytest.mark.skipif(find_nvcc() is None, reason="there is no nvcc")
def test_an_error_of_nvcc_has_its_line_behind_a_branch_that_is_not_compiled(tmp_path):
    file = headers_of_a_project(tmp_path)
    file.write_text(HEADERS["main.cu"].replace("times(", "twice("))
    with pytest.raises(mg.errors.CompileError, match=r"main\.cu\(6\): error: .*twice"):
        compiler.cubin(mg.kernel(file, "scale").source, {}, "sm_90")
    with pytest.raises(mg.errors.CompileError, match=r"main\.cu\(6\): error: .*twice"):
        mg.kernel(file, "scale")(numbers(4), numbers(4), grid=1, block=4)


@pytest.mark.skipif(find_nvcc() is None, reason="there is no nvcc")
def test_an_item_is_left_out_behind_which_nvcc_understands_nothing():
    text = """__device__ inline at::Half atomicAdd(at::Half* to, at::Half value) { return *to; }
    __global__ void k(float* x) {
        # pragma unroll
        for (int i = 0; i < 2; i++) {
            x[i] = 1;
        }
    }"""
    assert b".text.k\0" in compiler.cubin(mg.kernel(text, "k").source, {}, "sm_90")


@pytest.mark.parametrize(("newer", "value"), [("y[0] = 1;", 1), ('asm("trap;");', 2)])
def test_sim_is_of_the_newest_architecture_that_needs_no_ptx(newer, value):
    text = f"__global__ void k(float* y) {{\n#if __CUDA_ARCH__ >= 800\n{newer}\n#else\ny[0] = 2;\n#endif\n}}"
    mg.kernel(text, "k")(y := numbers(1), grid=1, block=1)
    assert y.numpy().tolist() == [value]


def test_an_error_is_told_once_where_an_architecture_is_asked_for():
    text = "__global__ void k(float* y) {\n#if __CUDA_ARCH__ >= 800\ny[0] = 1;\n#endif\ny[0] = missing;\n}"
    with pytest.raises(mg.errors.CompileError, match=r"^k\.cu\(5\): error: .*missing"):
        mg.kernel(text, "k")(numbers(1), grid=1, block=1)


def test_a_kernel_under_a_condition_that_does_not_hold_is_told_so():
    text = "#ifdef CUDA_WITH_K\n__global__ void k(float* y) { y[0] = 1; }\n#endif"
    with pytest.raises(mg.errors.CompileError, match=r"k\.cu: k stands under an #if .* defines="):
        mg.kernel(text, "k")(numbers(1), grid=1, block=1)
    mg.kernel(text, "k", defines={"CUDA_WITH_K": 1})(y := numbers(1), grid=1, block=1)
    assert y.numpy().tolist() == [1]


def test_headers_in_a_folder_beside_the_file_are_found(tmp_path, kernel_device):
    (tmp_path / "include").mkdir()
    (tmp_path / "include/utils.cuh").write_text("#define CEIL(a, b) (((a) + (b) - 1) / (b))\n")
    (tmp_path / "k.cu").write_text('#include "utils.cuh"\n__global__ void k(float* x) { x[0] = CEIL(7, 2); }\n')
    x = numbers(1, kernel_device)
    mg.kernel(tmp_path / "k.cu", "k")(x, grid=1, block=1)
    assert x.numpy().tolist() == [4]


def test_a_kernel_is_looked_for_once_in_headers_that_many_include(tmp_path, kernel_device):
    """Of 2 ** 40 ways through them each would take another look."""
    for n in range(40):
        (tmp_path / f"{n}a.h").write_text(f'#pragma once\n#include "{n + 1}a.h"\n#include "{n + 1}b.h"\n')
        (tmp_path / f"{n}b.h").write_text(f'#pragma once\n#include "{n + 1}a.h"\n#include "{n + 1}b.h"\n')
    (tmp_path / "kernel.h").write_text("__global__ void k(float* x) { x[0] = 7; }\n")
    (tmp_path / "main.cu").write_text('#include "0a.h"\n#include "kernel.h"\n')
    mg.kernel(tmp_path / "main.cu", "k")(x := numbers(1, kernel_device), grid=1, block=1)
    assert x.numpy().tolist() == [7]
    with pytest.raises(ValueError, match=r"main[.]cu has no kernel 'other'"):
        mg.kernel(tmp_path / "main.cu", "other")


def test_a_function_with_a_head_and_two_bodies_under_conditions_is_one(tmp_path, kernel_device):
    """The second body has no head of its own, and would be a function of the host."""
    (tmp_path / "map.h").write_text("""#define HAS(x) HAS_##x()
#define HAS_EXCEPTIONS() 0
template <typename E>
inline
#if HAS(EXCEPTIONS)
void failed(E e) { throw e; }
#else
void failed(E) { abort(); }
#endif
template <typename T> struct Twice { __device__ T operator()(T x) const { return 2 * x; } };
""")
    (tmp_path / "k.cu").write_text('#include "map.h"\n__global__ void k(float* x) { x[0] = Twice<int>()(3); }\n')
    x = numbers(1, kernel_device)
    mg.kernel(tmp_path / "k.cu", "k")(x, grid=1, block=1)
    assert x.numpy().tolist() == [6]


def test_a_function_of_the_host_with_two_heads_and_one_body_leaves_its_branches(kernel_device):
    text = """#ifdef UNDERSCORE
double second_()
#else
double second()
#endif
{
#define FACTOR 3
    return time(0);
}
__global__ void k(float* x) { x[0] = FACTOR; }
"""
    x = numbers(1, kernel_device)
    mg.kernel(text, "k")(x, grid=1, block=1)
    assert x.numpy().tolist() == [3]


def test_a_file_for_nvcc_and_another_compiler_is_read_as_nvcc_reads_it():
    text = """#ifdef __NVCC__
inline __host__ __device__ void operator+=(float2& a, const float2& b) { a.x += b.x; a.y += b.y; }
#else
#include <hip/hip_runtime.h>
#endif
__global__ void k(float2* x) { x[0] += x[1]; }
"""
    x = mg.tensor(np.array([1, 2, 30, 40], np.float32), device="sim")
    mg.kernel(text, "k")(x, grid=1, block=1)
    assert x.numpy().tolist() == [31, 42, 30, 40]
    (dx,) = mg.adjoint(text, "k").vjp(x, dy=[x], grid=1, block=1)
    assert dx.numpy().tolist() == [31, 42, 61, 82]


def test_numbers_of_cufft(kernel_device):
    head = "#include <cufft.h>\n__global__ void k(cufftComplex* z, const cufftReal* x)"
    text = f"{head} {{ z[threadIdx.x].y = x[threadIdx.x]; }}"
    z = numbers(4, kernel_device)
    mg.kernel(text, "k")(z, numbers(2, kernel_device), grid=1, block=2)
    assert z.numpy().tolist() == [0, 0, 2, 1]


@pytest.mark.parametrize(
    "head",
    [
        "#define IN /* read */\n#define KEPT",
        "#ifdef _MSC_VER\n#define KEPT __restrict\n#elif defined(__GNUC__)\n#define KEPT __restrict__\n#else\n"
        "#define KEPT\n#endif\n#define IN",
    ],
)
def test_macros_that_stand_for_nothing_in_a_parameter(head, kernel_device):
    text = f"{head}\nstruct P {{ IN float a; }};\n__global__ void k(IN const float* KEPT x, float* KEPT y, IN P p) {{"
    x, y = numbers(4, kernel_device), numbers(4, kernel_device)
    mg.kernel(f"{text} y[threadIdx.x] = p.a * x[threadIdx.x]; }}", "k")(x, y, {"a": 3}, grid=1, block=4)
    assert y.numpy().tolist() == [0, 3, 6, 9]


@pytest.mark.parametrize("ahead", ["#define n\n#undef n\n", "#define n restrict\n#undef n\n", "#define UNUSED\n", ""])
def test_a_parameter_may_have_the_name_of_a_macro_that_stands_for_nothing(ahead):
    unused = "UNUSED" if "UNUSED" in ahead else ""
    text = f"{ahead}__global__ void k(const double* x, double* y, int n {unused}) {{ y[0] = n * x[0]; }}"
    text += "\n#define n" * (not ahead)
    y = mg.zeros(1, dtype="float64", device="sim")
    mg.kernel(text, "k")(mg.ones(1, dtype="float64", device="sim"), y, 3, grid=1, block=1)
    assert y.item() == 3 and [p.name for p in mg.kernel(text, "k").signature.params] == ["x", "y", "n"]
    if ahead:
        (dx,) = mg.adjoint(text, "k").vjp(np.ones(1), np.zeros(1), 3, dy=[np.ones(1)], grid=1, block=1)
        assert dx == 3


def test_what_is_behind_a_guard_with_an_underscore_is_known():
    text = """#ifndef _SQUARE_H
#define _SQUARE_H
#define SINGLE 0
#if SINGLE
#define real float
#else
#define real double
#endif
__global__ void square(const real* x, real* y) { y[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x]; }
#endif  // _SQUARE_H
"""
    assert mg.inspect(text, np.ones(4), np.zeros(4), grid=1, block=4).ok
    with pytest.raises(TypeError, match=r"argument 1 \(const double\* x\) is float64; got float32"):
        mg.inspect(text, *np.zeros((2, 4), np.float32), grid=1, block=4)


def test_a_macro_of_a_missing_header_ahead_of_the_kernel_is_named():
    text = '#include "lost.h"\nREGISTER(k)\n__global__ void k(float* y) { y[0] = 1; }'
    with pytest.raises(CompileError, match=r"(?s)k.cu\(2\): .*REGISTER\(k\).*There is no file lost.h"):
        mg.kernel(text)(mg.zeros(1, device="sim"), grid=1, block=1)


@pytest.mark.parametrize("end", ["", "#ifdef UNKNOWN\n#endif"])
@pytest.mark.parametrize(
    ("ahead", "behind"),
    [
        ("#ifndef __CUDACC__\n#define __CUDACC__\n#define __global__\n#define __device__\n#endif", ""),
        ("#ifndef __CUDA_ARCH__\n#define __CUDA_ARCH__\n#else", "#endif"),
    ],
)
def test_a_macro_of_the_compiler_that_the_text_defines_guards_nothing(ahead, behind, end):
    text = f"{ahead}\n__global__ void k(const double* x, double* y) {{ y[0] = 3 * x[0]; }}\n{behind}\n{end}"
    assert [*mg.kernel(text).source.kernels] == ["k"]
