"""The microscope finds undefined shared memory, outputs that are never written, and NaN."""

import re

import numpy as np
import pytest
from watched_kernels import X, kernels, line_of, look, source

import minigrad as mg


@pytest.mark.parametrize("word", ["", "  // as a float2", '  const char* w = "float2";'])
def test_a_word_in_a_comment_makes_no_struct_a_vector(word):
    body = f"""struct Pair {{ float value; int index; }};{word}
__shared__ Pair s[64];
s[threadIdx.x].value = 1;
__syncthreads();
Pair p = s[63 - threadIdx.x];
y[threadIdx.x] = p.value;"""
    assert mg.inspect(source(body), X, np.zeros_like(X), 1000, grid=1, block=64).ok


@pytest.mark.parametrize("read", ["s[i]", "two[i].y"], ids=["half of a word", "half of a vector"])
def test_an_element_of_which_a_part_is_undefined(read):
    body = "__shared__ unsigned s[64];\n__shared__ float2 two[64];\nint i = threadIdx.x;\n"
    problem, text = look(body + f"((short*)&s[i])[0] = 1;\ntwo[i].x = 1;\ny[i] = {read};  // wrong")
    assert (problem.kind, problem.line, problem.count) == ("uninitialised", line_of(text, "wrong"), 64)


@pytest.mark.parametrize(
    "body",
    [
        "__shared__ int s;\natomicAdd(&s, 1);  // reads\ny[threadIdx.x] = s;",
        "__shared__ float s[128];\nint i = threadIdx.x;\ns[i] = s[64 + i];  // reads\ny[i] = s[63 - i];",
    ],
    ids=["an atomic", "the writer"],
)
def test_a_race_does_not_hide_undefined_memory_that_its_other_side_reads(body):
    text = source(body)
    race, undefined = mg.inspect(text, X, np.zeros_like(X), 1000, grid=1, block=64).problems
    assert (race.kind, undefined.kind) == ("race", "uninitialised")
    assert race.other.line == undefined.line == line_of(text, "reads")


def test_undefined_memory_that_is_filled_too_late_is_a_race_and_nothing_else():
    look("__shared__ int s;\nif (threadIdx.x == 63) s = 0;\natomicAdd(&s, 1);")


def test_undefined_shared_memory():
    body = "__shared__ float s[64];\nif (threadIdx.x > 0) s[threadIdx.x] = 1;\n__syncthreads();\n"
    problem, text = look(body + "y[threadIdx.x] = s[63 - threadIdx.x];  // wrong")
    assert (problem.kind, problem.variable, problem.element) == ("uninitialised", "s", 0)
    assert (problem.line, problem.thread) == (line_of(text, "wrong"), (63, 0, 0))


def test_shared_memory_of_the_block_before_is_undefined_too():
    body = "__shared__ float s[64];\nif (blockIdx.x == 0) s[threadIdx.x] = 1;\n__syncthreads();\n"
    problem, _ = look(body + "atomicAdd(&y[0], s[threadIdx.x]);", grid=2)
    assert (problem.kind, problem.block, problem.count) == ("uninitialised", (1, 0, 0), 64)


def test_an_element_that_is_never_written():
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n - 1) y[i] = 1;  // short"
    problem, text = look(body, grid=16, outputs=("y",))
    assert (problem.kind, problem.variable, problem.element, problem.count) == ("never-written", "y", 999, 1)
    assert problem.line == line_of(text, "short") and "y[999]" in problem.message


def test_an_element_that_is_written_in_part():
    text = source("((short*)y)[2 * threadIdx.x + threadIdx.x / 63] = 1;")
    (problem,) = mg.inspect(text, X, np.zeros(64, np.float32), 64, grid=1, block=64, outputs="y").problems
    assert (problem.kind, problem.variable, problem.element, problem.count) == ("never-written", "y", 0, 64)


