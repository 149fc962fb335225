"""Files as people have them: conditions, headers that are missing, what does not compile here, types by value."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.devices.cuda import compiler
from minigrad.devices.unit import unit
from minigrad.errors import LaunchError

pytestmark = pytest.mark.filterwarnings("ignore:.*left out")


def numbers(count, device="sim", dtype=np.float32):
    return mg.tensor(np.arange(count).astype(dtype), device=device)


PROJECT = {
    "src/kernels/scale.cu": """#include <opencv2/core.hpp>
#include <torch/extension.h>
#include <cub/cub.cuh>
#include "config.h"
#include "nowhere.h"
using namespace std;
class Timer { cudnnHandle_t handle; cudaEvent_t start; public: Timer() { cudaEventCreate(&start); } float stop(); };
struct Image { cv::Mat host; uchar4* pixels; };
texture<float, 1> table;
__device__ float lane() { int x; asm("mov.u32 %0, %laneid;" : "=r"(x)); return x; }
__global__ void fetch(real_t* y) { y[0] = tex1Dfetch(table, 0); }
GLOBAL __launch_bounds__((((((BLOCK)) * 2) / 2))) scale(const CREAL x, real_t* RESTRICT y, Mode mode, int) {
#ifdef __CUDA_ARCH__
    if (threadIdx.x < BLOCK) y[threadIdx.x] = (mode == TWICE ? 2 : 1) * x[threadIdx.x];
#endif
}
__global__ void lanes(real_t* y) {
    y[0] = lane();
}
PYBIND11_MODULE(name, module) { module.def("scale", &scale); }
void run(torch::Tensor x) { scale<<<1, BLOCK>>>(x.data_ptr<float>(), nullptr, TWICE, 0); }
""",
    "include/config.h": """#pragma once
#define BLOCK 8
#if defined(DOUBLE) && BLOCK > 4
typedef double real_t;
#else
typedef float real_t;
#endif
typedef real_t* CREAL;
#define RESTRICT __restrict__
#define GLOBAL __global__ void
typedef enum { ONCE, TWICE } Mode;
""",
}


@pytest.fixture
def project(tmp_path):
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "src/kernels/scale.cu"


@pytest.mark.parametrize(("defines", "dtype"), [({}, np.float32), ({"DOUBLE": 1}, np.float64)])
def test_a_file_of_a_project_runs_with_its_headers(project, defines, dtype):
    x, y = numbers(8, dtype=dtype), numbers(8, dtype=dtype)
    kernel = mg.kernel(project, "scale", defines=defines)
    with pytest.warns(UserWarning, match=r"opencv2/core.hpp, .*, there is no file nowhere.h, Timer does not") as told:
        kernel(x, y, 1, 0, grid=1, block=8)
    assert told[0].filename == __file__ and y.numpy().tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert mg.inspect(kernel, x, y, 1, 0, grid=1, block=8).problems == []


def test_a_header_is_read_with_the_macros_ahead_of_it(tmp_path, kernel_device):
    (tmp_path / "types.h").write_text("#ifdef LOW\ntypedef short number;\n#else\ntypedef float number;\n#endif\n")
    file, x = tmp_path / "k.cu", numbers(4, kernel_device, np.int16)
    kernel = "__global__ void k(number* x) { x[threadIdx.x] += 1; }\n"
    file.write_text(f'#define LOW\n#include "types.h"\n{kernel}')
    mg.kernel(file, "k")(x, grid=1, block=4)
    assert x.numpy().tolist() == [1, 2, 3, 4]
    file.write_text(f'#include "types.h"\n#define LOW\n{kernel}')
    with pytest.raises(TypeError, match="is float32; got int16"):
        mg.kernel(file, "k")(x, grid=1, block=4)


def test_headers_find_the_version_of_cuda(kernel_device):
    """GLM stops without one, and headers of half precision define what old versions lack."""
    text = """#include <cuda.h>
