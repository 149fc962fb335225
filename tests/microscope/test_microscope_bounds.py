"""The microscope finds accesses out of bounds, misaligned ones and null pointers: a broken kernel for each."""

import subprocess
import sys

import numpy as np
import pytest
from watched_kernels import X, kernels, line_of, look, source

import minigrad as mg
from minigrad.errors import LaunchError
from minigrad.kernels.kernel import Kernel
from minigrad.source import Source


def test_a_missing_guard():
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x;\nfloat v = 1;\ny[i] = v;  // wrong"
    problem, text = look(body, grid=4, block=256)
    assert (problem.kind, problem.access, problem.variable, problem.element) == ("out-of-bounds", "write", "y", 1000)
    assert (problem.line, problem.block, problem.thread, problem.count) == (
        line_of(text, "wrong"),
        (3, 0, 0),
        (232, 0, 0),
        24,
    )
    assert "y[1000], and y has 1000 elements" in problem.message and "if (i < n)" in problem.message


@pytest.mark.parametrize("index, element", [("-i", -1), ("100000 * i", 100000)], ids=["negative", "far away"])
def test_an_index_far_outside_belongs_to_its_own_array_and_the_kernel_goes_on(index, element):
    y = np.zeros(64, np.float32)
    problem, _ = look(f"int i = threadIdx.x;\ny[i] = x[{index}];\ny[i] = i;", X, y, 64)
    assert (problem.variable, problem.element, problem.thread, problem.count) == ("x", element, (1, 0, 0), 63)
    assert (y == np.arange(64)).all()


WRAPS = "unsigned i = threadIdx.x;\ny[i] = w[i] + x[i - 1];  // wrong"


@pytest.mark.parametrize("dtype, real", [("float32", "float"), ("float64", "double"), ("int32", "int")])
def test_an_index_below_0_that_is_unsigned_belongs_to_its_own_array(dtype, real):
    params = f"const {real}* x, const {real}* w, {real}* y, {real}* z"
    problem, text = look(WRAPS, *np.zeros((4, 8), dtype), params=params, block=8)
    assert (problem.variable, problem.element, problem.count) == ("x", -1, 1)
    assert (problem.line, problem.thread) == (line_of(text, "// wrong"), (0, 0, 0))
    assert "reads x[-1] (4294967295 as unsigned), and x has 8 elements" in problem.message


@pytest.mark.parametrize(
    "shared", ["extern __shared__ float s[];", "__shared__ float s[8];"], ids=["dynamic", "static"]
)
@pytest.mark.parametrize("pointer", ["s", "p"])
def test_an_unsigned_index_below_0_of_shared_memory(shared, pointer):
    body = (
        f"{shared}\nfloat* p = s;\ns[threadIdx.x] = 1;\n__syncthreads();\ny[0] = {pointer}[threadIdx.x - 1];  // wrong"
    )
    problem, text = look(body, block=8, shared=32 * ("extern" in shared))
    assert (problem.kind, problem.variable, problem.line) == ("out-of-bounds", "s", line_of(text, "// wrong"))
    assert ("index -1 (4294" if pointer == "s" and "extern" not in shared else "s[-1] (4294") in problem.message


