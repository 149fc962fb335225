"""One kernel among several of a name."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import CompileError

SEVERAL = """
namespace a { __global__ void scale(float* x, int n) { x[0] *= n; } }
namespace b { __global__ void scale(float* x, int n) { x[0] *= 2 * n; } }
__global__ void scale(float* x) { x[0] *= 7; }
template <typename T, int N> __global__ void set(T* x) { x[0] = N; }
template <> __global__ void set<float, 5>(float* x) { x[0] = 100; }
template <typename T> __global__ void fill(T* x) { x[0] = 30; }
template <> __global__ void fill(float* x) { x[0] = 40; }
namespace c { inline namespace v2 { __global__ void scale(float* x, int n) { x[0] *= 5 * n; } } }
template <class T, int N> struct Times { __device__ T operator()(T v) const { return N * v; } };
template <template <class, int> class Op, typename T> __global__ void by(T* x, int n) { x[0] = Op<T, 8>()(n); }
"""


@pytest.mark.parametrize(
    ("name", "numbers_", "value"),
    [
        ("a::scale", [3], 3),
        ("b::scale(float*, int)", [3], 6),
        ("scale(float*)", [], 7),
        ("set<float, 5>", [], 100),  # by its template<>
        ("set<float, 6>", [], 6),
        ("fill<float>", [], 40),
        ("c::scale", [3], 15),
        ("c::v2::scale", [3], 15),
        ("by<Times, float>", [3], 24),
    ],
)
def test_one_of_several_kernels_of_a_name(name, numbers_, value, kernel_device):
    x = mg.tensor(np.ones(1, np.float32), device=kernel_device)
    mg.kernel(SEVERAL, name)(x, *numbers_, grid=1, block=1)
    assert x.item() == value


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (
            "__global__ void k(int* x) {}\n__global__ void k(float* x) {}",
            "k",
            r"defines k in the lines 1 and 2. Say which: 'k\(int\*\)' or 'k\(float\*\)'\.",
        ),
        (
            "__global__ void k(int* x) {}\n__global__ void k(float* x) {}",
            "k(double*)",
            r"has k\(int\*\) and k\(float\*\), and none of them takes \(double\*\)",
        ),
        ("__device__ void k(int* x) {}\n", "k", "no kernel"),
    ],
)
def test_a_name_with_two_meanings_or_none_is_rejected(text, name, words):
    with pytest.raises(ValueError, match=words):
        mg.kernel(text, name)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("namespace a { __global__ void k(float* x) {} }", "zzz::k", "has k, but none in the namespace zzz"),
        (
            "namespace a { __global__ void k(float* x) {} } namespace b { __global__ void k(float* x) {} }",
            "zzz::k",
            "has k, but none in the namespace zzz",
        ),
        (
            "template <typename... Ts> __global__ void k(float* x, Ts... v) {}",
            "k<float, int>",
            "k is a template of any number of arguments",
        ),
        (
            "#define MAKE(T) __global__ void k_##T(T* x) {}\nMAKE(double)",
            "k_double",
            "but a macro MAKE that writes kernels",
        ),
    ],
)
def test_a_name_without_a_kernel_here_is_refused(text, name, words):
    with pytest.raises(ValueError, match=words):
        mg.kernel(text, name)


def test_a_body_of_any_number_of_arguments_is_called_by_a_kernel(kernel_device):
    text = """template <typename... Ts> __device__ void body(float* x, Ts... v) { x[0] = (v + ...); }
__global__ void k(float* x, float a, int b) { body(x, a, b); }"""
    x = mg.zeros(1, device=kernel_device)
    mg.kernel(text, "k")(x, 1.5, 2, grid=1, block=1)
    assert x.item() == 3.5


@pytest.mark.parametrize("condition", [
    "typename = std::enable_if_t<std::is_floating_point_v<T>>", "std::enable_if_t<(sizeof(T) >= 4 && N == 2), int> = 0",
    "typename std::enable_if<N == 2>::type* = nullptr", "class = void, int = 3",
])  # fmt: skip
def test_a_parameter_of_a_template_without_a_name_is_no_part_of_the_kernels_name(condition):
    text = f"""template <typename T, int N, {condition}> __device__ T power(T v) {{ return v * v; }}
    template <typename T, int N = 2, {condition}> __global__ void k(const T* x, T* y) {{
        constexpr Row<N> row{{}};
        static_assert(row.size() == 2, "two");
        y[threadIdx.x] = power<T, N>(x[threadIdx.x]) * N;
    }}"""
    text = f"template <int N> struct Row {{ constexpr int size() const {{ return N; }} }};\n{text}"
    x, y = mg.tensor(np.arange(4.0), device="sim"), mg.zeros(4, dtype="float64", device="sim")
    mg.kernel(text, "k<double>")(x, y, grid=1, block=4)
    assert y.numpy().tolist() == [0, 2, 8, 18]
    dy = mg.ones(4, dtype="float64", device="sim")
    assert mg.adjoint(text, name="k<double>").vjp(x, y, dy=[dy], grid=1, block=4)[0].numpy().tolist() == [0, 4, 8, 12]
    with pytest.raises(ValueError, match=r"k is a template of <typename T, int N = 2>"):
        mg.kernel(text, "k")


def test_a_bracket_too_many_in_a_body_is_told_by_the_compiler():
    text = "__global__ void k(float* y, int n) {\nif n > 0) { y[1] = 2; } }"
    with pytest.raises(CompileError, match=r"k.cu\(2\): error: expected '\(' before 'n'"):
        mg.kernel(text, "k")(mg.zeros(2, device="sim"), 1, grid=1, block=1)


def test_a_comparison_in_the_type_that_a_function_returns():
    text = """template <int N> __device__ typename std::enable_if<N == 2 && N != 3, float>::type twice(float v) {
    float s = 0;
    for (int k = 0; k < N; ++k) { s += v; }
    return s;
}
template <int N> __global__ void k(float* y) { y[0] = twice<N>(y[0]); }"""
    y = mg.ones(1, device="sim")
    mg.kernel(text, "k<2>")(y, grid=1, block=1)
    assert y.item() == 2
    with pytest.raises(ValueError, match="k is a template of any number of arguments"):
        mg.kernel(text.replace("<int N> __global__", "<int... N> __global__"), "k<2>")