def test_a_nan_and_who_wrote_it():
    body = "int i = blockIdx.x * blockDim.x + threadIdx.x;\nif (i < n) y[i] = sqrtf(997 - x[i]);  // root"
    problem, text = look(body, grid=16, outputs="y")
    assert (problem.kind, problem.variable, problem.element, problem.count) == ("nan", "y", 998, 2)
    assert (problem.line, problem.block, problem.thread) == (line_of(text, "root"), (15, 0, 0), (38, 0, 0))


def test_an_output_that_only_atomics_write_is_written():
    text = source("atomicAdd(&y[threadIdx.x], x[threadIdx.x]);")
    assert mg.inspect(text, X, np.zeros(64, np.float32), 64, grid=2, block=64, outputs=["y"]).ok


# What becomes of v, which lane 3 takes from a lane outside of the mask; and the first element that is made of it.
USES = {
    "y[threadIdx.x] = v;": 0,
    "if (threadIdx.x == 3) y[5] = 2 - v * x[3];": 5,
    "__shared__ float s[32];\ns[threadIdx.x] = v;\n__syncwarp();\nif (threadIdx.x == 7) y[7] = s[3];": 7,
    "atomicAdd(y + threadIdx.x / 2, v);": 0,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("use", "element"), USES.items())
def test_a_shuffle_from_a_lane_that_is_not_in_the_mask(use, element, dtype):
    real = "double" if dtype == "float64" else "float"
    body = f"float v = 1;\nif (threadIdx.x < 16) v += __shfl_sync(0xffff, v, 20);  // wrong\n{use}"
    args, params = (X, np.zeros(32, dtype), 32), f"const float* x, {real}* y, int n"
    problem, text = look(body, *args, params=params, block=32)
    assert (problem.kind, problem.line, problem.harmless) == ("inactive-lane", line_of(text, "wrong"), False)
    assert "from lane 20, which is not in the mask" in problem.message and problem.count == 16
    assert f"y[{element}] was made of such a value" in problem.message


@pytest.mark.parametrize(
    "use", ["if (threadIdx.x == 0) y[0] = v;", "if (threadIdx.x == 3) v = 5;\nif (threadIdx.x < 4) y[0] = v > 3;"]
)
def test_a_value_of_a_lane_that_is_not_in_the_mask_may_remain_unused(use):
    body = f"float v = 1;\nif (threadIdx.x < 4)\nfor (int o = 2; o; o /= 2) v += __shfl_down_sync(0xf, v, o);\n{use}"
    assert not [
        each for each in mg.inspect(source(body), X, X * 0, 0, grid=1, block=32).problems if each.kind != "race"
    ]


def test_a_value_of_a_lane_that_is_not_in_the_mask_is_of_its_shuffle():
    """The sum by halves leaves such values unused; the other shuffle's is written, to a member of a struct."""
    text = """struct P { float3 at; double m; };
__global__ void k(const float* x, float* y, P* p) {
    float v = x[threadIdx.x];
    if (threadIdx.x < 4)
        for (int o = 2; o; o /= 2) v += __shfl_down_sync(0xf, v, o);
    if (threadIdx.x == 0) y[0] = v;
    if (threadIdx.x < 16) p[threadIdx.x].MEMBER += __shfl_down_sync(0xffff, v, 16);  // wrong
}"""
    for member in ("at.y", "m"):
        p = np.zeros(16, np.dtype([("at", "f4", 3), ("m", "f8")], align=True))
        (problem,) = mg.inspect(text.replace("MEMBER", member), X, X * 0, p, grid=1, block=32).problems
        assert (problem.kind, problem.line) == ("inactive-lane", line_of(text, "wrong"))
        assert "p[0] was made of such a value" in problem.message