def test_an_unsigned_index_below_0_in_the_first_launch_of_a_process():
    """There the buffers' addresses are next to those of shared memory."""
    body = "extern __shared__ float s[];\ns[threadIdx.x] = 1;\ny[threadIdx.x] = s[threadIdx.x - 1];"
    code = f"""import numpy as np, minigrad as mg
y = np.zeros(8, np.float32)
print([p.variable for p in mg.inspect({source(body)!r}, y.copy(), y, 8, grid=1, block=8, shared=32).problems])"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "['s']\n"


def test_an_index_that_nobody_has_set_is_told_ahead_of_where_it_leads():
    body = "int k;\nif (threadIdx.x < 3) k = 1;\ny[threadIdx.x] = x[k];"
    record = mg.inspect(f"__global__ void k(const float* x, float* y) {{\n{body}\n}}", X, X.copy(), grid=1, block=8)
    assert [(p.kind, p.variable) for p in record.problems] == [("uninitialised", "k"), ("out-of-bounds", "x")]
    sums = body.replace("int k", "float k").replace("k = 1", "k += x[70]").replace("x[k]", "k")
    record = mg.inspect(
        f"__global__ void k(const float* x, float* y) {{\n{sums}\n}}", X[:64], X.copy(), grid=1, block=8
    )
    assert [(p.kind, p.variable) for p in record.problems] == [("out-of-bounds", "x"), ("uninitialised", "k")]


def test_the_element_that_is_named_is_the_first_outside():
    y = np.zeros(50, np.float32)
    problem, _ = look("int i = threadIdx.x;\nif (4 * i < n) ((float4*)y)[i] = make_float4(1, 2, 3, 4);", X, y, 50)
    assert (problem.kind, problem.element, problem.thread) == ("out-of-bounds", 50, (12, 0, 0))


def test_shared_memory_too_small():
    body = "__shared__ float s[32];\nfloat* p = s;\np[threadIdx.x] = 1;  // wrong"
    problem, text = look(body)
    assert (problem.kind, problem.variable, problem.element) == ("out-of-bounds", "s", 32)
    assert (problem.line, problem.thread, problem.count) == (line_of(text, "wrong"), (32, 0, 0), 32)


# Array, first element of the pointer, and its first element outside.
OVERRUNS = [("a", 0, 8), ("b", 0, 8), ("a", -8, -8), ("b", -8, -8), ("b", -1, -1), ("d", -4, -4)]
OVERRUN = """__shared__ float a[8], b[8];
extern __shared__ float d[];
float* p = {};
p += {};
for (int i = 0; i < {}; ++i) p[i] = 1;  // wrong
__syncthreads();"""
OVERRUNNING = kernels(OVERRUN.format(array, first, 16 if first == 0 else -first) for array, first, _ in OVERRUNS)


@pytest.mark.parametrize("number", range(len(OVERRUNS)))
def test_a_pointer_that_runs_over_an_end_of_a_shared_array_does_not_reach_the_next(number):
    array, _, outside = OVERRUNS[number]
    problem, _ = look(OVERRUNNING[number], block=1, shared=32)
    assert (problem.kind, problem.variable, problem.element) == ("out-of-bounds", array, outside)
    assert problem.text.endswith("// wrong") and problem.count == abs(outside)


def test_all_shared_memory_of_a_block_can_be_used_and_not_more():
    for size, fits in (6112, True), (6128, False):
        body = f"__shared__ float a[{size}], b[6112];\na[{size} - 1] = 1, b[6111] = 1;"
        given = (source(body), X, np.zeros_like(X), 1000)
        if fits:
            assert mg.inspect(*given, grid=2, block=1, shared=256).ok
        else:
            with pytest.raises(LaunchError, match="48960 bytes"):
                mg.inspect(*given, grid=2, block=1, shared=256)


def test_dynamic_shared_memory_too_small():
    body = "extern __shared__ float s[];\ns[threadIdx.x] = 1;\n__syncthreads();\ny[threadIdx.x] = s[threadIdx.x + 1];  // wrong"
    problem, text = look(body, shared=256)
    assert (problem.kind, problem.access, problem.variable, problem.element) == ("out-of-bounds", "read", "s", 64)
    assert (problem.line, problem.thread) == (line_of(text, "wrong"), (63, 0, 0))


def test_what_lies_behind_a_single_value_is_counted_in_bytes():
    body = "__shared__ struct { float v[2][4]; } t;\nfloat* p = &t.v[0][0];\np[threadIdx.x] = 1;  // wrong"
    problem, text = look(body, block=9)
    assert (problem.variable, problem.line) == ("t", line_of(text, "wrong"))
    assert problem.message.startswith("writes byte 32 of t, and t has 32 bytes. Check the index")


def test_an_index_that_leaves_its_row_inside_memory():
    body = "__shared__ float s[4][9];\nint i = threadIdx.x, r = i / 8, c = i % 8;\ns[r][c] = 1;\nif (c == 0) s[r][8] = 1;\n"
    problem, text = look(body + "__syncthreads();\nif (r < 3) y[i] = s[r][c + 2];  // wrong", block=32)
    assert (problem.kind, problem.variable, problem.thread) == ("out-of-bounds", "s", (7, 0, 0))
    assert problem.line == line_of(text, "wrong") and problem.count == 3
    assert "index 9" in problem.message and "float[9]" in problem.message


INDEXED = """__shared__ float s[2][8], e[2];
__shared__ struct { float a[4]; int b; } q[3];
float r[4] = {};
if (threadIdx.x == 0) { memset(s, 0, sizeof s); memset(e, 0, sizeof e); memset(q, 0, sizeof q); }
__syncthreads();
"""
INDICES = [
    ("r", "for (int j = 0; j <= 4; ++j) r[j] = x[j];"),
    ("s", "float* p = &s[0][9]; y[threadIdx.x] = x[threadIdx.x] + *p;"),
    ("s", "y[threadIdx.x] = e[1] + s[e[0] ? 1 : 0] [n];"),
    ("q", "/* ä */ y[threadIdx.x] = s[1][0] + q[1].a[n];"),
    ("r", "r[n] += x[0];"),
    (None, "#define LAST(a) a[n]\ny[threadIdx.x] = LAST(r);"),
    ("t", "__shared__ float t[2][8], u[3]; int i = 5; t[i][i % 2] = x[i];"),
]
INDEXING = kernels(INDEXED + line for _, line in INDICES)


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_the_array_of_an_index_is_the_one_that_the_line_indexes(number):
    name, line = INDICES[number]
    record = mg.inspect(INDEXING[number], X, np.zeros_like(X), 8, grid=1, block=1)
    problem = next(p for p in record.problems if p.kind == "out-of-bounds")
    assert (problem.variable, problem.text) == (name, line.splitlines()[-1])
    of = f"an extent of {name}, which is float[" if name else "an extent, which is float["
    assert of in problem.message and "aka" not in problem.message


def test_an_index_that_many_threads_get_wrong_hides_nothing_else():
    body = """__shared__ float tile[32][32], other[1024];