#if CUDA_VERSION < 12000 || CUDART_VERSION < 12000
#error "too old"
#endif
#if __CUDACC_VER_MAJOR__ < 12
__device__ float twice(float x) { return lacking{x}; }
#else
__device__ float twice(float x) { return 2 * x; }
#endif
__global__ void k(const float* x, float* y) { y[threadIdx.x] = twice(x[threadIdx.x]); }"""
    x, y = numbers(4, kernel_device), numbers(4, kernel_device)
    mg.kernel(text, "k")(x, y, grid=1, block=4)
    assert y.numpy().tolist() == [0, 2, 4, 6]
    assert mg.adjoint(text).vjp(x, y, dy=x, grid=1, block=4)[0].numpy().tolist() == [0, 2, 4, 6]


def test_an_error_is_that_of_the_function_which_the_kernel_needs(project):
    with pytest.raises(mg.errors.CompileError) as caught:
        mg.kernel(project, "lanes")(numbers(1), grid=1, block=1)
    assert "scale.cu(10): error: inline PTX (asm) runs only on a GPU" in str(caught.value)
    with pytest.raises(mg.errors.CompileError, match=r"(?s)textures.*nowhere\.h") as caught:
        mg.kernel(project, "fetch")(numbers(1), grid=1, block=1)
    assert "Timer" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("inner<<<1, 1>>>(y);", "a kernel that launches another one runs only on a GPU"),
        ("y[0] = tex2D(image, 0, 0);", "textures and surfaces run only on a GPU"),
        ("y[0] = cub::ThreadReduce(y, 1);", "CUB and Thrust run only on a GPU"),
        ("y[0] = __shfl_down(y[0], 1);", "__shfl_down_sync"),
        ("curandState state;", "random numbers of cuRAND"),
        ("wmma::fill_fragment(y, 0);", "#include <mma.h>"),
    ],
)
def test_what_only_a_gpu_runs_is_told_with_its_line(body, words):
    text = f"__global__ void inner(float* y) {{}}\n__global__ void k(float* y) {{\n    {body}\n}}"
    with pytest.raises(mg.errors.CompileError, match=rf"(?s)k\.cu\(3\): error: .*{words}"):
        mg.kernel(text, "k")(numbers(1), grid=1, block=1)


@pytest.mark.parametrize(
    ("type_", "dtype", "lanes"),
    [
        ("float2", "f4", 2),
        ("float3", "f4", 3),
        ("float4", "f4", 4),
        ("double2", "f8", 2),
        ("double4", "f8", 4),
        ("int3", "i4", 3),
        ("dim3", "u4", 3),
        ("uchar4", "u1", 4),
        ("longlong2", "i8", 2),
    ],
)
def test_a_vector_by_value(type_, dtype, lanes, kernel_device):
    kind = {"f4": "float", "f8": "double", "i4": "int", "u4": "unsigned", "u1": "unsigned char", "i8": "long long"}
    total = f"v.y + w.{'xyzw'[lanes - 1]} + c"
    text = f"__global__ void k(char c, {type_} v, {kind[dtype]}* y, {type_} w) {{ y[0] = {total}; }}"
    y = numbers(1, kernel_device, dtype)
    kernel = mg.kernel(text, "k")
    kernel(7, range(lanes), y, np.arange(lanes, dtype=dtype), grid=1, block=1)
    assert y.item() == 7 + 1 + lanes - 1
    by_value = (7, np.arange(lanes), np.zeros(1, dtype), np.arange(lanes, dtype=dtype))
    assert mg.inspect(kernel, *by_value, grid=1, block=1).outputs["y"].tolist() == [y.item()]
    with pytest.raises(TypeError, match=rf"takes {lanes} numbers, e\.g\. \(0, 0"):
        kernel(7, 3, y, range(lanes), grid=1, block=1)


def test_a_parameter_may_share_its_name_with_a_constant_of_the_host(kernel_device):
    text = (
        "#include <cfloat>\n#include <climits>\n"
        "__global__ void k(const float* x, float* y, const int n) {\n"
        "  if (threadIdx.x < n) y[threadIdx.x] = fminf(x[threadIdx.x], FLT_MAX) * (INT_MAX > 0 ? 2 : 0); }\n"
        "int main() { const int b = 10; const int n = b * 100; k<<<1, n>>>(nullptr, nullptr, n); }"
    )
    kernel, x, y = mg.kernel(text, "k"), numbers(4, kernel_device), numbers(4, kernel_device)
    assert [param.name for param in kernel.signature.params] == ["x", "y", "n"]
    kernel(x, y, 3, grid=1, block=4)
    assert y.numpy().tolist() == [0, 2, 4, 3]
    (dx,) = mg.adjoint(kernel, ["x"]).vjp(x, y, 3, dy=[y], grid=1, block=4)
    assert dx.numpy().tolist() == [0, 4, 8, 0]


def test_words_of_cuda_may_be_defined_for_an_editor(kernel_device):
    editor = "#ifdef EDITOR\n#define __shared__\n#define __device__\n#define __constant__\n#endif\n"
    text = f"{editor}__global__ void k(int* x, clock_t n) {{ __shared__ int s[1]; s[0] = n; x[0] = s[0]; }}"
    mg.kernel(text, "k")(x := numbers(1, kernel_device, np.int32), 3, grid=1, block=1)
    assert x.item() == 3


def test_a_type_of_a_header_that_is_missing_is_told_with_it(tmp_path):
    (tmp_path / "k.h").write_text("#include <vector>\n#include <cuda_runtime.h>\n#include <glm/glm.hpp>\n")
    (tmp_path / "k.cu").write_text('#include "./k.h"\n#include "types.h"\n__global__ void k(number* x, int n) {}\n')
    said = (
        r"number\* x has a type that is not known here, and there is no file types\.h, glm/glm\.hpp\. Put it beside k\."
    )
    with pytest.raises(TypeError, match=said):
        mg.kernel(tmp_path / "k.cu", "k")(numbers(1), 1, grid=1, block=1)


def test_conditions_may_stand_inside_the_head_of_a_kernel(kernel_device):
    head = "__global__\n#ifdef WIDE\n__launch_bounds__(64, 8)\n#else\n__launch_bounds__(64, 16)\n#endif\nvoid"
    text = f"{head} one(int* x) {{ x[0] = 1; }}\ntemplate <int N> {head} several(int* x) {{ x[0] = N; }}"
    for name, value in (("one", 1), ("several<3>", 3)):
        mg.kernel(text, name)(x := numbers(1, kernel_device, np.int32), grid=1, block=1)
        assert x.item() == value


def test_structs_of_every_kind(kernel_device):
    text = """#define N 2