def test_nan_of_the_input_is_of_no_lane():
    body = "float v = x[threadIdx.x];\nif (threadIdx.x < 4) v += __shfl_down_sync(0xf, v, 2);\nif (threadIdx.x < 2) y[threadIdx.x] = v;"
    assert mg.inspect(source(body), X * np.nan, X * 0, 0, grid=1, block=32).ok


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("float s;\nfor (int i = 0; i < n; ++i)\n    s += x[i];  // wrong\ny[threadIdx.x] = s;", "s"),
        ("float a = 1, s;\nfor (int i = 0; i < n; ++i) {\n    s = fmaf(a, x[i], s);  // wrong\n}\ny[0] = s;", "s"),
        ("int i, count;\nfor (i = 0; i < n; i++)\n    if (x[i] > 9) count++;  // wrong\ny[threadIdx.x] = count;", "count"),
        ("double v[4][2];\nv[0][1] = 0;\nv[n & 3][1] -= x[0];  // fine\nv[n - 999][0] -= x[0];  // wrong\n", "v[n - 999][0]"),
        ("float m;\nfor (int i = 0; i < n; ++i)\n    if (fabsf(x[i]) > m) m = x[i];  // wrong\ny[threadIdx.x] = m;", "m"),
        ("float4 v;\nv.x = v.z = 0;\nv.x += 1;\nif (n) ++v.y;  // wrong\ny[threadIdx.x] = v.x;", "v.y"),
    ],
)  # fmt: skip
def test_an_accumulator_that_nobody_set(body, place):
    problem, text = look(body, block=1)
    assert (problem.kind, problem.line, problem.variable) == (
        "uninitialised",
        line_of(text, "wrong"),
        place.split(".")[0].split("[")[0],
    )
    assert f"reads and changes {place}, which nothing has set" in problem.message


def test_an_accumulator_behind_a_reference():
    text = "__device__ void add(float& s, float v) { s += v; }\n" + source(
        "float s;\nadd(s, x[0]);\ny[threadIdx.x] = s;"
    )
    (problem,) = mg.inspect(text, X, X * 0, 1000, grid=1, block=32).problems
    assert (problem.kind, problem.line, problem.count) == ("uninitialised", 1, 32)
    assert mg.inspect(text.replace("float s;", "float s = 0;"), X, X * 0, 1000, grid=1, block=32).ok


@pytest.mark.parametrize(
    "body",
    [
        "int r;\nif (threadIdx.x % 32 == 0) r = n;\nr = __shfl_sync(0xffffffff, r, 0);\ny[threadIdx.x] = r;",
        "float m;\nfor (int i = 0; i < n; ++i)\n    if (i == 0 || x[i] > m) { m = x[i]; }\ny[threadIdx.x] = m;",
        "float s;\nif (n) s = 0;\ns += x[0];\ny[threadIdx.x] = s;",
        "int i;\nfor (i = threadIdx.x; i < n; i += 64) y[i] = x[i];",
        "float v[4];\nfor (int i = 0; i < 4; ++i) v[i] = 0;\nfor (int i = 0; i < 4; ++i) v[i] += x[i];\ny[threadIdx.x] = v[3];",
        "short s;\ns = 1;\ns <<= 1;\nunsigned char c[2];\nc[1] = s;\nc[1]++;\ny[threadIdx.x] = c[1];",
    ],
)  # fmt: skip
def test_a_variable_that_is_set_later_is_no_problem(body):
    assert mg.inspect(source(body), X, X * 0, 1000, grid=1, block=64).ok


