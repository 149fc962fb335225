"""Bad input to `mg.kernel`: each a sentence with its line and a way out, which works."""

from functools import partial

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import CompileError, KernelError, LaunchError

K = "__global__ void k(float* x, int n) { int i = threadIdx.x; if (i < n) x[i] = i; }"
T = "template <class T, int N> __global__ void t(T* x, int n) { x[0] = N; }"
F = """template <class T> struct Half { __device__ T operator()(T x) const { return x / 2; } };
template <class T, class Op> __global__ void t(T* x, int n) { x[0] = Op()(x[0]); }
template <class T> void run(T* x) { t<T, Half<T>><<<1, 1>>>(x, 1); }"""
P = "struct P { float a; int b; };\n"
MISTYPED = "has a sign that only looks like one of C++"


@pytest.mark.parametrize(
    ("text", "name", "kind", "words"),
    [
        ("int main() { return 0; }\n", "k", ValueError, "defines no kernel (a kernel is `__global__ void name(...)`)"),
        ("int main() { return 0; }", None, ValueError, "the text has no kernel. A kernel is"),
        ("", "k", FileNotFoundError, "give the path of a .cu file or CUDA C++"),
        (f"{K}\n{K}", "k", ValueError, "k.cu defines k in the lines 1 and 2. Take one away, or give it"),
        (f"{K}\nnamespace a {{ {K} }}\n", "b::k", ValueError, "Say which: 'k(float*, int)' or 'a::k(float*, int)'."),
        (f"{K}\n{K.replace(' k(', ' j(')}", None, ValueError, "has 2 kernels: k, j. Choose one, as by name='k'."),
        ("__device__ int f() { return 1; }\n", None, ValueError, "name the file with the kernel, which includes this"),
        (K, "K", ValueError, "has no kernel 'K'; it defines k."),
        (K, "", ValueError, "has no kernel ''; it defines k."),
        (K, "k<float>", ValueError, "k is no template of k.cu; call it 'k'."),
        (
            T,
            "t",
            ValueError,
            "t is a template of <class T, int N>; give it arguments in its name. Write for example 't<float, 16>'.",
        ),
        (
            f"{T}\nint main() {{ t<int, 2 * 4><<<1, 1>>>(x, n); }}",
            "t",
            ValueError,
            "'t<int, 2 * 4>', which line 2 launches.",
        ),
        (
            f"{T}\nint main() {{ const int side = 8; t<int, side><<<1, 1>>>(x, n); }}",
            "t",
            ValueError,
            "'t<int, 8>', which line 2 launches.",
        ),
        (
            "template <int N, typename P> __global__ void t(P* x) { x[0] = N; }\nint main() { t<4><<<1, 1>>>(x); }",
            "t",
            ValueError,
            "'t<4, float>', which line 2 launches.",
        ),
        (
            f"{F}\nvoid run(float* x) {{ t<float, Half<float>><<<1, 1>>>(x, 1); }}",
            "t",
            ValueError,
            "Write for example 't<float, Half<float>>', which line 4 launches.",
        ),
        (
            f"{F}\ntemplate __global__ void t<double, Half<double>>(double*, int);",
            "t",
            ValueError,
            "Write for example 't<double, Half<double>>', which line 4 makes.",
        ),
        (T.replace("int N", "const int N"), "t", ValueError, "Write for example 't<float, 16>'."),
        (T, "t<3, 4>", ValueError, "t is a template of <class T, int N>; 3 is no type."),
        (T, "t<int, float>", ValueError, "t is a template of <class T, int N>; float is no value."),
        (f"{K}namespace a {{ {T} }}", "a::t", ValueError, "Write for example 'a::t<float, 16>'."),
        (T.replace("int N", "E e"), "t", ValueError, "Write for example 't<float, ...>'."),
        (T.replace("int N", "class... Ts"), "t", ValueError, "Write for example 't<float, float>'."),
        (T, "t<>", ValueError, "t<> gives it 0 of 2 arguments. Write for example 't<float, 16>'."),
        (T, "t<float,>", ValueError, "t<float,> gives it 1 of 2 arguments."),
        (T, "t<float, 1, 2>", ValueError, "gives it 3 of 2 arguments."),
        (
            f"#define IN(T, x) const T* x\n{K.replace('int n', 'IN(float, n)')}",
            "k",
            ValueError,
            "k.cu: IN in the parameters of k is a macro with arguments, which is not read there; write out what",
        ),
        (T, "t<blah, 3>", TypeError, "pointers to blah are not known here"),
        ("__global__ void k(float& x, int n) {}", "k", TypeError, "a reference is a pointer here."),
        ("__global__ void k(std::vector<float> x, int n) {}", "k", TypeError, "pass the address of the numbers"),
        ("__global__ void k(HINT typename Foo::P const x, int n) {}", "k", TypeError, "If it is a struct"),
        ("__global__ void k(Foo x, int n) {}", "k", TypeError, "If it is a struct, put its text beside the kernel's"),
        (K.replace("x[i] = i;", "x[i] = 1\uff1b"), "k", CompileError, MISTYPED),
        (K.replace("x[i] = i;", "\u00a0x[i] = i;"), "k", CompileError, MISTYPED),
        (K.replace("x[i] = i;", "printf(\u201chi\u201d);"), "k", CompileError, MISTYPED),
        (
            K.replace("x[i] = i;", "half h = i; x[i] = h;"),
            "k",
            CompileError,
            "write #include <cuda_fp16.h> at the top.",
        ),
        (f"#ifndef ARCH\n#error set ARCH\n#endif\n{K}", "k", CompileError, "k.cu(2): error: #error set ARCH"),
        (
            f'#include "lost.h"\n{K}'.replace("= i;", "= lost(i);"),
            "k",
            CompileError,
            "There is no file lost.h. Put what",
        ),
    ],
)
def test_a_text_that_does_not_fit(text, name, kind, words):
    with pytest.raises(kind) as caught:
        mg.kernel(text, name)(mg.zeros(32, device="sim"), 1, grid=1, block=32)
    assert words in str(caught.value)