const int M = 3;
struct __align__(16) Ray { float3 from; float4 to; int hits[N * M]; };
class Box { public: float low, high; __device__ float size() const { return high - low; } };
__global__ void k(char c, Ray ray, const Box* boxes, float* y) {
    y[0] = ray.from.z + ray.to.w + ray.hits[N * M - 1] + boxes[1].size() + c;
}"""
    names = {"names": ["from", "to", "hits"], "formats": [("f4", 3), ("f4", 4), ("i4", 6)], "offsets": [0, 16, 32]}
    ray = np.zeros((), np.dtype(names | {"itemsize": 64}))
    ray["from"], ray["to"], ray["hits"] = (0, 0, 1), (0, 0, 0, 10), 100
    boxes = np.array([(0, 0), (1, 1001)], [("low", "f4"), ("high", "f4")])
    y = numbers(1, kernel_device)
    mg.kernel(text, "k")(5, ray, mg.tensor(boxes, device=kernel_device), y, grid=1, block=1)
    assert y.item() == 1116


def test_branches_of_one_condition_are_one_kernel():
    text = (
        "#if __CUDA_ARCH__ >= 600\n__global__ void k(int* x) { x[0] = 1; }\n#else\n__global__ void k(int* x) {}\n#endif"
    )
    x = numbers(1, dtype=np.int32)
    mg.kernel(text, "k")(x, grid=1, block=1)
    assert x.item() == 1


@pytest.mark.parametrize("name", ["one::two::k<float, 5>", "k< float, 5 >"])
def test_a_name_with_its_namespaces(name, kernel_device):
    text = """namespace one { namespace two {
template <typename T, int N> __global__ void k(T* x) { x[0] = N; }
template __global__ void k<double, 4>(double* x);
} }"""
    x = numbers(1, kernel_device)
    mg.kernel(text, name)(x, grid=1, block=1)
    assert x.item() == 5


INCLUDED = {
    "main.cu": """#include "config.c"
#define OWN 100
#if SIZE > 4
extern "C" {
#include "kernels/scale_kernel.cu"
}
#endif
int main() { scale<<<1, SIZE>>>(nullptr); }
""",
    "config.c": "#define SIZE 8\ntypedef float fp;\nvoid host() { cudaFree(0); }\n",
    "kernels/scale_kernel.cu": """#include "cuda.h"
