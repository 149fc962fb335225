"""Whole files as people have them: host code, C++ names, templates, aliases of types, integers of every width."""

import subprocess
import time

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.cuda.toolkit import find_nvcc
from minigrad.devices.unit import unit
from minigrad.errors import LaunchError
from minigrad.simulator.translate import translate
from minigrad.source import Source

FILE = """#include <cstdint>
#include <cstdio>
#include <cublas_v2.h>
#include "helper_cuda.h"
#define CHECK(call) do { cudaError_t error = (call); \\
        if (error != cudaSuccess) exit(1); } while (0)
#define DEVICE __device__ __forceinline__

typedef float real_t;
using index_t = unsigned long;
enum class Mode { PLAIN, TWICE };
static int launches = 0;
const int FACTOR = (1 << 1), SHIFTS[2] = {1, 2};
const char* name_of(int device) { return cudaName(device); }
cublasHandle_t handle;
extern cudaDeviceProp chip;
[[nodiscard]] cudaError_t copy(float* to, const float* from) { return cudaSuccess; }

template <typename T> struct Twice { __device__ T operator()(T x) const { return x * FACTOR; } };
DEVICE real_t twice(real_t x) { return Twice<real_t>()(x); }
void fill(float* x, int n);
void fill(float* x, int n) { for (int i = 0; i < n; ++i) x[i] = i; }

static __global__ void scale(const real_t* __restrict x, real_t *__restrict__ y, index_t n);

static __global__ void scale(const real_t* __restrict x, real_t *__restrict__ y, index_t n) {
    index_t i = blockIdx.x * (index_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = twice(x[i]);  // int main() { in a comment
}

namespace rows {
template <typename T, int BLOCK = 64>
__global__ void
__launch_bounds__((BLOCK * 2) / (1 + 1), 1)
row_sum(const T* x, T* y, int n) {
    __shared__ T s[BLOCK];
    s[threadIdx.x] = threadIdx.x < n ? x[blockIdx.x * n + threadIdx.x] : T(0);
    __syncthreads();
    for (int k = BLOCK / 2; k; k /= 2) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
}  // namespace rows

void __global__ last(uint16_t* y) { y[0] = INT_MAX > 0 ? 7 : 0; }

int main(int argc, char** argv) {
    float *x;
    CHECK(cudaMalloc(&x, 100));
    cublasCreate(&handle);
    scale<<<1, 64>>>(x, x, 25);
    rows::row_sum<float><<<1, 64>>>(x, x, 25);
    printf("%d launches\\n", launches);
}
"""

pytestmark = pytest.mark.filterwarnings("ignore:.*left out")


def numbers(count, device, dtype=np.float32):
    return mg.tensor(np.arange(count).astype(dtype), device=device)


def test_a_launch_asks_for_more_shared_memory_than_every_gpu_has(kernel_device):
    text = """__global__ void reverse(const float* x, float* y, int n) { extern __shared__ float s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = s[n - 1 - i]; }"""
    x = np.arange(16_384, dtype=np.float32)
    y = mg.zeros(x.size, device=kernel_device)
    mg.kernel(text, "reverse")(mg.tensor(x, device=kernel_device), y, x.size, grid=1, block=64, shared=x.nbytes)
    assert np.array_equal(y.numpy(), x[::-1])
    assert mg.inspect(text, x, np.zeros_like(x), x.size, grid=1, block=64, shared=x.nbytes).ok
    most = "are more than 49152 bytes, the most that a kernel may declare, and an adjoint declares all this; launch"
    with pytest.raises(LaunchError, match=f"shared=65536 and as much for its gradient {most}"):
        mg.adjoint(text).vjp(x, x.copy(), x.size, dy=[x], grid=1, block=64, shared=x.nbytes)


def test_a_file_as_it_is_runs(tmp_path, kernel_device):
    path = tmp_path / "whole.cu"
    path.write_text(FILE)
    x, y = numbers(100, kernel_device), numbers(100, kernel_device)
    mg.kernel(path, "scale")(x, y, 100, grid=2, block=64)
    assert (y.numpy() == 2 * np.arange(100)).all()
    flag = numbers(1, kernel_device, np.uint16)
    mg.kernel(path, "last")(flag, grid=1, block=1)
    assert flag.item() == 7


@pytest.mark.parametrize(
    ("name", "dtype", "block"),
    [
        ("row_sum<float>", np.float32, 64),
        ("row_sum< double , 32 >", np.float64, 32),
        ("row_sum<int,128>", np.int32, 128),
    ],
)
def test_a_template_is_named_with_its_arguments(name, dtype, block, kernel_device):
    x, y = numbers(75, kernel_device, dtype), numbers(3, kernel_device, dtype)
    kernel = mg.kernel(FILE, name)
    kernel(x, y, 25, grid=3, block=block)
    assert y.numpy().tolist() == x.numpy().reshape(3, 25).sum(1).tolist()
    assert kernel.text.startswith("template <typename T, int BLOCK = 64>")  # as the reader wrote it
    record = mg.inspect(kernel, x.to("sim"), y.to("sim"), 25, grid=3, block=block)
    assert record.problems == []