int t = threadIdx.y * 32 + threadIdx.x;
tile[threadIdx.y][threadIdx.x] = x[t % 1000];
__syncthreads();
float v = 0;
for (int j = 0; j < 4; ++j) v += tile[0][32 + j];  // index
other[t] = v;  // fill
y[t] = other[1023 - t];  // use"""
    text = source(body)
    record = mg.inspect(text, X, np.zeros(1024, np.float32), 1000, grid=1, block=(32, 32))
    index, race = record.problems[:2]
    assert (index.kind, index.line, index.count) == ("out-of-bounds", line_of(text, "// index"), 4096)
    assert (race.kind, race.line, race.other.line) == ("race", line_of(text, "// use"), line_of(text, "// fill"))
    assert record.complete


def test_an_index_outside_a_local_array():
    problem, text = look("float local[4] = {1, 2, 3, 4};\ny[threadIdx.x] = local[threadIdx.x];  // wrong", block=8)
    assert (problem.kind, problem.line, problem.thread) == ("out-of-bounds", line_of(text, "wrong"), (4, 0, 0))


@pytest.mark.parametrize("values", ["", " = {1, 2}"])
def test_a_pointer_that_runs_over_an_end_of_a_device_array_does_not_reach_the_next(values):
    text = "".join(f"__device__ float {name}[8]{values};\n" for name in "abc")
    text += "__device__ void set(float* p, int i) { p[i] = 1; }  // wrong\n"
    ends = [("a", 8), ("b", -1), ("b", 8)]
    for i, (name, at) in enumerate(ends):
        text += source(f"set({name}, {at});\ny[0] = a[0] + b[0] + c[0];", name=f"k{i}")
    file = Source(text, "ends.cu")
    for i, end in enumerate(ends):
        (problem,) = mg.inspect(Kernel(file, f"k{i}"), X, np.zeros_like(X), 1, grid=1, block=1).problems
        assert (problem.kind, problem.variable, problem.element) == ("out-of-bounds", *end)
        assert (problem.access, problem.line) == ("write", line_of(text, "wrong"))


def test_what_is_read_outside_is_nan():
    y = np.zeros(2, np.float32)
    record = mg.inspect(source("y[0] = x[n];\ny[1] = x[n + 5000];"), X, y, 1000, grid=1, block=1, outputs="y")
    assert [problem.kind for problem in record.problems] == ["out-of-bounds"] * 2 + ["nan"] and np.isnan(y).all()


def test_a_misaligned_float4():
    problem, text = look(
        "const float* p = x + 2;\nfloat4 v = *(const float4*)(p + 4 * threadIdx.x);  // wrong\ny[0] = v.x;"
    )
    assert (problem.kind, problem.variable, problem.line) == ("misaligned", "x", line_of(text, "wrong"))
    assert problem.element == 2
    assert (problem.block, problem.thread) == ((0, 0, 0), (0, 0, 0)) and "16 bytes" in problem.message