FUNCTIONS = """struct P { float a, b; };
__device__ float second(P p) { return p.b; }
template <class T> __device__ void exchange(T& a, T& b) { T t = a; a = b; b = t; }
__device__ float sum(const float* p) {
    float s = 0;
    for (int j = 0; j < 4; ++j) s += p[j];  // sum
    return s;
}
__device__ void fill(float (&p)[4]) { for (int j = 0; j < 4; ++j) p[j] = j; }
__device__ void set(float& v) { v = 3; }
"""
UNSET_ELEMENTS = [  # the place that is read and never set, and the mark of its line
    ("float a[4];\na[0] = 1;\ny[i] = a[2];  // wrong", "a[2]", "wrong"),
    ("float a[4];\nfor (int j = 1; j < 4; ++j) a[j] = x[j];\nfloat s = 0;\nfor (int j = 0; j < 4; ++j)\n    s += a[j];  // wrong\ny[i] = s;", "a[j]", "wrong"),
    ("float a[2][2];\na[0][1] = 1;\ny[i] = 2 * a[1][0];  // wrong", "a[1][0]", "wrong"),
    ("double a[3];\na[0] = 1;\nif (a[n - 999] > 0)  // wrong\n    y[i] = 1;", "a[n - 999]", "wrong"),
    ("float4 a[2];\na[0].x = 1;\ny[i] = x[i] + a[0].y;  // wrong", "a[0].y", "wrong"),
    ("P a[2];\na[0].a = 1;\ny[i] = second(a[1]);  // wrong", "a[1]", "wrong"),
    ("int a[2];\nfloat b[2] = {};\na[0] = 1;\nfloat t = b[a[1] & 1];  // wrong\ny[i] = t;", "a[1]", "wrong"),
    ("float a[2], t;\na[0] = t = 1; y[i] = a[1];  // wrong\n", "a[1]", "wrong"),
    ("float a[2];\nfloat t = a[0]; t = a[1] + 1;  // wrong\ny[i] = t;", "a[1]", "wrong"),
    ("float a[2];\na[0] = 1;\n*(y + i) = a[1];  // wrong", "a[1]", "wrong"),
    ("int a[4];\na[0] = 1;\natomicAdd(&y[a[1] & 31], 1.0f);  // wrong", "a[1]", "wrong"),
    ("float a[4];\na[0] = 1;\ny[i] = sum(a);", "p[j]", "// sum"),
    ("for (int r = 0; r < 2; ++r) {\n    float a[2];\n    if (r == 0) a[1] = 1;\n    y[i] = a[1];  // wrong\n}", "a[1]", "wrong"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "place", "mark"), UNSET_ELEMENTS)
def test_an_element_of_a_local_array_that_nobody_set(body, place, mark):
    text = FUNCTIONS + source(f"int i = threadIdx.x;\n{body}")
    (problem,) = mg.inspect(text, X, X * 0, 1000, grid=1, block=4).problems
    assert (problem.kind, problem.line) == ("uninitialised", line_of(text, mark))
    assert f"reads {place}, which nothing has set" in " ".join(problem.message.split())
    assert problem.variable == place.split("[")[0]


@pytest.mark.parametrize(
    "body",
    [
        "float a[4];\nfill(a);\ny[i] = sum(a);",
        "float a[4];\nfor (int j = 0; j < 4; ++j) set(a[j]);\ny[i] = sum(a);",
        "float a[4];\n*(float4*)a = *(const float4*)x;\ny[i] = sum(a);",
        "float a[4];\nmemcpy(a, x, 16);\ny[i] = sum(a);",
        "float a[4], b[4];\na[0] = 1;\nfor (int j = 0; j < 4; ++j) b[j] = a[j];\ny[i] = b[0];",
        "float a[2];\na[0] = x[i];\nfor (int j = 0; j < 2; ++j) a[j] = __shfl_sync(0xffffffff, a[j], 0);\ny[i] = a[0];",
        "float a[3], old;\nfor (int j = 0; j < 6; ++j) { old = a[2]; a[2] = a[1]; a[1] = a[0]; a[0] = x[j]; if (j > 2) y[i] += old; }",
        "float a[2];\nif (i < 16) a[0] = x[i];\nconst float t = a[0], u = a[1];\ny[i] = i < 16 ? t : 0 * (i < 0 ? u : 1);",
        "float a[2];\na[0] = 1;\nexchange(a[0], a[1]);\ny[i] = a[1];\nP p[2], q;\nq = p[0]; p[0] = p[1]; P t = q;",
        "struct L { float a[2], n; } l, m;\nl.a[0] = 1; for (int j = 0; j < 2; ++j) m.a[j] = l.a[j];\ny[i] = m.a[0];",
        "P a[2];\na[0].a = 1;\na[0].b = 2;\na[1] = a[0];\ny[i] = a[1].b;",
        "switch (n) {\ncase 0:\n    break;\ndefault:\n    float a[2];\n    a[1] = 1;\n    y[i] = a[1];\n}",
        "auto f = [&](int j) {\n    float a[2];\n    a[j] = 1;\n    return a[j];\n};\ny[i] = f(1);",
        "struct alignas(16) L { float a[4]; int n; };\nL l;\nl.a[1] = 1;\ny[i] = l.a[1];",
        "struct __attribute__((aligned(16))) L { float a[4]; };\nL l;\nl.a[1] = 1;\nstruct L m[2];\nm[1] = l;\ny[i] = m[1].a[1];",
        "struct L { float a[4]; int n; };\nL l;\nl.a[1] = 1;\ny[i] = l.a[1];",
    ],
)
def test_an_element_that_is_set_or_only_handed_on_is_no_problem(body):
    text = FUNCTIONS + source(f"int i = threadIdx.x;\n{body}")
    assert mg.inspect(text, X, X * 0, 1000, grid=1, block=32).ok


