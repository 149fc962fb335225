"""Shared memory that is declared outside of functions: every use of it, on `sim` and under the microscope."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import CompileError

FILE = """extern __shared__ unsigned char s[];
#define FLOATS ((float*)s)
__shared__ float tile[32], one;
extern __shared__ int fixed[32];  // with an extent: as if it were static
__device__ unsigned char* same(unsigned char* p) { return p; }
template <class T> __device__ T* deduced(T* p) { return p; }
template <class T> __device__ T* all() { return reinterpret_cast<T*>(s); }
template <class T> struct Shared { __device__ operator T*() { return (T*)s; } };
__device__ float parameter(float s) { return s; }
struct Sum { float s; __device__ float plus(float v) { s += v; return s; } };
__global__ void k(const float* x, float* y) {
    int i = threadIdx.x;
    %s
    f[i] = x[i];
    __syncthreads();
    y[i] = f[(i + 1) %% 32];
    Sum sum{2};
    y[i] += parameter(sum.plus(1)) - 3;
}
"""
USES = [
    "float* f = reinterpret_cast<float*>(s);",
    "float* f = (float*)s;",
    "float* f = reinterpret_cast<float*>(s + 0);",
    "float* f = (float*)&s[0];",
    "float* f = (float*)&s;",
    "float* f = reinterpret_cast<float*>(&s);",
    "float (&f)[32] = *reinterpret_cast<float (*)[32]>(s);",
    "auto p = s; p += 0; float* f = (float*)p;",
    "auto* p = s; float* f = (float*)p;",
    "float* f = (float*)(i < 0 ? s + 4 : s);",
    "float* f = (float*)same(s);",
    "float* f = (float*)deduced(s);",
    "float* f = all<float>();",
    "Shared<float> all; float* f = all;",
    "float* f = FLOATS;",
    "size_t at = (size_t)s; float* f = (float*)at;",
    "float* f = (float*)s; { float s = 1; f[i] = s; }",
    "auto at = [&](int n) { return (float*)s + n; }; float* f = at(0);",
    "auto at = [](int n) { return [=](int m) { return (float*)s + n + m; }; }; float* f = at(0)(0);",
    "float* f = tile; one = 1;",
    "float* f = (float*)fixed;",
    "auto row = [=](int n) { return tile + n; }; float* f = row(0);",
    "auto row = [](float* tile) { return tile; }; float* f = row((float*)s);",
    "__shared__ float own[32]; auto row = [](int n) -> float* { return own + n; }; float* f = row(0);",
]
X = np.arange(32, dtype=np.float32)


def look(text, shared=128):
    y = np.zeros_like(X)
    return mg.inspect(text, X, y, grid=1, block=32, shared=shared, name="k"), y


@pytest.mark.sample(3)
@pytest.mark.parametrize("use", USES)
def test_a_use_is_right_and_watched(use):
    text = FILE % use
    x, y = mg.tensor(X, device="sim"), mg.zeros(32, device="sim")
    mg.kernel(text, "k")(x, y, grid=1, block=32, shared=128)
    assert (y.numpy() == np.roll(X, -1)).all()
    record, y = look(text)
    assert [each for each in record.problems if not each.harmless] == [] and (y == np.roll(X, -1)).all()
    record, _ = look(text.replace("__syncthreads();", ""))
    assert "race" in {each.kind for each in record.problems if not each.harmless}


@pytest.mark.parametrize(
    "use",
    [use for use in USES if "tile" not in use.replace("float* tile", "") and "own" not in use and "fixed" not in use],
)
def test_an_access_behind_its_end_is_seen(use):
    record, _ = look(FILE % use, shared=124)
    problem = record.problems[0]
    assert (problem.kind, problem.variable, problem.element) == ("out-of-bounds", "s", 124)


def test_a_declaration_in_a_header_counts_behind_its_include(tmp_path):
    (tmp_path / "own.cuh").write_text(
        "__device__ float twice(float s) { float t = s; return 2 * t; }\n"
        "__device__ float third(int i) { float s[3] = {1, 2, 3}; return s[i]; }\n"
    )
    (tmp_path / "memory.cuh").write_text(
        '#include "own.cuh"\nextern __shared__ float s[];\n#define PUT(i, v) s[i] = v\n'
    )
    (tmp_path / "user.cuh").write_text("__device__ float read(int i) { return s[i] + t[i]; }\n")
    text = (
        '__shared__ float t[4];\n#include "memory.cuh"\n#include "user.cuh"\n'
        "__global__ void k(float* y) { PUT(0, 3); t[0] = third(1); y[0] = twice(read(0)); }\n"
    )
    (tmp_path / "main.cu").write_text(text)
    y = mg.zeros(1, device="sim")
    mg.kernel(tmp_path / "main.cu", "k")(y, grid=1, block=1, shared=4)
    assert y.numpy()[0] == 10


BODY = "__global__ void k(const float* x, float* y) { int i = threadIdx.x; s[i] = x[i]; __syncthreads(); y[i] = s[31 - i]; }"
OUTER = "extern __shared__ float s[];\n"
IN = BODY.replace("{ int", "{ %s int")
DECLARED = [
    f"namespace a {{ namespace b {{\n__shared__ float s[32];\n{BODY}\n}} }}",
    f"namespace a {{ {OUTER} }}\nusing namespace a;\n{BODY}",
    f"namespace a {{ {OUTER} }}\n" + BODY.replace("s[", "a::s["),
    OUTER + BODY.replace(" s[", " ::s["),
    OUTER + OUTER + BODY,
    f"#ifdef DOUBLE\nextern __shared__ double s[];\n#else\n{OUTER}#endif\n{BODY}",
    "extern __shared__ float s[][32];\n" + BODY.replace("s[", "s[0]["),
    f"extern volatile __shared__ __align__(128) float s[];\n{BODY}",
    f"struct All {{ static __device__ float* at(); }};\n{OUTER}__device__ float* All::at() {{ return s; }}\n"
    + BODY.replace("s[", "All::at()["),
    f"{OUTER}struct At {{ float* p; __device__ At(int n) : p(s + n) {{}} }};\n" + BODY.replace("s[", "At(0).p["),
    f"{OUTER}struct At {{ float* p = s; }};\n" + BODY.replace("s[", "At().p["),
    f"{OUTER}__device__ float* at(int n, float* p = s) {{ return p + n; }}\n" + BODY.replace("s[", "at(0)["),
    f"{OUTER}__global__ void other(float* s) {{ s[0] = 1; }}\n{BODY}",
    "#define DECLARE extern __shared__ float s[];\n" + IN % "DECLARE",
    "#define DECLARE extern __shared__ float s[];\nDECLARE\n" + BODY,
    "#define DECLARE(T, name) __shared__ T name[32]\n" + IN % "DECLARE(float, s);",
    "#define NAMED(name) __shared__ float name##_[32]\n" + (IN % "NAMED(s);").replace("s[", "s_["),
    "#define SHARED __shared__\n#define TILE(T, name) \\\n    SHARED T name[32]\n" + IN % "TILE(float, s);",
    "#define SHARED extern __shared__\nSHARED float s[];\n__device__ int a;\n" + BODY,
    "template <int N> struct Tile { float v[N]; template <bool> __device__ float* all() { return v; }\n"
    "static __device__ float* at() { __shared__ Tile<N> s; return s.all<true>(); } };\n"
    + BODY.replace("s[", "Tile<32>::at()["),
    "#define HEAD int j = threadIdx.x; __shared__ float s[32]; float zero = 0 * j;\n"
    + (IN % "HEAD").replace("= x[i]", "= x[i] + zero"),
    "template <class T> struct Shared {};\n"
    "#define OF(T) template <> struct Shared<T> { \\\n"
    "    __device__ operator T*() const { extern __shared__ T s_[]; return (T*)s_; } };\n"
    "OF(double)\nOF(float)\n" + (IN % "float* a = Shared<float>();").replace("s[", "a["),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", DECLARED)
def test_a_declaration_of_every_kind(text):
    x, y = mg.tensor(X, device="sim"), mg.zeros(32, device="sim")
    mg.kernel(text, "k")(x, y, grid=1, block=32, shared=128)
    assert (y.numpy() == X[::-1]).all()
    record, _ = look(text.replace("__syncthreads();", ""))
    assert {(each.kind, each.variable.rstrip("_")) for each in record.problems if not each.harmless} == {("race", "s")}


START = "int i = threadIdx.x; if (i == 0) s = 7; __syncthreads();"
MEMBER = "P p; p.s = x[i]; y[i] = p.twice() + s;"
METHOD = "__device__ float twice() const { return s * 2; }"
BODY_OF = "__device__ float twice() const; };\n__device__ float P::twice() const { return s * 2; }"
LAMBDA = "auto f = [=]() { return s * 2; };"
HIDDEN = [  # where another variable has the name of shared memory, the declarations and the kernel's body: 2 x + 7
    (f"struct B {{ float s; }}; __shared__ float s; struct P : B {{ {METHOD} }};", f"{START} {MEMBER}"),
    (f"struct A {{ float s; }}; struct B : A {{}}; __shared__ float s; struct P : B {{ {METHOD} }};", f"{START} {MEMBER}"),
    (f"__shared__ float s; struct P {{ float s; {BODY_OF}", f"{START} {MEMBER}"),
    ("__shared__ float s;", f"{START} {{ float s = x[i]; {LAMBDA} y[i] = f(); }} y[i] += s;"),
    ("__shared__ float s;", f"{START} {{ float a = 0, s = x[i]; {LAMBDA} y[i] = a + f(); }} y[i] += s;"),
    ("", f"__shared__ float s; {START} {{ float s = x[i]; {LAMBDA} y[i] = f(); }} y[i] += s;"),
    ("", f"int i = threadIdx.x; {{ __shared__ float s; s = 7; }} {{ float s = x[i]; {LAMBDA} y[i] = f() + 7; }}"),
    (f"__shared__ float s; __device__ float g(float s) {{ {LAMBDA} return f(); }}", f"{START} y[i] = g(x[i]) + s;"),
    ("__shared__ float s; namespace q { constexpr float s = 2; __device__ float g() { return s; } }",
     f"{START} y[i] = q::g() * x[i] + s;"),
    ("__shared__ float s; namespace q { enum { s = 2 }; __device__ float g() { return s; } }",
     f"{START} y[i] = q::g() * x[i] + s;"),
    ("__shared__ float s; namespace q { __device__ float s(float a) { return 2 * a; } __device__ float g(float a) "
     "{ return s(a); } }", f"{START} y[i] = q::g(x[i]) + s;"),
    ("__shared__ float s; template <int s> __device__ float g(float a) { float q[s] = {a, a}; return q[0] + q[s - 1]; }",
     f"{START} y[i] = g<2>(x[i]) + s;"),
    ("__shared__ float s; __device__ constexpr float g(float a) { float s = a; return 2 * s; }", f"{START} y[i] = g(x[i]) + s;"),
    ("namespace q { __shared__ float s; } using q::s;", f"{START} y[i] = 2 * x[i] + s;"),
    ("struct B { static constexpr int s = 2; }; __shared__ float s; struct P : B { __device__ float f(float a) const "
     "{ float q[s] = {a, a}; return q[0] + q[1]; } };", f"{START} y[i] = P().f(x[i]) + s;"),
    ("__shared__ float s;", f"{START} float a = x[i]; for (int s = 0; s < 1; ++s) a += x[i]; auto g = [](float s) "
     "{ return s; }; auto f = [=]() { return g(a) + s; }; y[i] = f();"),
    ("", f"__shared__ float s; {START} decltype(s) v = s; v += x[i]; __syncthreads(); y[i] = s + 2 * (v - 7);"),
    ("namespace a { namespace b { __shared__ float s; } } namespace c = a::b; ",
     START.replace(" s ", " a::b::s ") + " decltype(c::s) v = c::s; v += x[i]; __syncthreads(); y[i] = a::b::s + 2 * (v - 7);"),
    ("namespace a { __shared__ float s; } __shared__ float s;", f"using a::s; {START} if (!i) ::s = 9; y[i] = 2 * x[i] + s;"),
    ("namespace a { __shared__ float s; }", f"using namespace a; {START} y[i] = 2 * x[i] + s;"),
    ("__shared__ float t[7]; constexpr int N = sizeof(t) / sizeof(t[0]), B = sizeof t;",
     "int i = threadIdx.x; y[i] = 2 * x[i] + N + B - 28;"),
    ("__shared__ float s; struct P { float a; __device__ float f(float s) const; struct Q { float s; } q; float (*p)(float s);"
     "__device__ float g() { return a * 2 + q.s + s; } template <int s> __device__ int h() { return s; } };"
     "__device__ float P::f(float s) const { return s; }", f"{START} P p{{x[i]}}; y[i] = p.g() + p.h<3>() + p.f(-3);"),
    ("__shared__ float s; struct P { float a; __device__ P(float n) : a(n * s) { a += s; } };",
     f"{START} y[i] = 2 * x[i] + P(1).a - s;"),
    (f"__shared__ float s; struct P {{ union {{ float s; int n; }}; {METHOD} }};", f"{START} P p; p.s = x[i]; y[i] = p.twice() + s;"),
    (f"__shared__ float s; struct P {{ int n : 2, s : 8; {METHOD} }};", f"{START} P p; p.s = x[i]; y[i] = p.twice() + s;"),
    ("__shared__ float s; struct P { float a; __device__ float f(float s) { auto f = [=] { return s; }; return f(); }"
     "__device__ float g() { auto g = [=] { return s; }; return f(a) * 2 + g(); } };", f"{START} P p{{x[i]}}; y[i] = p.g();"),
    ("#define TAKE(v) auto f = [=] { return v; }", f"__shared__ float s; {START} float a = 2 * x[i]; TAKE(a); y[i] = f() + s;"),
    ("#define TAKE(v) auto f = [&] { return v; }", f"__shared__ float s; {START} TAKE(s); y[i] = f() + 2 * x[i];"),
]  # fmt: skip


@pytest.mark.parametrize("declared, body", HIDDEN)
def test_another_variable_hides_shared_memory_of_its_name(declared, body):
    text = f"{declared}\n__global__ void k(const float* x, float* y) {{ {body} }}"
    y = mg.zeros(32, device="sim")
    mg.kernel(text, "k")(mg.tensor(X, device="sim"), y, grid=1, block=32)
    assert (y.numpy() == 2 * X + 7).all()


@pytest.mark.parametrize(
    "use", ["decltype(auto) v = s;", "float& r = y[i]; { float& s = r; decltype(s) v = s; }", "SAME(v, s);"]
)
def test_a_type_that_is_not_known_is_refused(use):
    text = (
        "#define SAME(a, b) decltype(b) a = b\n__shared__ float s;\n__global__ void k(float* y) {\nint i = 0;\n"
        + use
        + " }"
    )
    with pytest.raises(CompileError, match=r"k\.cu\(5\): write the type of the __shared__ variable in place of"):
        mg.kernel(text, "k")(mg.zeros(1, device="sim"), grid=1, block=1)


@pytest.mark.parametrize(
    "other",
    [
        "__device__ float s(int); __device__ float s(float a); __device__ float g(float a) { return s(a); }",
    ],
)
def test_a_name_of_two_things_is_told(other):
    text = "__shared__ float s;\nnamespace q { " + other + " }\n__global__ void k(float* y) { s = 1; y[0] = q::g(s); }"
    with pytest.raises(
        CompileError, match=r"k\.cu\(2\): error: the __shared__ variable s, k\.cu\(1\), .* another name"
    ):
        mg.kernel(text, "k")(mg.zeros(1, device="sim"), grid=1, block=1)


def test_a_lambda_that_takes_one_of_two_variables_of_a_name_is_refused():
    text = f"""__shared__ float s;