def test_a_struct_of_another_dtype_is_told_the_one_that_fits():
    kernel, x = mg.kernel(P + "__global__ void k(P p, float* x) { x[0] = p.a + p.b; }", "k"), mg.zeros(1, device="sim")
    for wrong in ((1, 2), 1.0, np.zeros((), [("a", "f4"), ("b", "f4")])):
        with pytest.raises(TypeError, match="P p") as caught:
            kernel(wrong, x, grid=1, block=1)
        dtype = eval(
            "np.dtype" + str(caught.value).rpartition("np.dtype")[2].rstrip(".").replace("))", ")"), {"np": np}
        )
        kernel(np.array((1, 2), dtype), x, grid=1, block=1)
        assert x.numpy()[0] == 3
    with pytest.raises(TypeError, match=r"give its members, \{'x': \.\.\.\}, with a tensor for a pointer"):
        mg.kernel("struct P { float* x; };\n__global__ void k(P p) {}", "k")((1,), grid=1, block=1)


def test_files_that_are_no_text_or_have_no_end(tmp_path):
    (tmp_path / "wide.cu").write_text(K, encoding="utf-16")
    with pytest.raises(ValueError, match=r"wide\.cu is no text in UTF-8, as a compiler reads it; save it"):
        mg.kernel(tmp_path / "wide.cu", "k")
    for name, other in (("a.cuh", "b.cuh"), ("b.cuh", "a.cuh")):
        (tmp_path / name).write_text(f'#include "{other}"\n')
    (tmp_path / "main.cu").write_text(f'#include "a.cuh"\n{K}')
    kernel, x = mg.kernel(tmp_path / "main.cu", "k"), mg.zeros(4, device="sim")
    with pytest.raises(CompileError, match=r"b\.cuh\(1\): .*a\.cuh includes itself\. Put #pragma once at its top\."):
        kernel(x, 4, grid=1, block=4)
    (tmp_path / "a.cuh").write_text('#pragma once\n#include "b.cuh"\n')
    kernel(x, 4, grid=1, block=4)
    assert x.numpy()[3] == 3


def test_pointers_to_rows_and_to_pointers_need_no_header():
    """A header that is missing is blamed for types alone that are not known."""
    text = '#include "lost.h"\n__global__ void k(float x[2][2]) { x[threadIdx.x][0] = 3; }'
    with pytest.warns(UserWarning, match=r"there is no file lost\.h"):
        mg.kernel(text, "k")(x := mg.zeros(2, 2, device="sim"), grid=1, block=2)
    assert x.numpy().tolist() == [[3, 0], [3, 0]]
    with pytest.raises(TypeError, match=r"float\*\* x\): pointers to float\* are not known here"):
        mg.kernel(text.replace("x[2][2]", "**x"), "k")(x, grid=1, block=2)