NUMBERS = {  # by the variable that is read and not set on every way
    "m": "float m;\nif (n < 0) m = 3;\ny[i] = m;  // wrong",
    "scale": "double scale;\ny[i] = x[i] * scale;  // wrong",
    "half": "float half, other = 1;\nif (i < 0) half = x[i];\nother = half + 1;  // wrong\ny[i] = other;",
    "best": "int best;\nfor (int j = 0; j < 8; ++j)\n    if (x[j] - 9 > best) best = j;  // wrong\ny[i] = best;",
    "p": "const float* p;\nif (n < 0) p = x;\ny[i] = p[i];  // wrong",
    "at": "unsigned at;\nif (n < 0) at = i;\ny[i] = x[at & 63];  // wrong",
}
HANDED_ON = [
    "int base;\nif (i == 0) base = n;\nbase = taken(base, 0);\ny[i] = base;",
    "int start;\nif (i == 0) start = n;\nstart = FIRST(start);\ny[i] = start;",
    "float a[2];\na[0] = x[i];\nif (i == 0) a[1] = 1;\na[1] = FIRST(a[1]);\ny[i] = a[0] + a[1];",
    "int far = 0, best;\nfor (int j = 0; j < 8; ++j)\n    if (!far || j > best) { best = j; far = 1; }\nif (far && best > 3) y[i] = best + 1;",
    "float next, now = x[i];\nfor (int j = 1; j < 4; ++j) {\n    if (j < 3) next = x[j];\n    y[i] += now;\n    now = next;\n}",
    "float v;\nif (i < 16) v = x[i];\nauto f = [=](bool on) { return on ? v + 1 : 0; };\ny[i] = f(i < 16);",
    "float u;\nif (i < 16) u = x[i];\ny[i] = chosen(i < 16, u);",
    "float lower, upper;\nbounds(x, lower, &upper);\ny[i] = upper - lower * 2;",
    "float p, q;\np = q = x[i];\nfloat* to = &p;\n*to += 1;\ny[i] = p + q;",
    "switch (n % 3) {\n    float c;\ncase 0: c = 1; y[i] = c + 1; break;\ndefault: c = 2; y[i] = c + 2;\n}",
]  # fmt: skip
HANDING = """template <class T> __device__ T taken(T v, int lane) { return __shfl_sync(0xffffffff, v, lane); }
__device__ float chosen(bool on, float v) { return on ? v : 0; }
__device__ void bounds(const float* x, float& low, float* high) { low = x[0], *high = x[1]; }
#define FIRST(v) taken(v, 0)
"""