__device__ fp twice(fp x) { return 2 * x + OFFSET; }
template <int N> __global__ void fill(fp* y);
template <int N> __global__ void fill(fp* y) { y[threadIdx.x] = twice(N); }
__global__ void scale(fp* y) { if (threadIdx.x < SIZE) y[threadIdx.x] = twice(y[threadIdx.x]) + OWN; }
""",
    "kernels/cuda.h": '#include "../kernels/more.h"\n#define OFFSET 1000\n',
    "kernels/more.h": '#pragma once\n#include "../kernels/cuda.h"\n',  # a project's own header of this name
}


@pytest.mark.parametrize(("name", "wanted"), [("scale", [1100, 1102, 1104]), ("fill<7>", [1014] * 3)])
def test_a_kernel_in_a_file_that_the_named_one_includes(name, wanted, tmp_path, kernel_device):
    for file, text in INCLUDED.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    kernel, y = mg.kernel(tmp_path / "main.cu", name), numbers(3, kernel_device)
    kernel(y, grid=1, block=3)
    assert y.numpy().tolist() == wanted and kernel.source.name == "scale_kernel.cu"
    assert mg.inspect(kernel, numbers(3), grid=1, block=3).problems == []
    if name == "scale":
        (dy,) = mg.adjoint(kernel).vjp(numbers(3), dy=[numbers(3)], grid=1, block=3)
        assert dy.numpy().tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match=r"main\.cu has no kernel 'other'"):
        mg.kernel(tmp_path / "main.cu", "other")


def test_nvrtc_is_given_headers_without_functions_of_the_host(tmp_path):
    for file, text in INCLUDED.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    own = f"reader{tmp_path}/"
    headers = compiler._headers(mg.kernel(tmp_path / "main.cu", "scale").source)
    found = {name.removeprefix(own): text.partition("\n")[2] for name, text in headers.items()}
    assert found["kernels/cuda.h"].splitlines() == [f'#include "{own}kernels/more.h"', "#define OFFSET 1000"]
    assert found["config.c"].split() == ["#define", "SIZE", "8", "typedef", "float", "fp;"]
    text = "#include <cublas_v2.h>\n#include <cuda.h>\n#include <cuda_fp16.h>\n__global__ void k(half* x) {}"
    guarded = unit(mg.kernel(text, "k").source)
    assert [guarded.count(f"{name}>) && !defined(__CUDACC_RTC__)") for name in ("cublas_v2.h", "cuda.h")] == [1, 1]
    assert guarded.count("__CUDACC_RTC__") == 2


def test_an_array_parameter_of_several_axes(kernel_device):
    text = "__global__ void k(const float x[][2][3], float y[]) { y[threadIdx.x] = x[threadIdx.x][1][2]; }"
    y = numbers(2, kernel_device)
    mg.kernel(text, "k")(numbers(12, kernel_device), y, grid=1, block=2)
    assert y.numpy().tolist() == [5, 11]


def test_a_struct_of_any_alignment_by_value(kernel_device):
    text = """typedef struct alignas(64) { double a, b; } Pair;
    __global__ void k(double* y, int n, const Pair p, int m) { y[threadIdx.x] = p.a * n + p.b * m; }"""
    y = numbers(2, kernel_device, np.float64)
    dtype = np.dtype({"names": ["a", "b"], "formats": ["f8", "f8"], "offsets": [0, 8], "itemsize": 64})
    mg.kernel(text, "k")(y, 10, np.array((2, 3), dtype), 100, grid=1, block=2)
    assert y.numpy().tolist() == [320, 320]


def test_a_type_of_templates_arguments_is_no_struct(kernel_device):
    """Specialized templates name types; a name that stands for itself in a namespace has the other meaning."""
    text = """namespace detail { typedef unsigned uint32; }
    typedef detail::uint32 uint32;
    template <class T> struct is_int { enum { value = 0 }; };
    template <> struct is_int<uint32> { enum { value = 1 }; };
    __global__ void k(uint32* y) { y[threadIdx.x] = is_int<uint32>::value; }"""
    y = numbers(2, kernel_device, np.uint32)
    mg.kernel(text, "k")(y, grid=1, block=2)
    assert y.numpy().tolist() == [1, 1]


@pytest.mark.parametrize("bound", ["64", "HALF * 2", "2 * N, 4"])
def test_launch_bounds_are_the_most_threads(bound, kernel_device):
    head = f"#define HALF 32\ntemplate <int N> __global__ void __launch_bounds__({bound})"
    text = f"{head} k(float* y) {{ y[threadIdx.x] = N; }}"
    kernel, y = mg.kernel(text, "k<32>"), numbers(65, kernel_device)
    kernel(y, grid=1, block=64)
    with pytest.raises(LaunchError, match="65 threads in a block; its __launch_bounds__ allows 64"):
        kernel(y, grid=1, block=65)


@pytest.mark.parametrize("bound", ["0100", "1 << 6", "HALF ? 64 : 32"])
def test_launch_bounds_that_only_a_compiler_reads(bound):
    kernel = mg.kernel(f"#define HALF 32\n__global__ void __launch_bounds__({bound}) k(float* y) {{ y[0] = 1; }}", "k")
    kernel(y := mg.zeros(1, device="sim"), grid=1, block=8)
    assert y.item() == 1


def test_variables_of_the_host_with_constructors():
    text = """#include <vector>
    std::vector<const char*> names;
    const std::vector<int> sizes = {1, 2, 3};
    __global__ void k(float* x) { x[threadIdx.x] = 1; }"""
    assert mg.kernel(text, "k").source.host_names == ["names"]
    assert not mg.inspect(text, x := np.zeros(2, np.float32), name="k", grid=1, block=2).problems and x.all()


def test_a_texture_as_a_parameter_is_refused_with_the_way_out():
    kernel = mg.kernel("__global__ void k(cudaTextureObject_t t, float* y) { y[0] = tex1Dfetch<float>(t, 0); }", "k")
    with pytest.raises(TypeError, match=r"argument 1 \(cudaTextureObject_t t\).*read the array itself"):
        kernel(1, mg.zeros(1, device="sim"), grid=1, block=1)


def test_real_may_be_the_name_of_a_member(kernel_device):
    text = """struct Complex { double real, imag; };