def test_a_macro_that_the_text_defines_anyway_is_told_the_way():
    text = f"// N\n#define N 4 // of them\n{K.replace('= i', '= N')}"
    told = (
        r"line 2 of k\.cu defines N as 4, so 8 would change nothing; put #ifndef N ahead of it and #endif behind it\."
    )
    with pytest.raises(ValueError, match=told):
        mg.kernel(text, "k", defines={"N": 8})
    for value in (0, "other"):
        with pytest.raises(ValueError, match=rf"line 1 of k\.cu defines FLAG, so {value} would change nothing; put"):
            mg.kernel(f"#define FLAG\n{K}", "k", defines={"FLAG": value})
    for value in (1, ""):
        mg.kernel(f"#define FLAG\n{K}", "k", defines={"FLAG": value})
    guarded = text.replace("#define", "#ifndef N\n#define").replace("// of them", "\n#endif")
    undefined, asked, same = f"#undef N\n{text}", f"#if N > 9\n#endif\n{guarded}", text.replace("N 4", "N (4)")
    for right, value in ((text, 4), (guarded, 8), (undefined, 4), (asked, 8), (same, 4)):
        mg.kernel(right, "k", defines={"N": value})(x := mg.zeros(1, device="sim"), 1, grid=1, block=1)
        assert x.item() == value


def test_a_path_may_have_braces(tmp_path):
    (tmp_path / "{own}").mkdir()
    (path := tmp_path / "{own}" / "k.cu").write_text(K)
    assert mg.kernel(path, "k").name == mg.kernel(str(path), "k").name == "k"


@pytest.mark.parametrize("given", ["abc", object(), {}])
def test_what_is_no_array_is_told_how_to_make_one(given):
    with pytest.raises(TypeError, match=r"Make it one: np\.full\(n, 0, 'float32'\)\."):
        mg.inspect(K, given, 1, grid=1, block=1)


@pytest.mark.parametrize("value", [None, "1\n#error"])
def test_a_macro_has_one_line(value):
    with pytest.raises(ValueError, match=r"is no macro; write \{'TILE': 16\}\."):
        mg.kernel(K, "k", defines={"N": value})


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        ({"grid": None}, "give grid=, how many blocks, and block="),
        ({"block": 2000}, "block.x=2000 is outside 1 to 1024; choose it within."),
        ({"grid": 1.5}, "grid=1.5 must be one to three whole numbers."),
        ({"shared": "1k"}, "shared='1k' bytes; a block may use 0 to 232448 bytes of shared memory."),
    ],
)
def test_a_launch_that_no_gpu_runs(launch, words):
    with pytest.raises(LaunchError) as caught:
        mg.kernel(K, "k")(mg.zeros(4, device="sim"), 4, **{"grid": 1, "block": 4, **launch})
    assert words in str(caught.value)


def test_arguments_that_do_not_fit_are_told_the_way():
    kernel, x = mg.kernel(K, "k"), mg.zeros(4, device="sim")
    for call in (kernel, mg.adjoint(K, ["x"]).vjp, mg.differentiable(K, "k", ["x"]), partial(mg.inspect, kernel)):
        with pytest.raises(
            TypeError, match=r"k takes its arguments in their order, \(x, n\), and none by its name: n=\."
        ):
            call(x, n=4, grid=1, block=4)
    with pytest.raises(TypeError, match=r"takes an array, .*; got list \[0, 1\]\. Make it one: mg\.tensor\(x, device"):
        kernel([0, 1], 2, grid=1, block=2)
    with pytest.raises(TypeError, match=r"got float 0\.5\. Make it one: np\.full\(n, 0\.5, 'float32'\)\."):
        kernel(0.5, 2, grid=1, block=2)
    kind = r"np\.dtype\(\[\('a', 'f4'\), \('b', 'i4'\)\], align=True\)"
    with pytest.raises(TypeError, match=rf"got dict {{'a': 1}}\. Make it one: np\.zeros\(n, {kind}\)\."):
        mg.inspect(P + "__global__ void k(P* p) { p[0].b = 1; }", {"a": 1}, grid=1, block=1)
    with pytest.raises(TypeError, match=r"takes a whole number; got float 2\.0\. Divide by //"):
        kernel(x, 4 / 2, grid=1, block=2)
    with pytest.raises(LaunchError, match=r"grid\.x=0 is outside .* is rounded up by \(n \+ 255\) // 256"):
        kernel(x, 4, grid=4 // 256, block=256)


def test_a_fault_of_a_large_launch_is_told_at_the_kernel_s_own_line():
    """Also that of its adjoint, which a launch of more than 4096 threads runs first."""
    text, x = "__global__ void k(const float* x, float* y) {\n int i = threadIdx.x + blockIdx.x * 512;\n", np.ones(5000)
    made = mg.adjoint(f"{text} y[i] = x[i] * x[i]; }}")
    with pytest.raises(
        KernelError, match=r"k: x\[5000\] is past the end of x \(5000 elements\), .* k\.cu\(3\)\. Guard"
    ):
        made.vjp(x.astype(np.float32), x.astype(np.float32), dy=[x.astype(np.float32)], grid=10, block=512)