struct P {{ float s; __device__ float twice() const; }};
__device__ float P::twice() const {{ {LAMBDA} return f(); }}
__global__ void k(const float* x, float* y) {{ {START} {MEMBER} }}"""
    with pytest.raises(CompileError, match=r"k\.cu\(3\).*give the __shared__ one a name of its own"):
        mg.kernel(text, "k")(mg.tensor(X, device="sim"), mg.zeros(32, device="sim"), grid=1, block=32)


@pytest.mark.parametrize(
    "macro, makes",
    [
        ("#define TAKE(v) auto f = [=] { return v; }", "TAKE(s);"),
        ("#define TAKE [=] { return s; }", "auto f = TAKE;"),
        ("#define TAKE [=] __device__", "auto f = TAKE () { return s; };"),
        ("#define BODY(v) { return v; }", "auto f = [=]() BODY(s);"),
        ("#define COPY(v) [=] { return v; }\n#define TAKE(v) auto f = COPY(v)", "TAKE(s);"),
        ("#define MINE s\n#define TAKE() [=] __device__ ()", "auto f = TAKE() { return MINE; };"),
    ],
)
@pytest.mark.parametrize("outside", ["", "__shared__ float s;"])
def test_a_macro_makes_no_lambda_with_a_copy_of_shared_memory(macro, makes, outside):
    inside = "" if outside else "__shared__ float s;"
    text = f"{macro}\n{outside} __global__ void k(float* y) {{ {inside} {makes} s = 1; y[0] = f(); }}"
    with pytest.raises(
        CompileError, match=r"k\.cu\(.\): a lambda that a macro makes would have a copy of a __shared__"
    ):
        mg.kernel(text, "k")(mg.zeros(1, device="sim"), grid=1, block=1)