#define SQUARE(a) ((a).real * (a).real - (a).imag * (a).imag)
__global__ void k(const Complex* z, double* x) { x[0] = SQUARE(z[0]); }"""
    z = np.array([(3, 2)], [("real", "f8"), ("imag", "f8")])
    x = numbers(1, kernel_device, np.float64)
    mg.kernel(text, "k")(mg.tensor(z, device=kernel_device), x, grid=1, block=1)
    assert x.item() == 5


def test_a_macro_with_a_default_settles_the_type_that_it_asks_for(kernel_device):
    text = """#ifndef PRECISION
#define PRECISION 2
#endif
#if PRECISION == 1
#define Real float
#else
#define Real double
#endif
__global__ void k(Real* x) { x[0] = 1.0 / 3; }"""
    x = numbers(1, kernel_device, np.float64)
    mg.kernel(text, "k")(x, grid=1, block=1)
    assert x.item() == 1 / 3
    y = numbers(1, kernel_device)
    mg.kernel(text, "k", defines={"PRECISION": 1})(y, grid=1, block=1)
    assert y.item() == np.float32(1 / 3)


def test_what_a_macro_instantiates_is_left_out_with_the_function(kernel_device):
    text = """namespace n {
template <int N> void on_the_host(float* x) { std::vector<float> y(N); }
__global__ void k(float* x) { x[0] = 2; }
#define EXPORT(N) template void on_the_host<N>(float*);
EXPORT(1)
EXPORT(2)
}"""
    x = numbers(1, kernel_device)
    mg.kernel(text, "k")(x, grid=1, block=1)
    assert x.item() == 2


def test_objects_of_classes_on_the_heap(kernel_device):
    text = """struct Shape { __device__ virtual ~Shape() {} __device__ virtual float area() const = 0; };
struct Square : Shape {
    float* side;
    __device__ Square(float a) : side(new float[1]) { side[0] = a; }
    __device__ ~Square() { delete[] side; }
    __device__ float area() const { return side[0] * side[0]; }
};
__global__ void k(float* x) { Shape* s = new Square(3); x[0] = s->area(); delete s; }"""
    x = numbers(1, kernel_device)
    mg.kernel(text, "k")(x, grid=1, block=1)
    assert x.item() == 9
