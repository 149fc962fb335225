"""The microscope sees structs that are handed over by value, and names the reader's line where a function of a header, or
one that copies a struct, makes an access.
"""

import numpy as np
import pytest
from watched_kernels import line_of

import minigrad as mg
from minigrad.adjoint import NotDifferentiable
from minigrad.devices.host_compiler import find_compiler
from minigrad.errors import KernelError
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source

STRUCTS = """struct P { float a, b, c; __device__ float times(P o) const { return a * o.b; } };
struct Q { P p[2]; };
struct Base { float a; };
struct Own : Base {
    float b;
    __device__ Own(const Own& o) : Base(o) { b = o.b; }  // the reader's own copy
};
struct Of { float2 v; __device__ Of(float2 q) : v(q) {} };
struct Has { float2 v; };
template <typename T> struct Pair { T a, b; };
__device__ float length(float2 v) { return v.x + v.y; }
__device__ float2 operator+(float2 v, float2 w) { return make_float2(v.x + w.x, v.y + w.y); }
__device__ float first(P p) { return p.a; }
__device__ float base(Base b) { return b.a; }
__device__ float of_own(Own o) { return o.b; }
__device__ float quad(float4 v) { return v.x + v.w; }
__device__ float of_has(Has h) { return h.v.x; }
__device__ float inner(Q q) { return q.p[1].b; }
__device__ float2 back(const float2* x, int i) { return x[i]; }
__device__ float2 same(float2 v) { return v; }
template <typename T> __device__ float head(T p) { return p.a; }
typedef float (*F)(float2);
"""
# Type of the elements, and an expression that reads element i of p.
READS = {
    "argument": ("float2", "length(p[i])"),
    "two arguments": ("float2", "(p[0] + p[i]).x"),
    "reference": ("float2", "[&](const float2& v) { return length(v); }(p[i])"),
    "pointer": ("float2", "length(*(p + i))"),
    "choice": ("float2", "length(n ? p[i] : p[0])"),
    "lambda": ("float2", "[](float2 v) { return v.y; }(p[i])"),
    "capture": ("float2", "[v = p[i]] { return v.y; }()"),
    "constructor": ("float2", "Of(p[i]).v.x"),
    "aggregate": ("float2", "of_has({p[i]})"),
    "returned": ("float2", "back(p, i).x"),
    "handed on": ("float2", "length(same(same(p[i])))"),
    "function pointer": ("float2", "F(length)(p[i])"),
    "float4": ("float4", "quad(p[i])"),
    "struct": ("P", "first(p[i])"),
    "method": ("P", "p[0].times(p[i])"),
    "struct of structs": ("Q", "inner(p[i])"),
    "member": ("Q", "first(p[i].p[0])"),
    "base": ("Own", "base(p[i])"),
    "own copy": ("Own", "of_own(p[i])"),
    "template": ("Pair<float>", "head(p[i])"),
}

BODY = """__global__ void {name}(const float* x, float* y, int n) {{
    const {T}* p = (const {T}*)x;
    int t = threadIdx.x, i = t + n;
    float value = {value};  // {name} reads
    y[t] = value;
}}
"""
NAMES = {each: f"of_{each.replace(' ', '_')}" for each in READS}
FILE = Source(STRUCTS + "".join(BODY.format(name=NAMES[each], T=T, value=v) for each, (T, v) in READS.items()), "k.cu")
SIZES = {"P": 3, "Q": 6, "float4": 4}  # floats of a struct; of the others two


def place(each: str) -> int:
    return line_of(FILE.text, "return x[i]" if each == "returned" else f"{NAMES[each]} reads")


