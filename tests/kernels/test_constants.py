"""Kernel.constant: values of __constant__ and __device__ variables."""

import numpy as np
import pytest

import minigrad as mg

pytestmark = pytest.mark.filterwarnings("ignore:nobody sets")
TEXT = """__constant__ float table[4];
static __device__ int calls;
struct P { float scale; int n; };
__constant__ P p;
extern "C" __global__ void look(float* y) {
    if (threadIdx.x < p.n) y[threadIdx.x] = p.scale * table[threadIdx.x % 4] + calls;
}
extern "C" __global__ void other(float* y) { y[0] = table[0]; }
"""


def test_constants_are_set(kernel_device):
    y, kernel = mg.tensor(np.zeros(8, np.float32), device=kernel_device), mg.kernel(TEXT, "look")
    kernel.constant("table", [1, 2, 3, 4.0])
    kernel.constant("p", np.array((10, 6), [("scale", "f4"), ("n", "i4")]))
    kernel(y, grid=1, block=8)
    assert y.numpy().tolist() == [10, 20, 30, 40, 10, 20, 0, 0]
    kernel.constant("calls", 5)
    kernel.constant("table", mg.tensor([4, 3, 2, 1.0]))
    kernel(y, grid=1, block=8)
    assert y.numpy().tolist() == [45, 35, 25, 15, 45, 35, 0, 0]


@pytest.mark.parametrize(
    "text",
    [
        "__constant__ __align__(16) float table[4];",
        "__constant__ float other[2] = {1, 2}, table[4];",
        "#define CONST __constant__\nCONST float table[4];",
        "#define N 3\n#define MORE (N + 1)\n__constant__ float table[MORE];",
    ],
)
def test_a_constant_is_found_however_it_is_declared(text, kernel_device):
    y = mg.tensor(np.zeros(4, np.float32), device=kernel_device)
    kernel = mg.kernel(f"{text}\n__global__ void look(float* y) {{ y[threadIdx.x] = table[threadIdx.x]; }}", "look")
    kernel.constant("table", [1, 2, 3, 4.0])
    kernel(y, grid=1, block=4)
    assert y.numpy().tolist() == [1, 2, 3, 4]


def test_the_microscope_sees_them():
    y, kernel = np.zeros(8, np.float32), mg.kernel(TEXT, "look")
    kernel.constant("p", np.array((1, 8), [("scale", "f4"), ("n", "i4")]))
    for first in (3.0, 7.0):
        kernel.constant("table", np.full(4, first, np.float32))
        kernel.constant("calls", 1)
        assert mg.inspect(kernel, y, grid=1, block=8).problems == [] and (y == first + 1).all()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("tables", 1, r"look\.cu has no __constant__ or __device__ variable tables\."),
        ("table", [1.0, 2.0], r"table has 16 bytes; 3 of float32 are 12"),
        ("table", np.zeros(5, np.float32), r"table has 16 bytes; 5 of float32 are 20\. Give 4 elements\."),
    ],
)
def test_a_value_that_does_not_fit_is_rejected(name, value, message):
    kernel = mg.kernel(TEXT, "look")
    if name == "table" and len(value) == 2:
        value = np.zeros(3, np.float64)
    with pytest.raises(ValueError, match=message):
        kernel.constant(name, value)
        kernel(mg.tensor(np.zeros(8, np.float32), device="sim"), grid=1, block=8)


def test_a_number_becomes_the_type_of_its_variable(kernel_device):
    text = (
        "__device__ float f(float a) { return a; }\ntypedef double wide_t;\n__constant__ float e = 1, a, b;\n"
        "__device__ wide_t c;\n__constant__ short d[2];\n__constant__ const int fixed = 3;\n"
    )
    k = mg.kernel(text + "__global__ void k(double* y) { y[0] = 1000 * a + 100 * b + 10 * c + d[1]; }", "k")
    y = mg.zeros(1, device=kernel_device, dtype="float64")
    for name, value in {"a": np.int32(3), "b": True, "c": 2, "d": [0, 7]}.items():
        k.constant(name, value)
    k(y, grid=1, block=1)
    assert y.item() == 3127
    with pytest.raises(ValueError, match=r"d is short; list \[0, 70000\] does not fit"):
        k.constant("d", [0, 70000])
    with pytest.raises(ValueError, match="fixed is const: it keeps the value that the text gives it"):
        k.constant("fixed", 4)
    with pytest.raises(ValueError, match="a takes a number, an array, or for a struct a record of NumPy; got dict"):
        k.constant("a", {"x": 1})


def test_kernels_of_one_text_have_values_of_their_own(kernel_device):
    text = "__constant__ int n; __device__ int more = 5;\n__global__ void k(int* y) { y[0] = 10 * n + more; }"
    first, second, third = (mg.kernel(text, "k") for _ in range(3))
    y = mg.zeros(1, dtype="int32", device=kernel_device)
    first.constant("n", 1)
    second.constant("n", 2)
    second.constant("more", 7)
    for k, value in ((first, 15), (second, 27), (first, 15), (third, 5), (second, 27)):
        k(y, grid=1, block=1)
        assert y.item() == value


