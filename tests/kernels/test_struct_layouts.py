"""Layouts of structs are the compiler's: the size of what is read is that of the host compiler; the rest is refused."""

import numpy as np
import pytest

import minigrad as mg
from minigrad.errors import CompileError, LaunchError

MACROS = """#ifndef R
#define R double
#endif
#ifndef N
#define N 3
#endif
%s
__global__ void k(P p, P* q, R* y) { y[0] = p.a + q[0].n + p.v[N - 1]; q[0].n = sizeof(P); }
"""
STRUCTS = [
    "struct P { R a; int n; R v[N]; };",
    "#define FIELDS R a; int n; R v[N];\nstruct P { FIELDS };",
    "typedef R real_t;\nstruct P { real_t a; int n; R v[N]; };",
    "using real_t = R;\ntypedef struct { R a, b; int n; real_t v[N]; } P;",
    "struct Q { R v[2]; };\nstruct P { Q q; R a; int n; R v[N]; };",
    "struct P { R a; int n; R v[N]; P() : a(0), n{1} {} explicit P(R b) : a{b}, n(2) { n = a > 0 ? 3 : 4; } };",
]


@pytest.mark.parametrize("struct", STRUCTS)
@pytest.mark.parametrize("defines", [{}, {"R": "float"}, {"R": "float", "N": 4}])
def test_macros_reach_members(struct, defines, kernel_device):
    kernel = mg.kernel(MACROS % struct, "k", defines)
    real = np.dtype("f4" if defines else "f8")
    wrong = np.zeros(1, "f4")
    with pytest.raises(TypeError, match="which is not P; that is") as caught:
        kernel(wrong[0], mg.tensor(wrong, device="sim"), mg.zeros(1, dtype=real, device="sim"), grid=1, block=1)
    dtype = eval(str(caught.value).partition("that is ")[2].rstrip("."), {"np": np})
    host = np.zeros(1, dtype)
    host["a"], host["n"], host["v"] = 1.5, 7, 0.25
    assert dtype["a"] == real and dtype["v"].shape == (defines.get("N", 3),)
    q, y = mg.tensor(host, device=kernel_device), mg.zeros(1, dtype=real, device=kernel_device)
    kernel(host[0], q, y, grid=1, block=1)
    assert y.numpy()[0] == 8.75 and q.numpy()["n"][0] == dtype.itemsize


READ = [
    "struct P { char c; int n; };",
    "#pragma pack(push, 1)\nstruct Q { char c; int n; };\n#pragma pack(pop)\nstruct P { char c; int n; };",
    "#define A16 __align__(16)\nstruct A16 P { float x; int n; };",
    "struct P { float x = 1.f; int n{2}; double d[2] = {1, 2}; };",
    "struct P { float m[2][3]; char c; double d; };",
    "#define N (1 << 3)\nstruct P { float x[N]; };",
    "#define N 8\nstruct P { float x[N / 2][N % 3]; };",
    "constexpr int M = 2; constexpr int N = M * 3; struct P { float x[N]; };",
    "struct P { int n;; mutable float x; friend struct Z; };",
    "struct P { float x; int n; P() = default; __host__ __device__ P(float a) : x(a), n(0) {} ~P() {}"
    " operator float() const { return x; } static_assert(sizeof(float) == 4); };",
    "struct P { char c; struct { double l; int r; } kids; union { double d; struct { int lo, hi; } w; }; char e; };",
    "struct P { char c; struct In { float x; char c; } in[2]; char d; In last; enum E { X, Y }; E e; enum { Z } f; };",
    "struct P { enum class E : char { X, Y } e; float c; enum { N = 3 }; static const int M = 2; float v[N][M]; };",
    "struct P { float a; bool operator==(const P& o) const { return a == o.a; } bool operator != (const P&) const;"
    " char c;"
    " float operator[](int) const { return a; } float operator()(int) { return a; } P& operator+=(float) {} };",
    "struct B { double d; int i; };\nstruct P : B { float b; };",
    "struct B { double d; int i; __device__ B() {} };\nstruct P : public B { float b; };",
    "struct B { double d; int i = 2; };\nstruct P : B { float b; };",
    "struct A { double d; };\nstruct B : A { int i; };\nstruct P : B { float b; };",
    "struct E {};\nstruct A { char c; };\nstruct B { short s; };\nstruct P : E, A, public B { float b; };",
    "class B { double hidden; int i; public: int j() { return i; } };\nstruct P : B { float b; };",
    "template <typename T> struct B { T x; char c; };\nstruct P : B<double> { int n; };",
    "struct P { char c; alignas(8) char d, e; mutable float x; alignas(16) float a; char f; };",
    "struct alignas(32) P { const float a; float b; };",
    "struct P { char o; float1 a; double4 b; longlong3 c; long4 d; uchar3 e; ushort4 f; u_int32_t g; uint8_t h; };",
    "struct P { char c; volatile float x; };",
    "namespace q { struct S { char c; double d; }; }\nstruct P { q::S s; char c; };",
    "struct P { union { float f; int i; } u[2]; char c; };",
]