def test_numbers_that_nobody_set():
    """Each in one kernel of a file; it is told once, with its name."""
    for kernel, name in zip(
        kernels(f"int i = threadIdx.x;\n{body}" for body in NUMBERS.values()), NUMBERS, strict=True
    ):
        (problem,) = mg.inspect(kernel, X, X * 0, 9, grid=1, block=32).problems
        assert (problem.kind, problem.variable) == ("uninitialised", name) and "wrong" in problem.text
        assert re.match(rf"reads (and changes )?{name}, which nothing has set", problem.message)
        assert problem.count >= 32 or name == "p"


def test_a_number_that_is_set_or_only_handed_on_is_no_problem():
    bodies = (source(f"int i = threadIdx.x;\n{body}", name=f"k{at}") for at, body in enumerate(HANDED_ON))
    text = HANDING + "".join(bodies)
    for at, body in enumerate(HANDED_ON):
        record = mg.inspect(text, X, X * 0, 9, grid=1, block=32, name=f"k{at}")
        assert record.ok, (body, record)


@pytest.mark.parametrize("word", [0xFEFEFEFE, 0xAAAAAAAA, 0xFE000000, 0xFC000000, 0xFFFFFFFF, 0])
def test_no_constant_is_taken_for_a_value_that_is_not_set(word):
    """Where unset words hold something, it depends on their address."""
    body = f"unsigned a[4], h;\nh = {word}u;\nfor (int j = 0; j < 4; ++j) a[j] = {word}u;\nh ^= a[2];\na[1] += h;\ny[0] = a[1];"
    assert mg.inspect(source(body), X, X * 0, 1000, grid=1, block=1).ok


def test_a_variable_that_nobody_set_is_told_once():
    """Whatever is made of it later is undefined as well."""
    body = "float s, a[2];\nfor (int j = 0; j < n; ++j)\n    s += x[j];  // first\ns *= 2;\na[1] += s;  // second\ny[0] = a[1] + s;"
    text = source(body)
    found = mg.inspect(text, X * 0, X * 0, 10, grid=1, block=1).problems
    assert [(each.variable, each.line) for each in found] == [
        ("s", line_of(text, "first")),
        ("a", line_of(text, "second")),
    ]


def test_variables_of_two_functions_are_two_though_they_have_one_name():
    text = """__device__ float sum(const float* x) { float s; s += x[0]; return s; }  // function
""" + source("float s;\ns += x[1];  // kernel\ny[0] = s + sum(x);")
    found = mg.inspect(text, X, X * 0, 0, grid=1, block=1).problems
    assert [each.line for each in found] == [line_of(text, "// function"), line_of(text, "// kernel")]


def test_elements_without_a_name_are_told_each():
    body = "float a[2], b[2];\ny[0] = *(a + 1);  // first\ny[1] = *(b + 1);  // second"
    text = source(body)
    found = mg.inspect(text, X, X * 0, 0, grid=1, block=1).problems
    assert [each.line for each in found] == [line_of(text, "// first"), line_of(text, "// second")]


SUM = "int i = threadIdx.x;\n{}  // wrong"


@pytest.mark.parametrize(
    ("statement", "does", "dtype"),
    [
        ("y[i] += x[i];", "reads and changes y[0]", "float32"),
        ("atomicAdd(y, x[i]);", "changes by an atomic y[0]", "float32"),
        ("atomicMax(y + i, 5);", "changes by an atomic y[0]", "int32"),
        ("y[63 - i] *= 2;", "reads and changes y[63]", "float64"),
    ],
)
def test_an_output_that_nobody_has_written(statement, does, dtype):
    word = {"float32": "float", "int32": "int", "float64": "double"}[dtype]
    params = f"const float* x, {word}* y, int n"
    problem, text = look(SUM.format(statement), X, mg.empty(64, dtype=dtype, device="numpy").numpy(), 0, params=params)
    assert (problem.kind, problem.variable, problem.line) == ("uninitialised", "y", line_of(text, "wrong"))
    assert f"{does}, and nobody has written it" in problem.message and problem.count == 64