def test_a_misaligned_int_has_its_article():
    problem, _ = look(
        "y[0] = *(const int*)(p + 1);", np.zeros(64, np.uint8), X.copy(), params="const unsigned char* p, float* y"
    )
    assert (problem.kind, problem.variable, problem.element) == ("misaligned", "p", 1)
    assert "an int must begin at a multiple of 4 bytes" in problem.message


MISALIGNED = [  # an access, the alignment that it demands, and the element of x or s in which it begins
    ("y[0] = *(const float*)((const char*)x + 1);", 4, 0),
    ("const float v = *(const float*)((const char*)x + 6);\ny[0] = v;", 4, 1),
    ("double v = *(const double*)(x + 1);\ny[0] = v;", 8, 1),
    ("*(double*)(x + 3) = 1;", 8, 3),
    ("y[0] = *(const short*)((const char*)x + 3);", 2, 0),
    ("y[0] = *(const long long*)((const char*)x + 12);", 8, 3),
    ("float2 v = *(const float2*)(x + 1);\ny[0] = v.x;", 8, 1),
    ("*(float2*)(x + 5) = make_float2(1, 1);", 8, 5),
    ("float4 v = *(const float4*)(x + 6);\ny[0] = v.x;", 16, 6),
    ("*(float4*)(x + 2) = make_float4(1, 1, 1, 1);", 16, 2),
    ("y[0] = *(volatile float*)((char*)x + 1);", 4, 0),
    ("y[0] = *(const float*)(s + 1);", 4, 1),
    ("double v = *(const double*)(s + 4);\ny[0] = v;", 8, 4),
]


@pytest.mark.parametrize(("access", "align", "element"), MISALIGNED)
def test_a_wrong_alignment_by_a_constant(access, align, element):
    body = f"__shared__ char s[64];\ns[threadIdx.x] = 1;\n__syncthreads();\n{access}"
    problem, text = look(body, X.copy(), X.copy(), params="float* x, float* y")
    first = access.split("\n")[0]
    assert (problem.kind, problem.element, problem.line) == ("misaligned", element, line_of(text, first))
    assert problem.variable == ("s" if "(s" in access else "x")
    assert f"must begin at a multiple of {align} bytes" in problem.message
    if problem.variable == "x" and "char*" not in access:
        assert f"Let it begin at a multiple of {align // 4} elements of x" in problem.message


@pytest.mark.parametrize("read", ["float v;\nmemcpy(&v, (const char*)x + 1, 4);", "float v = ((const P*)x)->b;"])
def test_bytes_that_are_copied_and_packed_members_need_no_alignment(read):
    text = "struct __attribute__((packed)) P { char a; float b; };\n" + source(f"{read}\ny[threadIdx.x] = v;")
    assert mg.inspect(text, X, X.copy(), 0, grid=1, block=4).ok


@pytest.mark.parametrize("kind", ["S* s", "S s", ""], ids=["pointer", "by value", "local"])
@pytest.mark.parametrize("members", ["int n; float a[4];", "float a[4]; int n;"], ids=["last", "first"])
def test_an_index_past_a_members_array(kind, members):
    """Also that of the last member, which compilers take for one of open length."""
    path = "s->a" if "*" in kind else "s.a"
    declared = "" if kind else "S s = {};\n"
    body = f"{declared}float* end = &{path}[4];\ny[threadIdx.x] = {path}[n] + (end - {path});  // wrong"
    params = [*[kind] * bool(kind), "float* y, int n"]
    text = f"struct S {{ {members} }};\n" + source(body, ", ".join(params))
    dtype = np.dtype([("a", "f4", 4), ("n", "i4")][:: -1 if members[0] == "i" else 1], align=True)
    given = [np.zeros(3 if "*" in kind else (), dtype)] * bool(kind)
    assert mg.inspect(text, *given, X.copy(), 3, grid=1, block=4).ok
    (problem,) = mg.inspect(text, *given, X.copy(), 4, grid=1, block=4).problems
    assert (problem.kind, problem.line, problem.count) == ("out-of-bounds", line_of(text, "wrong"), 4)
    assert "index 4 is outside an extent of s, which is float[4]" in problem.message