def read(struct: str, kernel: str = "{}") -> np.dtype:
    """The dtype that a message gives for P."""
    with pytest.raises(TypeError) as caught:
        mg.kernel(f"{struct}\n__global__ void k(P* p) {kernel}", "k")(mg.zeros(1, device="sim"), grid=1, block=1)
    return eval(str(caught.value).partition("that is ")[2].rstrip("."), {"np": np})


@pytest.mark.parametrize("struct", READ)
def test_a_layout_is_that_of_the_compiler(struct):
    dtype = read(struct)
    names = [name for name in dtype.names if name not in ("hidden", "i") or "class B" not in struct]
    said = ", ".join([*(f"(long long)__builtin_offsetof(P, {name})" for name in names), "sizeof(P)"])
    text = f"{struct}\n__global__ void k(long long* y, P* p) {{ long long a[] = {{{said}}};"
    text += " for (long long each : a) *y++ = each; }"
    y = mg.tensor(np.zeros(len(names) + 1, "i8"), device="sim")
    mg.kernel(text, "k")(y, mg.tensor(np.zeros(1, dtype), device="sim"), grid=1, block=1)
    assert y.numpy().tolist() == [*(dtype.fields[name][1] for name in names), dtype.itemsize]


def test_a_layout_that_the_compiler_does_not_confirm_is_an_error():
    struct = '_Pragma("pack(1)") struct P { char c; int n; };'
    kernel = mg.kernel(f"{struct}\n__global__ void k(P* p) {{}}", "k")
    with pytest.raises(CompileError, match="struct P: the compiler places its members otherwise than minigrad reads"):
        kernel(mg.tensor(np.zeros(1, read(struct)), device="sim"), grid=1, block=1)


def test_constants_and_bases_by_value(kernel_device):
    text = """struct B { double d; int i = 4; };
struct P : B { const float a; union { float f; int n; }; struct { short l, r; } kids[2]; };
__global__ void k(P p, float* y) { y[0] = p.d + 10 * p.i + 100 * p.a + 1000 * p.f + 10000 * p.kids[1].r; }"""
    y = mg.zeros(1, device=kernel_device)
    given = {"d": 1, "i": 2, "a": 3, "f": 4, "kids": [(0, 0), (0, 5)]}
    with pytest.raises(TypeError) as caught:
        mg.kernel(text, "k")(0, y, grid=1, block=1)
    value = np.zeros((), eval(str(caught.value).partition("a record of ")[2].rstrip("."), {"np": np}))
    for name, number in given.items():
        value[name] = number
    mg.kernel(text, "k")(value, y, grid=1, block=1)
    assert y.item() == 54321


@pytest.mark.parametrize("given", [-9.81, {"z": -9.81}, (0, 1), np.ones((2, 3))])
def test_a_vector_in_a_struct_takes_all_its_numbers(given):
    text = "struct P { float3 g; float m; };\n__global__ void k(float* y, P p) { y[0] = p.g.z; }"
    assert mg.inspect(text, np.zeros(1, np.float32), {"g": (0, 0, -9.81), "m": 1}, grid=1, block=1).ok
    with pytest.raises(TypeError, match=r"its member g: .* does not fit into 3 numbers of float32"):
        mg.inspect(text, np.zeros(1, np.float32), {"g": given, "m": 1}, grid=1, block=1)