@pytest.mark.parametrize("first", ["y[i] = 0;", "atomicExch(y + i, 0.0f);", "y[i] = y[i + 64];"])
def test_an_output_that_the_kernel_writes_first_is_no_problem(first):
    y = mg.empty(128, device="sim")
    assert np.isnan(y.numpy()).all()
    text = source(f"int i = threadIdx.x;\n{first}\ny[i] += x[i];\natomicAdd(y + i, 1.0f);")
    assert mg.inspect(text, X, y, 0, grid=1, block=64).ok


OPEN = [  # a statement that C++ leaves open, and what is said of it; None: here it is as on a GPU
    ("q[0] = (int)x[i];", 3e9, "3e.09 becomes int, .* A GPU gives 2147483647,"),
    ("q[0] = x[i];", np.nan, "nan becomes int, .* A GPU gives 0,"),
    ("q[0] = double(x[i]);", np.nan, None),  # the lowest int
    ("q[0] = (int)x[i];", -3e9, None),
    ("q[0] = (int)(unsigned)x[i];", -5, "-5 becomes unsigned int, .* A GPU gives 0,"),
    ("q[0] = (unsigned char)x[i];", -5, "-5 becomes unsigned char, .* A GPU gives 0,"),
    ("q[0] = (unsigned char)x[i];", 300, None),
    ("q[0] = (signed char)x[i];", 3e9, "becomes signed char, .* A GPU gives -1,"),
    ("q[0] = (long long)x[i];", 1e30, "becomes long long int, .* A GPU gives 9223372036854775807,"),
    ("q[0] = (unsigned long long)x[i] > 0;", -5, "A GPU gives 0,"),
    ("q[0] = (int)(x[i] / 1e30f);", 3e9, None),
    ("q[0] = __float2int_rz(x[i]);", 3e9, None),
    ("q[0] = 1 << q[i + 1];", 35, "a shift of int by 35 bits"),
    ("q[0] = -8 >> q[i + 1];", 32, "a shift of int by 32 bits"),
    ("q[0] = 1u >> q[i + 1];", -1, "a shift of unsigned int by -1 bits"),
    ("q[0] = 5ll << q[i + 1] > 0;", 64, "a shift of long long int by 64 bits"),
    ("q[0] = 5ll << q[i + 1] > 0;", 35, None),
    ("q[0] = 0 << q[i + 1];", 35, None),
]


@pytest.mark.parametrize("statement, value, words", OPEN)
def test_a_result_that_is_not_that_of_a_gpu(statement, value, words):
    text = f"__global__ void k(const float* x, int* q) {{\n    int i = threadIdx.x;\n    {statement}\n}}"
    q = np.array([0, value if abs(value) < 100 else 0], np.int32)
    record = mg.inspect(text, np.array([value], np.float32), q, grid=1, block=1)
    found = [(each.kind, each.line) for each in record.problems]
    assert found == ([("unlike-gpu", 3)] if words else []) and re.search(words or "", str(record).replace("\n", " "))
    reads = [each for each in record.lines if each.kind == "read"]
    assert len(reads) == 1 and reads[0].requests == 1  # the check reads nothing a second time


def test_advice_for_a_mask_that_leaves_out_a_lane_that_calls():
    body = "float v = x[threadIdx.x];\nv += __shfl_down_sync(0xffff, v, 1);  // wrong\ny[threadIdx.x] = v;"
    problem = mg.inspect(source(body), X, X * 0, 0, grid=1, block=32).problems[0]
    assert problem.kind == "barrier-divergence" and "Name in the mask every lane that makes the call" in problem.message


def test_a_lane_that_goes_around_a_shuffle_is_not_said_to_have_returned():
    body = (
        "float v = x[threadIdx.x];\nif (threadIdx.x < 16) v += __shfl_down_sync(0xffffffff, v, 8);\ny[threadIdx.x] = v;"
    )
    problem, _ = look(body, block=32)
    assert problem.kind == "returned-lane" and "which has returned or gone around this call" in problem.message