@pytest.mark.parametrize("extent", ["", "0", "1"])
def test_a_member_of_open_length_has_no_extent(extent):
    """Nor has one of length 1, which stands for that in C; but the memory has its end."""
    text = f"struct S {{ int n; float a[{extent}]; }};\n" + source(
        "const S* s = (const S*)x;\ny[threadIdx.x] = s->a[n];"
    )
    assert mg.inspect(text, X, X.copy(), 998, grid=1, block=4).ok
    (problem,) = mg.inspect(text, X, X.copy(), 999, grid=1, block=4).problems
    assert (problem.kind, problem.variable, problem.element) == ("out-of-bounds", "x", 1000)


def test_a_member_of_length_1_of_a_variable_has_its_extent():
    text = "struct S { int n; float a[1]; };\n" + source("S s = {};\ny[threadIdx.x] = s.a[n];")
    (problem,) = mg.inspect(text, X, X.copy(), 1, grid=1, block=4).problems
    assert "index 1 is outside an extent of s, which is float[1]" in problem.message


CALLS = "atomicAdd(p, 1)", "atomicExch(p, 1)", "atomicCAS(p, 0, 1)", "atomicMax(p, 1)"


@pytest.mark.parametrize(
    "kernel", kernels((f"int* p = (int*)((char*)x + 6);\n{call};  // wrong" for call in CALLS), "int* x")
)
def test_a_misaligned_atomic(kernel):
    problem, _ = look(kernel, np.zeros(8, np.int32))
    assert (problem.kind, problem.variable, problem.element) == ("misaligned", "x", 1)
    assert problem.text.endswith("// wrong") and "a word of an atomic must begin" in problem.message


@pytest.mark.parametrize("shared", ["__shared__ float s[64];", "extern __shared__ float s[];"])
def test_a_misaligned_float4_in_shared_memory(shared):
    body = f"{shared}\nint t = threadIdx.x;\ns[t] = x[t];\n__syncthreads();\n"
    body += "if (t < 8) {\nfloat4 v = *(float4*)&s[4 * t + 1];  // wrong\ny[t] = v.x;\n}"
    problem, text = look(body, shared=256 * ("extern" in shared))
    assert (problem.kind, problem.variable, problem.element) == ("misaligned", "s", 1)
    assert problem.line == line_of(text, "// wrong") and "access to s[1]; a " in problem.message


def test_an_index_that_leads_next_to_another_array_is_of_its_own():
    body = "extern __shared__ float s[];\ns[threadIdx.x] = 0;\nint i = -(1 << 30);\natomicAdd(&s[i], y[threadIdx.x]);  // wrong"
    problem, text = look(body, block=8, shared=32)
    assert (problem.variable, problem.element, problem.line) == ("s", -(1 << 30), line_of(text, "wrong"))


def test_dynamic_shared_memory_that_the_launch_does_not_give():
    problem, _ = look("extern __shared__ float s[];\ns[threadIdx.x] = 0;")
    assert (problem.kind, problem.variable) == ("out-of-bounds", "s") and "shared= of the launch" in problem.message


def test_a_null_pointer():
    problem, _ = look("y[threadIdx.x] = x[threadIdx.x];", None, np.zeros(64, np.float32), 64)
    assert (problem.kind, problem.variable, problem.line) == ("null-pointer", "x", 2)


HEAP = """#include <cstdlib>
struct Base { int v; __device__ Base(int v) : v(v) {} __device__ virtual int get() { return v; } __device__ virtual ~Base() {} };
struct Twice : Base { __device__ Twice() : Base(3) {} __device__ int get() override { return 2 * v; } };
__global__ void k(int* y) {
    __shared__ int* all;
    if (threadIdx.x == 0) all = (int*)malloc(64 * sizeof(int));
    __syncthreads();
    int* own = new int[3];
    own[2] = threadIdx.x;
    Base* base = threadIdx.x % 2 ? new Base(1) : new Twice;
    all[threadIdx.x] = own[2] + base->get();
    delete[] own;
    delete base;
    __syncthreads();
    y[threadIdx.x] = all[63 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(all);
}"""


def test_memory_that_a_kernel_takes_is_in_no_array_and_right():
    y = np.zeros(64, np.int32)
    assert mg.inspect(HEAP, y, grid=1, block=64).problems == []
    assert y.tolist() == [t + (1 if t % 2 else 6) for t in range(63, -1, -1)]