@pytest.mark.parametrize("given", [[[1.5, 2], [3, 4]], [[2**35, 2], [3, 4]], [1, 2]])
def test_vectors_in_a_struct_take_whole_numbers_that_fit(given):
    text = "struct P { int2 q[2]; };\n__global__ void k(float* y, P p) { y[0] = p.q[1].x; }"
    assert mg.inspect(text, np.zeros(1, np.float32), {"q": [[1, 2], [3, 4]]}, grid=1, block=1).ok
    with pytest.raises(TypeError, match=r"its member q: .* does not fit into 2 x 2 numbers of int32"):
        mg.inspect(text, np.zeros(1, np.float32), {"q": given}, grid=1, block=1)


def test_a_member_may_have_the_name_of_a_constant_within_a_function(kernel_device):
    text = """const int rows = 2;
struct P { int n, steps; float v[rows]; };
__global__ void k(P p, float* y) { const int steps = 3; y[0] = p.n + 10 * p.steps + 100 * p.v[1] + 1000 * steps; }
__device__ int other() { const int n = 1 << 20; return n; }"""
    y = mg.zeros(1, device=kernel_device)
    mg.kernel(text, "k")({"n": 1, "steps": 2, "v": [0, 3]}, y, grid=1, block=1)
    assert y.item() == 3321
    assert mg.adjoint(text.replace("p.steps", "y[0]"), "k").wrt == ("y",)


REFUSED = [
    "struct __attribute__((packed)) P { char c; int n; };",
    "struct P { char c; int n; } __attribute__((packed));",
    "typedef struct __attribute__((packed)) { char c; int n; } P;",
    "typedef struct { char c; int n; } __attribute__((packed)) P;",
    "#pragma pack(1)\nstruct P { char c; int n; };\n#pragma pack()",
    "#define ARRAY(t, n) t n[4]\nstruct P { ARRAY(float, x); int n; };",
    "struct P { virtual void f() {} float x; };",
    "struct P { int n; float data[]; };",
    "struct P { int n __attribute__((aligned(16))); float x; };",
    "struct P { unsigned a : 3; unsigned b : 5; };",
    "struct B { float x; };\nstruct P : virtual B { int n; };",
    "struct P { float& r; };",
    "namespace a { struct P { double q; }; }\nstruct P { int n; };",
]


@pytest.mark.parametrize("struct", REFUSED)
def test_what_is_not_read_is_refused(struct):
    text = f"{struct}\n__global__ void k(P* p) {{ p[0] = P(); }}"
    with pytest.raises(LaunchError, match=r"struct P: the layout of .* is not read here"):
        mg.kernel(text, "k")(mg.zeros(4, device="sim"), grid=1, block=1)


@pytest.mark.parametrize("name", ["T", "A", "P", "F", "n", "type"])
def test_a_macro_of_any_name_may_stand_ahead_of_a_struct(name, kernel_device):
    text = f"#define {name} double\nstruct S {{ int a; }};\n__global__ void k(S s, {name}* y) {{ y[0] = s.a; }}"
    y = mg.tensor(np.zeros(1), device=kernel_device)
    mg.kernel(text, "k")(np.array((3,), [("a", "i4")]), y, grid=1, block=1)
    assert y.numpy().tolist() == [3]


def test_members_to_which_nobody_gives_a_value_are_named(kernel_device):
    """Neither pointers, members of which the text gives some, nor the others of a union, of which one is given."""
    text = """struct Grid { int nx, ny; }; struct Own { int a = 2, b; }; union U { int i; float f; };
    struct P { Grid grid, other; float dt = 2, alpha; const float* x; Own own; U u; };
    __global__ void k(P p, float* y) { y[0] = p.grid.nx + p.grid.ny + p.alpha + p.dt + p.own.a; }"""
    kernel, y = mg.kernel(text, "k"), mg.zeros(1, device=kernel_device)
    with pytest.warns(UserWarning) as said:
        kernel({"grid": {"nx": 1}, "u": {"f": 1}}, y, grid=1, block=1)
    told = ["nobody sets p.grid.ny, so it is 0.", "nobody sets p.other, p.alpha, so they are 0."]
    assert [str(each.message) for each in said] == told
    kernel({"grid": {"nx": 1, "ny": 2}, "other": {"nx": 0, "ny": 0}, "alpha": 1, "u": {"i": 1}}, y, grid=1, block=1)
    assert y.item() == 1 + 2 + 1 + 2 + 2