def test_two_instances_are_two_programs():
    text = "template <int N> __global__ void fill(int* y) { y[threadIdx.x] = N; }"
    y = numbers(2, "sim", np.int32)
    for value in (5, 6):
        mg.kernel(text, f"fill<{value}>")(y, grid=1, block=2)
        assert y.numpy().tolist() == [value, value]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "row_sum",
            r"row_sum is a template of <typename T, int BLOCK = 64>; .* 'row_sum<float>', which line 54 launches\.",
        ),
        ("row_sum<float, 1, 2>", "gives it 3 of 2 arguments"),
        ("scale<3>", r"scale is no template of scale\.cu; call it 'scale'\."),
        ("nothing", "has no kernel 'nothing'; it defines scale, row_sum, last"),
    ],
)
def test_a_name_that_does_not_fit_is_rejected(name, message):
    with pytest.raises(ValueError, match=message):
        mg.kernel(FILE, name)


def test_host_code_is_what_only_the_host_can_call():
    with pytest.warns(
        UserWarning,
        match=r"^scale.cu: code for the host is left out: launches, name_of, handle, chip, copy, fill, main\.$",
    ):
        source = mg.kernel(FILE, "scale").source
    assert unit(source).split('#line 5 "scale.cu"\n')[1].count("\n") == FILE.count("\n") - 4  # lines keep their numbers
    assert Source(unit(source), "again.cu").host_names == []


def test_an_error_names_the_line_of_the_file():
    with pytest.raises(mg.errors.CompileError, match=r"scale\.cu\(28\): error: .*missing"):
        mg.kernel(FILE.replace("twice(x[i])", "missing(x[i])"), "scale")(*[numbers(4, "sim")] * 2, 4, grid=1, block=4)


def test_kernels_get_their_c_names():
    units = [unit(Source(FILE, "whole.cu", template=name)) for name in ("", "row_sum<float>")]
    assert [text.count('extern "C" ') for text in units] == [3, 4]  # a declaration of scale, scale, last; and row_sum
    assert "static" not in units[0].split("extern", 1)[1].split("(")[0]


@pytest.mark.skipif(find_nvcc() is None, reason="there is no nvcc")
def test_nvcc_compiles_what_the_simulator_does(tmp_path):
    (tmp_path / "unit.cu").write_text(unit(Source(FILE, "whole.cu", template="row_sum<float>")))
    command = [str(find_nvcc()), "-cubin", "-arch=sm_90", "-std=c++17", "-o", "unit.cubin", "unit.cu"]
    subprocess.run(command, cwd=tmp_path, check=True)
    names = (tmp_path / "unit.cubin").read_bytes()
    assert all(f".text.{name}\0".encode() in names for name in ("scale", "last", "row_sum"))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("type_", "dtype", "values"),
    [
        ("char", np.int8, (-128, 127)),
        ("signed char", np.int8, (-128, 127)),
        ("int8_t", np.int8, (-128, 127)),
        ("uint8_t", np.uint8, (0, 255)),
        ("short", np.int16, (-(2**15), 2**15 - 1)),
        ("short int", np.int16, (-5, 5)),
        ("unsigned short", np.uint16, (0, 2**16 - 1)),
        ("uint16_t", np.uint16, (0, 2**16 - 1)),
        ("std::int32_t", np.int32, (-(2**31), 2**31 - 1)),
        ("uint", np.uint32, (0, 2**32 - 1)),
        ("unsigned int", np.uint32, (0, 2**32 - 1)),
        ("long", np.int64, (-(2**63), 2**63 - 1)),
        ("long long int", np.int64, (-(2**63), 2**63 - 1)),
        ("int64_t", np.int64, (-(2**63), 2**63 - 1)),
        ("unsigned long", np.uint64, (0, 2**64 - 1)),
        ("size_t", np.uint64, (0, 2**64 - 1)),
    ],
)
def test_integers_under_every_name(type_, dtype, values):
    y = mg.tensor(np.zeros(1, dtype), device="sim")
    kernel = mg.kernel(f"#include <cstdint>\n__global__ void k({type_}* y, {type_} v) {{ y[0] = v; }}", "k")
    for value in values:
        kernel(y, value, grid=1, block=1)
        assert y.dtype == dtype and y.item() == value
    for outside in (values[0] - 1, np.iinfo(dtype).max + 1):
        if not np.iinfo(dtype).min <= outside <= np.iinfo(dtype).max:
            with pytest.raises(LaunchError, match=rf"{outside} does not fit into"):
                kernel(y, outside, grid=1, block=1)


def test_integers_of_std_need_no_header(kernel_device):
    x = mg.tensor(np.zeros(2, np.int64), device=kernel_device)
    text = "__global__ void k(std::int64_t* x) { x[0] = sizeof(std::uint8_t); x[1] = sizeof(std::int64_t); }"
    mg.kernel(text, "k")(x, grid=1, block=1)
    assert x.numpy().tolist() == [1, 8]