@pytest.mark.parametrize("each", READS)
def test_a_struct_by_value_outside_its_array(each):
    size = SIZES.get(READS[each][0], 2)
    x, y = np.arange(8 * size, dtype=np.float32), np.zeros(8, np.float32)
    record = mg.inspect(Kernel(FILE, NAMES[each]), x, y, 0, grid=1, block=8)
    assert record.ok and not np.isnan(y).any()
    assert place(each) in {line.line for line in record.lines if line.variable == "x"}
    (problem,) = mg.inspect(Kernel(FILE, NAMES[each]), x, y, 1, grid=1, block=8).problems
    assert (problem.kind, problem.access, problem.variable) == ("out-of-bounds", "read", "x")
    assert (problem.line, problem.thread, problem.element // size) == (place(each), (7, 0, 0), 8)


MIRROR = """__device__ double f(double2 a) { return a.x * a.y; }
__global__ void k(const double2* x, double* y) {
    __shared__ double2 s[8];
    int i = threadIdx.x;
    s[i] = x[i];  // fill
    y[i] = f(s[7 - i]);  // mirror
}"""


def test_a_race_of_structs_by_value():
    x, y = np.ones((8, 2)), np.zeros(8)
    (problem,) = mg.inspect(MIRROR, x, y, grid=1, block=8).problems
    lines = line_of(MIRROR, "mirror"), line_of(MIRROR, "fill")
    assert (problem.kind, problem.variable, problem.line, problem.other.line) == ("race", "s", *lines)
    assert mg.inspect(MIRROR.replace("// fill", "__syncthreads();"), x, y, grid=1, block=8).ok


def test_an_adjoint_is_refused_where_structs_by_value_race():
    x, y = np.random.default_rng(1).random((8, 2)), np.zeros(8)
    with pytest.raises(NotDifferentiable, match="the kernel has a race and so no gradient"):
        mg.adjoint(MIRROR).vjp(x, y, grid=1, block=8, dy=[np.ones(8)])
    ordered = mg.adjoint(MIRROR.replace("// fill", "__syncthreads();"))
    dx, *_ = ordered.vjp(x, y, grid=1, block=8, dy=[np.ones(8)])
    assert np.allclose(np.asarray(dx), x[:, ::-1])


def test_undefined_shared_memory_of_a_struct_by_value():
    text = MIRROR.replace("s[i] = x[i];", "if (i) s[i] = x[i]; __syncthreads();")
    (problem,) = mg.inspect(text, np.ones((8, 2)), np.zeros(8), grid=1, block=8).problems
    assert (problem.kind, problem.variable, problem.line) == ("uninitialised", "s", line_of(text, "mirror"))


ROWS = """#include <cuda_fp16.h>
#define AT(a, i) a[i]
struct R { float2 row[4]; int n; };
__constant__ float2 c[4] = {};
__device__ float g(float2 b) { return b.x; }
__global__ void k(float* y, int n) {
    __shared__ float2 s[4][4];
    __shared__ __half h[4][4];
    __shared__ R r[4];
    float2 own[4] = {};
    int t = threadIdx.x, p[2] = {0, n};
    for (int j = 0; j < 4; j++) s[t][j] = r[t].row[j] = c[t], h[t][j] = t;
    __syncthreads();
    y[t] = VALUE;
}"""


@pytest.mark.skipif(find_compiler().is_clang, reason="only with GCC")
@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("g(c[n])", "c"), ("g(s[2][n])", "s"), ("g(s[p[0]][p[1]])", "s"), ("g(AT(s[t % 2], n))", "s"), ("g(own[n])", "own"),
        ("g(r[0].row[n])", "r"), ("(float)h[t / 2][n]", "h"), ("s[2][n].x", "s"), ("n && g(s[1][n]) > 0", "s"),
        ("({ float2 v = s[1][n]; v.y; })", "s"), ("({ if (!t) s[1][n] = c[0]; 1; })", "s"),
    ],
)  # fmt: skip
def test_an_index_of_a_struct_right_behind_its_row(value, name):
    text = ROWS.replace("VALUE", value)
    inside, outside = (
        [p for p in mg.inspect(text, np.zeros(4, np.float32), n, grid=1, block=4).problems if p.kind != "race"]
        for n in (3, 4)
    )
    assert not inside
    problem = outside[0]
    assert (problem.kind, problem.variable, problem.line) == ("out-of-bounds", name, line_of(text, "y[t] ="))
    assert problem.count == (1 if "!t" in value else 4) and "index 4 is outside an extent" in problem.message


def test_the_address_of_the_struct_behind_a_row_is_no_index():
    assert mg.inspect(
        ROWS.replace("VALUE", "&own[n] - own + (n && &s[1][n])"), np.zeros(4, np.float32), 4, grid=1, block=4
    ).ok


def test_the_padding_of_a_struct_by_value_is_not_undefined():
    """Nor are bits that belong to no member, and the longer member of a union."""
    text = """struct Like2 { char c; int i; };  // as large as a float2
struct alignas(8) Aligned { int i; char c; };
struct alignas(2) Byte { char c; };
union Either { float4 v; char c; };
struct Bits { unsigned c : 12, d : 4; };
template <typename S> __device__ int f(S s) { return s.c; }
__global__ void k(const float2* x, int* y) {
    __shared__ Like2 s[8];
    __shared__ Aligned a[8];
    __shared__ Byte b[8];
    __shared__ Either e[8];
    __shared__ Bits bits[8];
    __shared__ alignas(8) char bytes[64];
    int t = threadIdx.x, o = 7 - t;
    Aligned* in = (Aligned*)bytes;
    s[t].c = t, s[t].i = 2, a[t].c = t, a[t].i = 2, b[t].c = t, e[t].c = t, bits[t].c = t, in[t].c = t, in[t].i = 2;
    __syncthreads();
    y[t] = f(s[o]) + f(a[o]) + f(b[o]) + f(e[o]) + f(bits[o]) + f(in[o]);
}"""
    y = np.zeros(8, np.int32)
    assert (
        mg.inspect(text, np.zeros((8, 2), np.float32), y, grid=1, block=8).ok and (y == 6 * np.arange(7, -1, -1)).all()
    )