STRUCT = "struct C { float a; int n; }; __constant__ C v;"
TYPES = [  # a declaration, an expression of v, what is given, and its value or the words of an error
    (STRUCT, "v.a + v.n", {"a": 2, "n": 3}, 5),
    (STRUCT, "v.a", 1, r"v: got int64, which is not C; that is np\.dtype\(\[\('a', 'f4'\)"),
    (STRUCT, "v.a", [2.0, 3.0], "v: got float64, which is not C"),
    (STRUCT, "v.a", np.array((1, 2), [("n", "i4"), ("a", "f4")]), "which is not C; that is"),
    ("struct C { double a; }; __constant__ C v;", "v.a", 3, "v: got int64, which is not C"),
    ("template <class T> struct P { T a; }; __constant__ P<float> v[2];", "v[1].a", 7, "which is not P<float>"),
    ("namespace q { typedef double number; } __constant__ q::number v;", "v", 5, 5),
    ("enum E : long long { A }; __constant__ E v;", "v", 5.0, 5),
    ("__device__ const float* v;", "v != nullptr", 7, "v holds a pointer: give the kernel what that leads to"),
    ("__constant__ unknown_t v;", "1", 7, "v is unknown_t, of which the layout is not read here"),
    ("#define N 2\n__device__ float f(float v); __constant__ float v[N * 2];", "v[3]", [1, 2, 3, 4], 4),
]


@pytest.mark.parametrize(("declared", "expression", "given", "wanted"), TYPES)
def test_a_value_has_the_type_of_its_variable(declared, expression, given, wanted, kernel_device):
    kernel = mg.kernel(f"{declared}\n__global__ void k(double* y) {{ y[0] = {expression}; }}", "k")
    if isinstance(wanted, str):
        with pytest.raises((TypeError, ValueError), match=wanted):
            kernel.constant("v", given)
    else:
        kernel.constant("v", given)
        kernel(y := mg.zeros(1, device=kernel_device, dtype="float64"), grid=1, block=1)
        assert y.item() == wanted


def test_what_has_no_value_is_known():
    text = """struct Filled { float a = 2; }; struct Empty { float a; };
    __constant__ Filled filled; __constant__ Empty empty;
    __constant__ float a, b = 1, c[2]; __constant__ const int fixed = 3; __device__ int device; __constant__ int unused;
    __global__ void other(float* y) { y[0] = a; }
    __global__ void k(float* y) { y[0] = filled.a + empty.a + a + b + c[1] + fixed + device; }"""
    kernel = mg.kernel(text, "k")
    kernel.constant("a", 1)
    assert kernel.unset_constants == ["empty", "c"] and mg.kernel(text, "other").unset_constants == ["a"]


@pytest.mark.filterwarnings("default:nobody sets")
def test_a_constant_without_a_value_is_named(kernel_device):
    """By a launch, the microscope and an adjoint, whose gradient it would make 0 without a word."""
    text = "__constant__ float a;\n__global__ void k(const float* x, float* y) { y[0] = a * x[0]; }"
    x, y = (mg.ones(1, device=kernel_device) for _ in range(2))
    told = r"^nobody sets a, so it is 0; give \.constant\('a', \.\.\.\)\.$"
    with pytest.warns(UserWarning, match=told):
        mg.kernel(text, "k")(x, y, grid=1, block=1)
    with pytest.warns(UserWarning, match=told):
        mg.inspect(text, np.ones(1, np.float32), np.ones(1, np.float32), grid=1, block=1)
    with pytest.warns(UserWarning, match=told):
        mg.adjoint(mg.kernel(text, "k")).vjp(x, y, dy=[x], grid=1, block=1)
    (made := mg.kernel(text, "k")).constant("a", 3)  # and this one warns of nothing
    made(x, y, grid=1, block=1)
    assert y.item() == 3 and mg.adjoint(made).vjp(x, y, dy=[x], grid=1, block=1)[0].item() == 3


def test_a_constant_of_a_type_that_an_old_compiler_lacks_reaches_the_adjoint():
    text = """#if CUDART_VERSION < 3000
struct double3 { double x, y, z; };
#endif
__constant__ double3 c;
__global__ void k(const double* x, double* y) { int i = threadIdx.x; y[i] = c.x * x[i] + c.z; }"""
    (made := mg.kernel(text, "k")).constant("c", {"x": 3, "y": 0, "z": 1})
    assert mg.adjoint(made).vjp(np.ones(2), np.zeros(2), dy=[np.ones(2)], grid=1, block=2)[0].tolist() == [3, 3]