@pytest.mark.parametrize(
    "alias",
    [
        "typedef float REAL;",
        "using REAL = float;",
        "#define REAL float",
        "#define F float\ntypedef F REAL;",
        "#include <cmath>\ntemplate <class T> using Same = T;\nusing REAL = Same<float>;",
        "template <class T> struct Of { using type = T; };\ntemplate <class T> using To = typename Of<T>::type;\n"
        "typedef To<float> REAL;",
        "template <class T> struct Of { using type = T; };\nusing REAL = Of<float>::type;",
        "template <class T> struct Of { using type = T; };\ntypedef typename Of<float>::type REAL;",
    ],
)
def test_an_alias_of_a_type(alias):
    y = numbers(1, "sim")
    mg.kernel(f"{alias}\n__global__ void k(REAL* y, const REAL v) {{ y[0] = v; }}", "k")(y, 2.5, grid=1, block=1)
    assert y.item() == 2.5


@pytest.mark.parametrize("head", ["", "template <class R, int N>\n"])
def test_rows_of_a_type_by_another_name(head):
    text = (
        "typedef float R;\nconst int N = 4;\n" * (not head) + f"{head}__global__ void k(const R (*x)[N], R y[][N]) {{"
    )
    x, y = numbers(8, "sim").reshape(2, 4), mg.zeros(2, 4, device="sim")
    mg.kernel(f"{text} y[threadIdx.x][0] = x[threadIdx.x][3]; }}", "k<float, 4>" if head else "k")(
        x, y, grid=1, block=2
    )
    assert y.numpy()[:, 0].tolist() == [3, 7]


def test_rows_of_a_const_type_by_another_name_are_const():
    text = "typedef const double cd; typedef double d; __global__ void k(cd (*x)[2], d (*y)[2], const d (*z)[2]) {}"
    shown = ["const double[2]* x", "double[2]* y", "const double[2]* z"]
    assert [*map(str, mg.kernel(text, "k").signature.params)] == shown


@pytest.mark.parametrize(
    "value", ['R"(\n__global__ void k(float* y) { y[0] = "a"; }\n)"', 'uR"CU(don\'t " } )" )CU"', "10'000"]
)
def test_kernels_and_quotes_in_raw_strings_and_numbers_are_none(value):
    text = f"const auto text = {value}; __global__ void k(float* y) {{ y[0] = 3'0 / 10; }}\n"
    mg.kernel(text, "k")(y := numbers(1, "sim"), grid=1, block=1)
    assert y.item() == 3 and list(Source(text, "k.cu").kernels) == ["k"]


def test_digits_in_groups_are_numbers_of_a_parameter():
    text = "struct S { float q[1'0]; }; __global__ void k(S s, float* y) { y[0] = s.q[9]; }"
    mg.kernel(text, "k")({"q": np.arange(10)}, y := numbers(1, "sim"), grid=1, block=1)
    assert y.item() == 9


def test_a_text_may_define_real_itself():
    y = numbers(1, "sim", np.float64)
    mg.kernel("typedef double real;\n__global__ void k(real* y) { y[0] = 0.1; }", "k")(y, grid=1, block=1)
    assert y.item() == 0.1


def test_three_floats_at_a_time():
    x, y = numbers(6, "sim"), numbers(2, "sim")
    text = "__global__ void k(const float3* x, float y[]) { int i = threadIdx.x; y[i] = x[i].x * x[i].z; }"
    mg.kernel(text, "k")(x, y, grid=1, block=2)
    assert y.numpy().tolist() == [0, 15]
    with pytest.raises(LaunchError, match="multiple of 3"):
        mg.kernel(text, "k")(numbers(4, "sim"), y, grid=1, block=2)


def test_a_pointer_to_pointers_is_rejected_by_its_type():
    with pytest.raises(TypeError, match=r"pointers to float\* are not known here"):
        mg.kernel("__global__ void k(float** x) { x[0][0] = 1; }", "k")(numbers(4, "sim"), grid=1, block=1)


def test_a_function_of_the_host_may_have_the_name_of_the_kernel(kernel_device):
    text = """template <int n> __global__ void k(float* x) { x[0] = n; }
extern "C" void k(float* x, int n) { n == 4 ? k<4><<<1, 1>>>(x) : k<2><<<1, 1>>>(x); }"""
    x = mg.tensor(np.zeros(1, np.float32), device=kernel_device)
    mg.kernel(text, "k<4>")(x, grid=1, block=1)
    assert x.numpy().tolist() == [4]


def test_a_file_of_thousands_of_functions_is_read_in_time_proportional_to_its_length():
    text = "".join(f"__device__ float f{n}(float x) {{ return {n} * x; }}\n" for n in range(2000))
    start = time.process_time()
    assert "f1999" in translate(Source(text, "k.cu")).text
    assert time.process_time() - start < 2