def test_a_vector_by_value_that_is_set_in_part():
    text = """__device__ float f(float2 v) { return v.x + v.y; }
__global__ void k(float* y) {
    __shared__ float2 s[8];
    s[threadIdx.x].x = 1;
    y[threadIdx.x] = f(s[threadIdx.x]);  // wrong
}"""
    (problem,) = mg.inspect(text, np.zeros(8, np.float32), grid=1, block=8).problems
    assert (problem.kind, problem.variable, problem.line) == ("uninitialised", "s", line_of(text, "wrong"))


def test_a_vector_by_value_is_counted_as_one_access():
    text = """__device__ float f(float4 a, float4 b) { return a.x + b.w; }
__global__ void k(const float4* x, float* y) { y[threadIdx.x] = f(x[threadIdx.x], x[threadIdx.x + 32]); }"""
    record = mg.inspect(text, np.ones((64, 4), np.float32), np.zeros(32, np.float32), grid=1, block=32)
    reads = [line for line in record.lines if line.kind == "read"]
    assert [(line.requests, line.sectors, line.bytes) for line in reads] == [(1, 16, 512)] * 2
    assert not record.branches


# Header, type of the elements, expression.
HEADERS = [
    ("cuda_fp16.h", "__half", "(float)x[t + n]"),
    ("cuda_fp16.h", "__half", "__half2float(x[t + n] + x[t])"),
    ("cuda_fp16.h", "__half2", "__half2float(__low2half(x[t + n]))"),
    ("cuda_bf16.h", "__nv_bfloat16", "float(x[t + n])"),
    ("algorithm", "float", "*std::max_element(x + t + n, x + t + n + 1)"),
    ("algorithm", "float", "std::max(x[t], x[t + n])"),
]


@pytest.mark.parametrize(("header", "T", "value"), HEADERS)
def test_an_access_in_a_header_is_told_at_the_readers_line(header, T, value):
    head = f"#include <{header}>\n__global__ void k(const {T}* x, float* y, int n) {{\nint t = threadIdx.x;\n"
    text = f"{head}y[t] = {value};  // here\n}}"
    dtype, size = (np.float32, 1) if T == "float" else (np.uint16 if "bf" in T else np.float16, 1 + (T == "__half2"))
    x = np.zeros((8, size), dtype).squeeze()
    if "bf" in T:
        x = mg.zeros(8, dtype="bfloat16", device="sim")
    record = mg.inspect(text, x, np.zeros(8, np.float32), 0, grid=1, block=8)
    assert record.ok and {(line.file, line.line) for line in record.lines} == {("k.cu", 4)}
    (problem,) = mg.inspect(text, x, np.zeros(8, np.float32), 1, grid=1, block=8).problems
    assert (problem.kind, problem.file, problem.line) == ("out-of-bounds", "k.cu", line_of(text, "here"))


def test_a_race_in_a_header_is_told_at_the_readers_line():
    text = """#include <utility>
__global__ void k(float* y) {
    int t = threadIdx.x;
    std::swap(y[t], y[t + 1]);  // swap
}"""
    (problem,) = mg.inspect(text, np.zeros(9, np.float32), grid=1, block=8).problems
    assert (problem.kind, problem.file, problem.line, problem.other.line) == ("race", "k.cu", 4, 4)


@pytest.mark.parametrize(
    "use", ["y[t] = __ldcs((const float4*)(x + 1)).x;", "__stcs((float4*)(y + 1), make_float4(0, 0, 0, 0));"]
)
def test_a_misaligned_access_in_a_header_is_told_at_the_readers_line(use):
    text = f"__global__ void k(const float* x, float* y) {{\nint t = threadIdx.x;\n{use}  // here\n}}"
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    (problem,) = mg.inspect(text, x, y, grid=1, block=1).problems
    assert (problem.kind, problem.file, problem.line) == ("misaligned", "k.cu", line_of(text, "here"))
    with pytest.raises(KernelError, match=r"k.cu\(3\)"):
        mg.kernel(text, "k")(*(mg.tensor(each, device="sim") for each in (x, y)), grid=1, block=1)
